#include "models/tokenizer/vocab.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "io/text.h"
#include "mainstem/error.h"
#include "models/tokenizer/decoder.h"

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
  texts_.arena.reserve(total_bytes);
  texts_.ends.reserve(tokens.size() + 1);
  kinds_.reserve(tokens.size());
  const bool byte_level = spec.model == ModelKind::kByteBpe;
  std::vector<bool> first(tokens.size());  // counts before others of the same text
  for (size_t i = 0; i < tokens.size(); ++i) {
    const TokenSpec& token = tokens[i];
    first[i] = token.kind == TokenKind::kNormal &&
               (!byte_level || append_token_bytes(token.text, texts_.arena));
    const bool as_it_is = !first[i] || !byte_level;
    if (as_it_is && token.kind != TokenKind::kAbsent) texts_.arena += token.text;
    texts_.ends.push_back(static_cast<uint32_t>(texts_.arena.size()));
    kinds_.push_back(token.kind);
    own_.push_back(token.in_model);
    longest_ = std::max(longest_, text(static_cast<int32_t>(i)).size());
  }

  slots_.assign(std::bit_ceil(tokens.size() * 2), -1);
  for (int32_t id = 0; id < size(); ++id) {
    if (!first[static_cast<size_t>(id)] || text(id).empty()) continue;
    int32_t& slot = slots_[slot_of(text(id))];
    if (slot >= 0 && !spec.allow_duplicate_texts) {
      throw bad_input(
          "vocabulary", "one id for each text",
          std::to_string(slot) + " and " + std::to_string(id) + " for " + quote(text(id)));
    }
    slot = id;
  }
  for (int32_t id = 0; id < size(); ++id) {
    if (first[static_cast<size_t>(id)] || text(id).empty()) continue;
    int32_t& slot = slots_[slot_of(text(id))];
    if (slot < 0) slot = id;
  }
  if (!spec.decoder.steps.empty()) translate(spec);
}

void Vocab::translate(const TokenizerSpec& spec) {
  translated_ = true;
  decoded_.arena.reserve(texts_.arena.size());
  for (int32_t id = 0; id < size(); ++id) {
    decoded_.arena += translate_token(text(id), spec.decoder.steps);
    if (decoded_.arena.size() > std::numeric_limits<uint32_t>::max()) {
      throw bad_input("decoder", "less than 4 GB of text", "more");
    }
    decoded_.ends.push_back(static_cast<uint32_t>(decoded_.arena.size()));
  }
}

size_t Vocab::slot_of(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(text)&mask;
  while (slots_[slot] >= 0 && this->text(slots_[slot]) != text) slot = (slot + 1) & mask;
  return slot;
}

int32_t Vocab::find(std::string_view text) const { return slots_[slot_of(text)]; }

}  // namespace mainstem::tokenizer
