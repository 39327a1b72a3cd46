#include "models/tokenizer/charsmap.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/byte_reader.h"
#include "mainstem/error.h"

namespace mainstem::tokenizer {
namespace {

/// Rules are a few characters long. The bound keeps an array that goes in circles from walking
/// over the whole text at every place.
constexpr size_t kMaxRuleBytes = 512;

}  // namespace

Charsmap::Charsmap(std::string blob) : blob_(std::move(blob)) {
  ByteReader reader(std::as_bytes(std::span(blob_)));
  const auto bytes = reader.read<uint32_t>("precompiled_charsmap");
  reader.take(bytes, "precompiled_charsmap");
  unit_count_ = bytes / sizeof(uint32_t);
  if (unit_count_ == 0) {
    throw bad_input("precompiled_charsmap", "a double array of at least 4 bytes",
                    std::to_string(bytes) + " bytes");
  }
  texts_ = std::string_view(blob_).substr(reader.offset());
}

uint32_t Charsmap::unit(size_t index) const {
  uint32_t value = 0;
  std::memcpy(&value, blob_.data() + sizeof(uint32_t) * (index + 1), sizeof(value));
  return value;
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool longest) const {
  const auto offset_of = [](uint32_t unit) -> size_t {
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
  };
  std::optional<Match> match;
  size_t node = offset_of(unit(0));
  const size_t end = std::min(text.size(), kMaxRuleBytes);
  for (size_t i = 0; i < end; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= unit_count_) break;
    const uint32_t here = unit(node);
    if ((here & 0x800000FFu) != byte) break;  // the label, and not a value
    node ^= offset_of(here);
    if ((here >> 8 & 1) == 0) continue;  // no value stands here
    if (node >= unit_count_) break;
    const size_t begin = unit(node) & 0x7FFFFFFFu;
    if (begin >= texts_.size()) {
      throw bad_input("precompiled_charsmap", "values below " + std::to_string(texts_.size()),
                      std::to_string(begin));
    }
    const std::string_view rest = texts_.substr(begin);
    match = Match{i + 1, rest.substr(0, std::min(rest.find('\0'), rest.size()))};
    if (!longest) break;
  }
  return match;
}

}  // namespace mainstem::tokenizer
