#include "models/tokenizer/vocab.h"

#include <bit>
#include <functional>

#include "io/text.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

/// Far above any vocabulary in use (Gemma's has 262144).
constexpr size_t kMaxTokens = size_t{1} << 23;

}  // namespace

bool append_token_bytes(std::string_view text, std::string& out) {
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<uint8_t>(text[at]);
    if (first >= 0x21 && first <= 0x7E) {  // most of them; this loop is most of the loading time
      out.push_back(text[at++]);
      continue;
    }
    const DecodedCodePoint next = decode_utf8(text.substr(at));
    const std::optional<uint8_t> byte = byte_of_character(next.code_point);
    if (!byte) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(*byte));
    at += next.length;
  }
  return true;
}

Vocab::Vocab(const TokenizerSpec& spec) {
  const std::vector<TokenSpec>& tokens = spec.tokens;
  if (tokens.empty() || tokens.size() > kMaxTokens) {
    throw bad_input("vocabulary", "from 1 to " + std::to_string(kMaxTokens) + " tokens",
                    std::to_string(tokens.size()));
  }
  size_t total_bytes = 0;
  for (const TokenSpec& token : tokens) total_bytes += token.text.size();
  if (total_bytes > std::numeric_limits<uint32_t>::max()) {
    throw bad_input("vocabulary", "less than 4 GB of text", std::to_string(total_bytes) + " bytes");
  }
  arena_.reserve(total_bytes);
  ends_.reserve(tokens.size() + 1);
  kinds_.reserve(tokens.size());
  ends_.push_back(0);
  std::vector<bool> translated(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenSpec& token = tokens[i];
    translated[i] = token.kind == TokenKind::kNormal && append_token_bytes(token.text, arena_);
    if (!translated[i] && token.kind != TokenKind::kAbsent) arena_ += token.text;
    ends_.push_back(static_cast<uint32_t>(arena_.size()));
    kinds_.push_back(token.kind);
  }

  slots_.assign(std::bit_ceil(tokens.size() * 2), -1);
  for (int32_t id = 0; id < size(); ++id) {
    if (!translated[static_cast<size_t>(id)] || bytes(id).empty()) continue;
    int32_t& slot = slots_[slot_of(bytes(id))];
    if (slot >= 0 && !spec.allow_duplicate_texts) {
      throw bad_input(
          "vocabulary", "one id for each text",
          std::to_string(slot) + " and " + std::to_string(id) + " for " + quote(bytes(id)));
    }
    slot = id;
  }
  for (int32_t id = 0; id < size(); ++id) {
    if (translated[static_cast<size_t>(id)] || bytes(id).empty()) continue;
    int32_t& slot = slots_[slot_of(bytes(id))];
    if (slot < 0) slot = id;
  }
}

size_t Vocab::slot_of(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] >= 0 && bytes(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

int32_t Vocab::find(std::string_view text) const { return slots_[slot_of(text)]; }

}  // namespace mainstem::tokenizer
