#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainstem/gguf.h"
#include "models/tokenizer/spec.h"

// What the readers of GGUF vocabularies share.

namespace mainstem::tokenizer {

/// `tokenizer.ggml.tokens` with their types and, if `with_scores`, their scores.
std::vector<TokenSpec> read_gguf_tokens(const GgufFile& file, bool with_scores);

/// The id under a key, which must be that of a token.
std::optional<int64_t> read_gguf_id(const GgufFile& file, const char* key, size_t token_count);

/// BOS, EOS, unknown and padding ids, as far as the file has them.
void read_gguf_ids(const GgufFile& file, TokenizerSpec& spec);

/// One of the two tokens that a file may want around every text.
struct GgufAround {
  const char* name;
  const char* flag_key;
  bool by_default;
  std::optional<int64_t> id;
  const char* id_key;
};
/// Adds the id to `ids` if the file's flag, or the default, asks for it, and says so in `rules`.
void add_gguf_around(const GgufFile& file, const GgufAround& token, std::vector<int64_t>& ids,
                     std::vector<std::string>& rules);

/// Control tokens and user-defined ones are found in the text before anything else; those that end
/// an answer are end ids.
void add_gguf_special(const GgufFile& file, TokenizerSpec& spec);

TokenizerSpec read_gguf_sentencepiece_bpe(const GgufFile& file);
TokenizerSpec read_gguf_unigram(const GgufFile& file);
TokenizerSpec read_gguf_word_piece(const GgufFile& file);

}  // namespace mainstem::tokenizer
