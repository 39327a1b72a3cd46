#include <algorithm>
#include <utility>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/loaders.h"

namespace mainstem::tokenizer {
namespace {

constexpr const char* kPre = "tokenizer.ggml.pre";

std::vector<TokenSpec> read_tokens(const GgufFile& file) {
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
    tokens[i] = {texts[i], static_cast<TokenKind>(type)};
  }
  return tokens;
}

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

std::optional<int64_t> read_id(const GgufFile& file, const char* key, size_t token_count) {
  const std::optional<int64_t> id = file.get_int(key);
  if (id && (*id < 0 || *id >= static_cast<int64_t>(token_count))) {
    throw bad_input(key, "an id below " + std::to_string(token_count) + ", the number of tokens",
                    std::to_string(*id));
  }
  return id;
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

/// One of the two tokens that a file may want around every text.
struct Around {
  const char* name;
  const char* flag_key;
  const char* id_key;
  bool by_default;
};

void add_around(const GgufFile& file, const Around& token, const std::optional<int64_t>& id,
                std::vector<int64_t>& ids, std::vector<std::string>& rules) {
  const std::optional<bool> flag = file.get_bool(token.flag_key);
  const bool add = flag.value_or(token.by_default);
  if (add) {
    if (!id) {
      throw bad_input(token.id_key, std::string("an id, since ") + token.flag_key + " asks for it",
                      "no such key");
    }
    ids.push_back(*id);
  }
  rules.push_back(std::string(token.name) + (add ? ": added (" : ": not added (") +
                  (flag ? token.flag_key : "default of the pre-tokenizer") + ")");
}

std::shared_ptr<const Pipeline> read_byte_level_bpe(const GgufFile& file) {
  TokenizerSpec spec;
  const std::string_view pre = need_pretokenizer(file);
  spec.stages = with_context(kPre, [&] { return known_pretokenizer(pre); });
  spec.rules = {"model: byte-level BPE (tokenizer.ggml.model gpt2)",
                "pre-tokenizer: " + std::string(pre) + " (" + kPre + ")",
                "normaliser: none (GGUF files name none)"};
  spec.tokens = read_tokens(file);
  spec.allow_duplicate_texts = true;
  spec.merges = read_merges(file);
  // Llama 3's own rules, which its GGUF files leave to the reader.
  const bool is_llama3 = pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3";
  spec.ignore_merges = is_llama3;

  const size_t count = spec.tokens.size();
  spec.bos_id = read_id(file, "tokenizer.ggml.bos_token_id", count);
  spec.eos_id = read_id(file, "tokenizer.ggml.eos_token_id", count);
  spec.unknown_id = read_id(file, "tokenizer.ggml.unknown_token_id", count);
  spec.padding_id = read_id(file, "tokenizer.ggml.padding_token_id", count);
  add_around(file,
             {.name = "BOS",
              .flag_key = "tokenizer.ggml.add_bos_token",
              .id_key = "tokenizer.ggml.bos_token_id",
              .by_default = is_llama3},
             spec.bos_id, spec.prefix_ids, spec.rules);
  add_around(file,
             {.name = "EOS",
              .flag_key = "tokenizer.ggml.add_eos_token",
              .id_key = "tokenizer.ggml.eos_token_id",
              .by_default = false},
             spec.eos_id, spec.suffix_ids, spec.rules);
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = read_id(file, key, count)) spec.end_ids.push_back(*id);
  }
  for (size_t id = 0; id < count; ++id) {
    const TokenSpec& token = spec.tokens[id];
    const bool control = token.kind == TokenKind::kControl || token.kind == TokenKind::kUnknown;
    if (!control && token.kind != TokenKind::kUserDefined) continue;
    spec.added.push_back(
        {.id = static_cast<int64_t>(id), .content = std::string(token.text), .special = control});
    if (control && is_known_end(token.text)) spec.end_ids.push_back(static_cast<int64_t>(id));
  }
  return build_pipeline(std::move(spec));
}

}  // namespace

bool is_known_end(std::string_view content) {
  constexpr std::string_view kEnds[] = {
      "<|eot_id|>", "<|eom_id|>",    "<|end_of_text|>", "<|im_end|>", "<|endoftext|>",
      "<|end|>",    "<end_of_turn>", "<EOT>",           "</s>",       "<|END_OF_TURN_TOKEN|>"};
  return std::ranges::find(kEnds, content) != std::end(kEnds);
}

std::shared_ptr<const Pipeline> from_gguf(const GgufFile& file) {
  return with_context(file.path(), [&] {
    const std::string_view model = file.need_string("tokenizer.ggml.model");
    if (model != "gpt2") {
      throw bad_input("tokenizer.ggml.model", "gpt2 (byte-level BPE)", quote(model));
    }
    return read_byte_level_bpe(file);
  });
}

}  // namespace mainstem::tokenizer
