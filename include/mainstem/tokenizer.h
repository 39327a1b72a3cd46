#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

class GgufFile;

namespace tokenizer {
class Pipeline;  // src/models/tokenizer/pipeline.h

/// How far the joining of tokens to a text has come.
struct JoinState {
  bool first = true;      ///< no token yet
  bool stripping = true;  ///< all that came so far was taken away
  uint32_t stripped = 0;  ///< how much that was
};
}  // namespace tokenizer

/// What becomes of a byte (or, where tokens are of characters, a character) that the vocabulary has
/// no token for. Some vocabularies lack bytes that their training text never held (SmolLM2 has no
/// token for 0x04 or 0xFF). An unknown token that the model itself names for this (model.unk_token
/// in tokenizer.json) is used before either.
enum class MissingByte {
  kError,  ///< an Error that names it
  kDrop,   ///< it is lost without a word, as in tokenizers and llama.cpp
};

struct EncodeOptions {
  /// Add the tokens that the model's files want around every text (BOS, EOS).
  bool add_special = true;
  /// Text such as "<|im_end|>" becomes its control token. If false it is ordinary text; added
  /// tokens that are not special still match.
  bool parse_special = true;
  MissingByte missing_byte = MissingByte::kError;
};

/// What becomes of bytes that are not UTF-8: a model may end inside a character.
enum class InvalidUtf8 {
  kReplace,  ///< one U+FFFD per maximal broken sequence, as Rust, Python and WHATWG do
  kKeep,     ///< the bytes as they are: decode(encode(text)) == text for any bytes
};

struct DecodeOptions {
  bool skip_special = true;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kReplace;
};

/// Turns text into token ids and back, as the model's own files say.
///
/// Immutable after loading: one object may be used from any number of threads; copies share the
/// vocabulary. Ids are those of the model's embedding rows.
///
///     auto tokenizer = mainstem::Tokenizer::load("model.gguf");
///     std::vector<int64_t> ids = tokenizer.encode("Hello world");
///     for (int64_t id : ids) std::cout << id << ' ' << tokenizer.piece(id) << '\n';
///     std::string text = tokenizer.decode(ids);
///
/// Supported: byte-level BPE, BPE of characters with byte tokens, SentencePiece BPE and unigram,
/// WordPiece; docs/tokenizers.md says which rule comes from where. The rules are chosen by the
/// file's words only (`tokenizer.ggml.model` and `.pre`, the structure of tokenizer.json), never by
/// the model's name; an unknown one is an Error that lists the known ones. Character classes are
/// those of Unicode 16 on every system. Sources: tokenizers 0.23.3 for tokenizer.json and
/// vocab.txt; llama.cpp's vocabulary code (the library behind llama-cpp-python 0.3.36) for GGUF;
/// sentencepiece 0.2.3 for its models.
class Tokenizer {
 public:
  /// A folder with tokenizer.json, tokenizer.model, spiece.model, source.spm with vocab.json
  /// (Marian), or vocab.txt (BERT), the first of these that is there; tokenizer_config.json,
  /// generation_config.json and config.json beside it are read for special ids and flags. Or one of
  /// these files itself (target.spm too), or a .gguf file.
  static Tokenizer load(const std::filesystem::path& folder_or_file);

  /// From a file that is open already. The tokenizer keeps nothing of it.
  static Tokenizer from_gguf(const GgufFile& file);

  explicit Tokenizer(std::shared_ptr<const tokenizer::Pipeline> pipeline);

  /// Any bytes. Those that are not UTF-8 become byte tokens, or U+FFFD where the vocabulary has no
  /// tokens for bytes. Linear in the length of the text up to a logarithm.
  std::vector<int64_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Error(kUsage) for an id outside [0, vocab_size).
  std::string decode(std::span<const int64_t> ids, const DecodeOptions& options = {}) const;

  /// The bytes a token stands for (a piece of a word with its "##"); empty for ids the vocabulary
  /// leaves out.
  std::string_view token_bytes(int64_t id) const;
  /// The token for tables: its text, with control characters and broken UTF-8 written as escapes
  /// (\n, \t, \x1B) and backslashes doubled; always valid UTF-8 on one line.
  std::string piece(int64_t id) const;
  /// True for control tokens such as BOS, the ones `skip_special` leaves out.
  bool is_special(int64_t id) const;
  /// The id of an added or control token by its text ("<|im_end|>"), or of any other token by
  /// its bytes.
  std::optional<int64_t> find(std::string_view bytes) const;

  /// Largest id plus one. The model's head may be wider (padded rows).
  int64_t vocab_size() const;

  std::optional<int64_t> bos_id() const;
  std::optional<int64_t> eos_id() const;
  std::optional<int64_t> unknown_id() const;
  std::optional<int64_t> padding_id() const;
  /// Every id that ends a generated answer, rising: EOS, end of turn, and what
  /// generation_config.json lists.
  const std::vector<int64_t>& end_ids() const;
  /// What `add_special` puts before and after a text.
  const std::vector<int64_t>& prefix_ids() const;
  const std::vector<int64_t>& suffix_ids() const;
  /// Which of the file's rules were used, one sentence each ("pre-tokenizer: smollm
  /// (tokenizer.ggml.pre)", "BOS: not added (tokenizer.ggml.add_bos_token)").
  const std::vector<std::string>& rules() const;

 private:
  friend class StreamDecoder;
  std::shared_ptr<const tokenizer::Pipeline> pipeline_;
};

/// Decodes one id at a time for printing while a model generates. A character that is not yet
/// complete is held back; the pushes joined, with finish(), equal Tokenizer::decode.
///
///     mainstem::StreamDecoder decoder(tokenizer);
///     while (auto id = next()) std::cout << decoder.push(*id) << std::flush;
///     std::cout << decoder.finish();
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, const DecodeOptions& options = {});
  std::string push(int64_t id);
  /// What is still held back; the decoder is then ready for another text.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  tokenizer::JoinState state_;
  std::string held_;
};

}  // namespace mainstem
