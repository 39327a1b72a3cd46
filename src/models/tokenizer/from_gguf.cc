#include <utility>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/gguf_parts.h"
#include "models/tokenizer/loaders.h"

namespace mainstem::tokenizer {
namespace {

constexpr const char* kPre = "tokenizer.ggml.pre";

std::vector<MergeSpec> read_merges(const GgufFile& file) {
  const std::vector<std::string_view> lines = file.need_strings("tokenizer.ggml.merges");
  std::vector<MergeSpec> merges(lines.size());
  for (size_t rank = 0; rank < lines.size(); ++rank) {
    // As llama.cpp: the first character may itself be a space.
    const size_t space = lines[rank].find(' ', 1);
    if (space == std::string_view::npos || space + 1 == lines[rank].size()) {
      throw bad_input("merge " + std::to_string(rank), "two texts with a space between them",
                      quote(lines[rank]));
    }
    merges[rank] = {lines[rank].substr(0, space), lines[rank].substr(space + 1)};
  }
  return merges;
}

std::string_view need_pretokenizer(const GgufFile& file) {
  const auto name = file.get_string(kPre);
  if (!name) {
    throw bad_input(kPre, "the name of a pre-tokenizer", "no such key")
        .hint(
            "old converters left it out; convert again, or add the key with gguf-py's "
            "gguf_new_metadata.py --pre-tokenizer");
  }
  return *name;
}

TokenizerSpec read_byte_level_bpe(const GgufFile& file) {
  TokenizerSpec spec;
  const std::string_view pre = need_pretokenizer(file);
  spec.stages = with_context(kPre, [&] { return known_pretokenizer(pre); });
  spec.rules = {"model: byte-level BPE (tokenizer.ggml.model gpt2)",
                "pre-tokenizer: " + std::string(pre) + " (" + kPre + ")",
                "normaliser: none (GGUF files name none)"};
  spec.tokens = read_gguf_tokens(file, /*with_scores=*/false);
  spec.allow_duplicate_texts = true;
  spec.merges = read_merges(file);
  // Llama 3's own rules, which its GGUF files leave to the reader.
  const bool is_llama3 =
      pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3" || pre == "falcon3";
  spec.ignore_merges = is_llama3;

  read_gguf_ids(file, spec);
  add_gguf_around(file,
                  {.name = "BOS",
                   .flag_key = "tokenizer.ggml.add_bos_token",
                   .by_default = is_llama3,
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
  return spec;
}

TokenizerSpec read_spec(const GgufFile& file) {
  const std::string_view model = file.need_string("tokenizer.ggml.model");
  if (model == "gpt2") return read_byte_level_bpe(file);
  if (model == "llama") return read_gguf_sentencepiece_bpe(file);
  if (model == "t5") return read_gguf_unigram(file);
  if (model == "bert") return read_gguf_word_piece(file);
  throw bad_input("tokenizer.ggml.model",
                  "gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (SentencePiece unigram) or "
                  "bert (WordPiece)",
                  quote(model));
}

}  // namespace

std::shared_ptr<const Pipeline> from_gguf(const GgufFile& file) {
  return with_context(file.path(), [&] { return build_pipeline(read_spec(file)); });
}

}  // namespace mainstem::tokenizer
