#include <iterator>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/pretokenizer.h"

namespace mainstem::tokenizer {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr std::string_view kLlama3Pattern =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Rule { kGpt2, kLlama3, kQwen2, kDigits, kFalcon };

struct Known {
  std::string_view name;
  Rule rule;
};
constexpr Known kKnown[] = {
    {"gpt-2", Rule::kGpt2},       {"gpt2", Rule::kGpt2},       {"phi-2", Rule::kGpt2},
    {"olmo", Rule::kGpt2},        {"mpt", Rule::kGpt2},        {"llama-bpe", Rule::kLlama3},
    {"llama3", Rule::kLlama3},    {"llama-v3", Rule::kLlama3}, {"falcon3", Rule::kLlama3},
    {"dbrx", Rule::kLlama3},      {"qwen2", Rule::kQwen2},     {"deepseek-r1-qwen", Rule::kQwen2},
    {"stablelm2", Rule::kQwen2},  {"smollm", Rule::kDigits},   {"command-r", Rule::kDigits},
    {"starcoder", Rule::kDigits}, {"refact", Rule::kDigits},   {"falcon", Rule::kFalcon},
};

SplitStage isolated(std::string_view pattern) {
  return {.kind = SplitStage::Kind::kSplit, .pattern = std::string(pattern)};
}

std::vector<SplitStage> stages_of(Rule rule) {
  switch (rule) {
    case Rule::kGpt2:
      return {isolated(kGpt2Pattern)};
    case Rule::kLlama3:
      return {isolated(kLlama3Pattern)};
    case Rule::kQwen2:
      return {isolated(kQwen2Pattern)};
    case Rule::kDigits:
      return {isolated(R"(\p{N})"), isolated(kGpt2Pattern)};
    case Rule::kFalcon:
      return {isolated(R"([\p{P}\$\+<=>\^~\|`]+)"), isolated(kGpt2Pattern),
              isolated("[0-9][0-9][0-9]")};
  }
  return {};
}

}  // namespace

std::vector<SplitStage> known_pretokenizer(std::string_view name) {
  std::string list;
  for (const Known& known : kKnown) {
    if (known.name == name) return stages_of(known.rule);
    list += (list.empty() ? "" : ", ") + std::string(known.name);
  }
  throw bad_input("pre-tokenizer", "one of " + list, quote(name));
}

std::array<uint32_t, 256> byte_characters() {
  std::array<uint32_t, 256> characters{};
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    characters[byte] = printable ? byte : next++;
  }
  return characters;
}

std::optional<uint8_t> byte_of_character(uint32_t code_point) {
  static const std::array<int16_t, 324> kBytes = [] {
    std::array<int16_t, 324> table{};
    table.fill(-1);
    const auto characters = byte_characters();
    for (size_t byte = 0; byte < 256; ++byte) table[characters[byte]] = static_cast<int16_t>(byte);
    return table;
  }();
  if (code_point >= kBytes.size() || kBytes[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[code_point]);
}

}  // namespace mainstem::tokenizer
