#include <algorithm>

#include "mainstem/error.h"
#include "models/tokenizer/gguf_parts.h"

namespace mainstem::tokenizer {
namespace {

constexpr const char* kSpacePrefix = "tokenizer.ggml.add_space_prefix";
constexpr const char* kExtraSpaces = "tokenizer.ggml.remove_extra_whitespaces";
constexpr const char* kCharsmap = "tokenizer.ggml.precompiled_charsmap";

/// The texts of a SentencePiece vocabulary as text again.
DecoderSpec sentencepiece_decoder(bool space_prefix) {
  DecoderSpec decoder;
  decoder.steps = {{.kind = DecoderSpec::Step::Kind::kReplace, .from = "\u2581", .to = " "},
                   {.kind = DecoderSpec::Step::Kind::kBytes}};
  decoder.strip_count = space_prefix ? 1 : 0;
  return decoder;
}

void add_flag_rule(const GgufFile& file, const char* what, const char* key, bool value,
                   TokenizerSpec& spec) {
  spec.rules.push_back(std::string(what) + (value ? ": yes (" : ": no (") +
                       (file.get_bool(key) ? key : "default of the tokenizer's kind") + ")");
}

/// The token that stands for what no other covers: the key's, or the one of that type.
void set_missing(TokenizerSpec& spec) {
  spec.missing_id = spec.unknown_id;
  const auto found = std::ranges::find(spec.tokens, TokenKind::kUnknown, &TokenSpec::kind);
  if (!spec.missing_id && found != spec.tokens.end()) {
    spec.missing_id = found - spec.tokens.begin();
  }
  spec.fuse_missing = true;
  spec.byte_fallback = true;
}

/// llama.cpp's default ids, for files that leave the keys out and have such tokens.
void default_id(std::optional<int64_t>& id, int64_t value, const TokenizerSpec& spec) {
  if (!id && value < static_cast<int64_t>(spec.tokens.size())) id = value;
}

std::string read_charsmap(const GgufFile& file) {
  const GgufEntry* entry = file.entry(kCharsmap);
  if (entry == nullptr) return {};
  const bool bytes = entry->type == GgufType::kArray &&
                     (entry->element_type == GgufType::kU8 || entry->element_type == GgufType::kI8);
  if (!bytes) throw bad_input(kCharsmap, "an array of bytes", "another value");
  return {reinterpret_cast<const char*>(entry->bytes.data()), entry->bytes.size()};
}

}  // namespace

TokenizerSpec read_gguf_sentencepiece_bpe(const GgufFile& file) {
  TokenizerSpec spec;
  spec.model = ModelKind::kScoredBpe;
  spec.tokens = read_gguf_tokens(file, /*with_scores=*/true);
  spec.allow_duplicate_texts = true;
  spec.rules = {"model: SentencePiece BPE (tokenizer.ggml.model llama)"};
  const bool prefix = file.get_bool(kSpacePrefix).value_or(true);
  add_flag_rule(file, "a space before the text and after each special token", kSpacePrefix, prefix,
                spec);
  if (prefix) spec.normalizer.push_back(PrependStep{.content = " "});
  spec.normalizer.push_back(ReplaceStep{.pattern = " ", .content = "\u2581"});
  spec.decoder = sentencepiece_decoder(prefix);

  read_gguf_ids(file, spec);
  default_id(spec.bos_id, 1, spec);
  default_id(spec.eos_id, 2, spec);
  set_missing(spec);
  add_gguf_around(file,
                  {.name = "BOS",
                   .flag_key = "tokenizer.ggml.add_bos_token",
                   .by_default = true,
                   .id = spec.bos_id,
                   .id_key = "tokenizer.ggml.bos_token_id"},
                  spec.prefix_ids, spec.rules);
  add_gguf_around(file,
                  {.name = "EOS",
                   .flag_key = "tokenizer.ggml.add_eos_token",
                   .by_default = false,
                   .id = spec.eos_id,
                   .id_key = "tokenizer.ggml.eos_token_id"},
                  spec.suffix_ids, spec.rules);
  add_gguf_special(file, spec);
  if (spec.eos_id) spec.end_ids.push_back(*spec.eos_id);
  return spec;
}

TokenizerSpec read_gguf_unigram(const GgufFile& file) {
  TokenizerSpec spec;
  spec.model = ModelKind::kUnigram;
  spec.tokens = read_gguf_tokens(file, /*with_scores=*/true);
  spec.allow_duplicate_texts = true;
  spec.rules = {"model: SentencePiece unigram (tokenizer.ggml.model t5)"};
  SentencePieceStep step;
  step.charsmap = read_charsmap(file);
  step.add_dummy_prefix = file.get_bool(kSpacePrefix).value_or(false);
  step.remove_extra_whitespaces = file.get_bool(kExtraSpaces).value_or(false);
  add_flag_rule(file, "a space before the text and after each special token", kSpacePrefix,
                step.add_dummy_prefix, spec);
  add_flag_rule(file, "runs of spaces are one", kExtraSpaces, step.remove_extra_whitespaces, spec);
  spec.decoder = sentencepiece_decoder(step.add_dummy_prefix || step.remove_extra_whitespaces);
  spec.normalizer = {std::move(step)};

  read_gguf_ids(file, spec);
  default_id(spec.eos_id, 1, spec);
  set_missing(spec);
  add_gguf_around(file,
                  {.name = "BOS",
                   .flag_key = "tokenizer.ggml.add_bos_token",
                   .by_default = false,
                   .id = spec.bos_id,
                   .id_key = "tokenizer.ggml.bos_token_id"},
                  spec.prefix_ids, spec.rules);
  add_gguf_around(file,
                  {.name = "EOS",
                   .flag_key = "tokenizer.ggml.add_eos_token",
                   .by_default = true,
                   .id = spec.eos_id,
                   .id_key = "tokenizer.ggml.eos_token_id"},
                  spec.suffix_ids, spec.rules);
  add_gguf_special(file, spec);
  if (spec.eos_id) spec.end_ids.push_back(*spec.eos_id);
  return spec;
}

}  // namespace mainstem::tokenizer
