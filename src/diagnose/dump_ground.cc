#include "diagnose/dump_ground.h"

namespace mainstem {
namespace {

int64_t length_of(const SequenceInput& input, bool encoder) {
  return static_cast<int64_t>(encoder ? input.encoder_tokens.size() : input.tokens.size());
}

}  // namespace

DumpGround::DumpGround(const Aligned& aligned) : aligned_(aligned) {
  for (const AlignedValue& value : aligned.values) {
    if (value.complete()) values_.emplace(to_string(value.site), &value);
  }
}

const AlignedValue* DumpGround::given(const SiteId& site) const {
  const auto found = values_.find(to_string(site));
  return found == values_.end() ? nullptr : found->second;
}

int64_t DumpGround::row_count(bool encoder) const {
  int64_t count = 0;
  for (const SequenceInput& input : aligned_.inputs) count += length_of(input, encoder);
  return count;
}

bool DumpGround::is_padding(bool encoder, int64_t row) const {
  for (const SequenceInput& input : aligned_.inputs) {
    const int64_t count = length_of(input, encoder);
    if (row < count) return row < (encoder ? input.encoder_left_padding : input.left_padding);
    row -= count;
  }
  return false;
}

}  // namespace mainstem
