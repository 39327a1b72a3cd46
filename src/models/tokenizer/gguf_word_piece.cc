#include <algorithm>

#include "mainstem/error.h"
#include "models/tokenizer/bert_rules.h"
#include "models/tokenizer/gguf_parts.h"

namespace mainstem::tokenizer {
namespace {

constexpr std::string_view kWordStart = "\u2581";

/// Converters write "▁word" for "word" and "ing" for "##ing"; tokens in brackets stay as they are.
void restore_texts(TokenizerSpec& spec) {
  for (TokenSpec& token : spec.tokens) {
    if (token.text.starts_with('[') && token.text.ends_with(']')) continue;
    if (token.kind != TokenKind::kNormal) continue;
    if (token.text.starts_with(kWordStart)) {
      token.text.remove_prefix(kWordStart.size());
    } else {
      spec.owned_texts.push_back("##" + std::string(token.text));
      token.text = spec.owned_texts.back();
    }
  }
}

bool has_upper_case(const TokenizerSpec& spec) {
  return std::ranges::any_of(spec.tokens, [](const TokenSpec& token) {
    const bool special = token.kind != TokenKind::kNormal || token.text.starts_with('[');
    return !special && std::ranges::any_of(token.text, [](char c) { return c >= 'A' && c <= 'Z'; });
  });
}

}  // namespace

TokenizerSpec read_gguf_word_piece(const GgufFile& file) {
  TokenizerSpec spec;
  spec.model = ModelKind::kWordPiece;
  spec.tokens = read_gguf_tokens(file, /*with_scores=*/false);
  spec.allow_duplicate_texts = true;
  restore_texts(spec);
  // The file does not say whether the model knows upper case; its vocabulary does.
  const bool cased = has_upper_case(spec);
  spec.normalizer = {BertStep{.strip_accents = !cased, .lowercase = !cased}};
  spec.stages = {{.pattern = "\\s", .behavior = SplitBehavior::kRemoved},
                 {.pattern = bert_punctuation_pattern()}};
  spec.decoder.join = DecoderSpec::Join::kWordPiece;
  spec.decoder.prefix = "##";
  spec.decoder.cleanup = true;
  spec.rules = {"model: WordPiece (tokenizer.ggml.model bert)",
                std::string("normaliser: BERT's, ") +
                    (cased ? "upper case kept (the vocabulary has it)"
                           : "lower case without accents (the vocabulary has no upper case)")};

  const size_t count = spec.tokens.size();
  const auto first_of = [&](std::initializer_list<const char*> keys,
                            int64_t fallback) -> std::optional<int64_t> {
    for (const char* key : keys) {
      if (const auto id = read_gguf_id(file, key, count)) return id;
    }
    return fallback < static_cast<int64_t>(count) ? std::optional(fallback) : std::nullopt;
  };
  // The defaults are llama.cpp's, the ids of the released BERT models.
  const auto begin = first_of({"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id"}, 101);
  const auto end = first_of({"tokenizer.ggml.seperator_token_id",
                             "tokenizer.ggml.separator_token_id", "tokenizer.ggml.eos_token_id"},
                            102);
  spec.bos_id = begin;
  spec.eos_id = end;
  spec.unknown_id = first_of({"tokenizer.ggml.unknown_token_id"}, 100);
  spec.padding_id = first_of({"tokenizer.ggml.padding_token_id"}, 0);
  spec.missing_id = spec.unknown_id;
  add_gguf_around(file,
                  {.name = "[CLS]",
                   .flag_key = "tokenizer.ggml.add_bos_token",
                   .by_default = true,
                   .id = begin,
                   .id_key = "tokenizer.ggml.cls_token_id"},
                  spec.prefix_ids, spec.rules);
  add_gguf_around(file,
                  {.name = "[SEP]",
                   .flag_key = "tokenizer.ggml.add_sep_token",
                   .by_default = true,
                   .id = end,
                   .id_key = "tokenizer.ggml.seperator_token_id"},
                  spec.suffix_ids, spec.rules);
  add_gguf_special(file, spec);
  return spec;
}

}  // namespace mainstem::tokenizer
