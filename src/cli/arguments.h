#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "mainstem/model.h"
#include "mainstem/session.h"

namespace mainstem::cli {

// One function per command adds it, with its options and what it does.
void add_example(CommandLine& line);
void add_inspect(CommandLine& line, const std::vector<std::string>& against);
void add_tokenize(CommandLine& line);
void add_run(CommandLine& line);
void add_embed(CommandLine& line);
void add_score(CommandLine& line);
void add_trace(CommandLine& line);
void add_check(CommandLine& line);
void add_diff(CommandLine& line);
void add_doctor(CommandLine& line);
void add_bench(CommandLine& line);
void add_draw(CommandLine& line, const std::vector<std::string>& against);

/// What every command takes.
struct CommonOptions {
  int64_t threads = 0;  ///< 0: all that this process may use
  std::string compute;
  bool json = false;
  Compute compute_mode() const;
  int thread_count() const { return static_cast<int>(threads); }
};
void add_common(Command& command, CommonOptions& options, const char* default_compute);

/// A model and what of it is loaded.
struct ModelOptions {
  std::string path;
  std::vector<std::string> allow_unknown_keys;
};
enum class ModelNeed { kRequired, kOptional };
void add_model(Command& command, ModelOptions& options, ModelNeed need = ModelNeed::kRequired);
/// Error (bad input) where there is nothing of that name.
void expect_model_path(const std::string& path);
Model load_model(const ModelOptions& options, bool with_tokenizer);

/// The text or ids to work on: exactly one of -p, --file or --tokens, as far as the command has
/// them.
struct PromptOptions {
  std::optional<Command> command;
  std::string text, file;
  std::vector<std::string> tokens, decoder_tokens;  ///< several only where a batch is taken
  bool from_file() const { return has_file && command->given("--file"); }
  /// False where ids are given: the tokenizer's files are then not needed.
  bool needs_tokenizer() const { return has_file || !command->given("--tokens"); }
  bool has_file = false;     ///< takes --file, else --tokens
  bool takes_batch = false;  ///< --tokens and --decoder-tokens may be given several times
  bool chat = false;         ///< the text is a user's turn, put into the model's template
  std::string system;        ///< the system's turn before it; empty: none
};
enum class PromptSources { kTextOrTokens, kTextOrFile, kTextOrBatch };
void add_prompt(Command& command, PromptOptions& options, PromptSources sources);
/// --chat and --system.
void add_chat(Command& command, PromptOptions& options);
/// Usage errors: none or several given, not a list of integers ("@FILE" reads one).
void check_prompt(const PromptOptions& options);
/// The ids of the text. With --chat it is rendered first, and no tokens are added: a template
/// holds its own. A usage Error where the model at `path` has no template.
std::vector<int64_t> encode_prompt(const PromptOptions& options, const Tokenizer& tokenizer,
                                   const std::string& path);

/// --decoder-tokens of the commands that run encoder-decoders.
void add_decoder_tokens(Command& command, PromptOptions& options);
/// What a sequence starts with: the prompt, for an encoder-decoder the encoder's share of it, and
/// then the decoder's ids or its start token. Usage errors: ids outside the vocabulary, none at
/// all, more than the model's context, decoder ids for a model without an encoder.
SequenceInput first_input(const PromptOptions& options, const Model& model);
/// The same for each --tokens of a batch; --decoder-tokens are one for each of them or one for all.
std::vector<SequenceInput> first_inputs(const PromptOptions& options, const Model& model);

/// "1,2,3" or numbers with spaces, or "@FILE" that holds them.
std::vector<int64_t> parse_ids(const std::string& text, const char* option);
/// "-" is standard input.
std::string read_text_file(const std::string& path_or_dash);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace mainstem::cli
