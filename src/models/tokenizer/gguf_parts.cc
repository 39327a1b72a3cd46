#include "models/tokenizer/gguf_parts.h"

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/loaders.h"

namespace mainstem::tokenizer {
namespace {

void read_scores(const GgufFile& file, std::vector<TokenSpec>& tokens) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  const auto scores = file.get_floats(kKey);
  if (!scores) throw bad_input(kKey, "a score for every token", "no such key");
  if (scores->size() != tokens.size()) {
    throw bad_input(kKey,
                    std::to_string(tokens.size()) + " entries, as many as tokenizer.ggml.tokens",
                    std::to_string(scores->size()));
  }
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i].score = (*scores)[i];
}

}  // namespace

std::vector<TokenSpec> read_gguf_tokens(const GgufFile& file, bool with_scores) {
  const std::vector<std::string_view> texts = file.need_strings("tokenizer.ggml.tokens");
  const auto types = file.get_i32s("tokenizer.ggml.token_type");
  if (types && types->size() != texts.size()) {
    throw bad_input("tokenizer.ggml.token_type",
                    std::to_string(texts.size()) + " entries, as many as tokenizer.ggml.tokens",
                    std::to_string(types->size()));
  }
  std::vector<TokenSpec> tokens(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const int32_t type = types ? (*types)[i] : static_cast<int32_t>(TokenKind::kNormal);
    if (type < static_cast<int32_t>(TokenKind::kNormal) ||
        type > static_cast<int32_t>(TokenKind::kByte)) {
      throw bad_input("tokenizer.ggml.token_type of token " + std::to_string(i), "1 to 6",
                      std::to_string(type));
    }
    tokens[i] = {.text = texts[i], .kind = static_cast<TokenKind>(type)};
    if (tokens[i].kind == TokenKind::kByte && !byte_of_token(texts[i])) {
      throw bad_input("byte token " + std::to_string(i), "a text like <0x0A>", quote(texts[i], 40));
    }
  }
  if (with_scores) read_scores(file, tokens);
  return tokens;
}

std::optional<int64_t> read_gguf_id(const GgufFile& file, const char* key, size_t token_count) {
  const std::optional<int64_t> id = file.get_int(key);
  if (id && (*id < 0 || *id >= static_cast<int64_t>(token_count))) {
    throw bad_input(key, "an id below " + std::to_string(token_count) + ", the number of tokens",
                    std::to_string(*id));
  }
  return id;
}

void read_gguf_ids(const GgufFile& file, TokenizerSpec& spec) {
  const size_t count = spec.tokens.size();
  spec.bos_id = read_gguf_id(file, "tokenizer.ggml.bos_token_id", count);
  spec.eos_id = read_gguf_id(file, "tokenizer.ggml.eos_token_id", count);
  spec.unknown_id = read_gguf_id(file, "tokenizer.ggml.unknown_token_id", count);
  spec.padding_id = read_gguf_id(file, "tokenizer.ggml.padding_token_id", count);
}

void add_gguf_around(const GgufFile& file, const GgufAround& token, std::vector<int64_t>& ids,
                     std::vector<std::string>& rules) {
  const std::optional<bool> flag = file.get_bool(token.flag_key);
  const bool add = flag.value_or(token.by_default);
  if (add) {
    if (!token.id) {
      throw bad_input(token.id_key, std::string("an id, since ") + token.flag_key + " asks for it",
                      "no such key");
    }
    ids.push_back(*token.id);
  }
  rules.push_back(std::string(token.name) + (add ? ": added (" : ": not added (") +
                  (flag ? token.flag_key : "default of the tokenizer's kind") + ")");
}

void add_gguf_special(const GgufFile& file, TokenizerSpec& spec) {
  const size_t count = spec.tokens.size();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = read_gguf_id(file, key, count)) spec.end_ids.push_back(*id);
  }
  for (size_t id = 0; id < count; ++id) {
    const TokenSpec& token = spec.tokens[id];
    const bool control = token.kind == TokenKind::kControl || token.kind == TokenKind::kUnknown;
    if (!control && token.kind != TokenKind::kUserDefined) continue;
    spec.added.push_back(
        {.id = static_cast<int64_t>(id), .content = std::string(token.text), .special = control});
    if (control && is_known_end(token.text)) spec.end_ids.push_back(static_cast<int64_t>(id));
  }
}

}  // namespace mainstem::tokenizer
