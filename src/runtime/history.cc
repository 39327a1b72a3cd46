#include "runtime/history.h"

#include <algorithm>
#include <variant>

namespace mainstem {
namespace {

constexpr int64_t kMostPosition = int64_t{1} << 40;  // a pass refuses larger ones

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<int64_t> switch_lengths(const Program& program) {
  std::vector<int64_t> lengths;
  for (const Step& step : program.steps) {
    if (step.op != Op::kRotary) continue;
    const RotaryScaling& scaling = std::get<RotaryParams>(step.params).rotary.scaling;
    if (scaling.kind != RotaryScalingKind::kLongRope) continue;
    if (program.value(step.output).rows == Rows::kEncoder) continue;  // reads once
    lengths.push_back(scaling.original_context);
  }
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

int64_t History::rows(const SequenceInput& input) const {
  if (input_width_ == 0) return std::ssize(input.tokens);
  return std::ssize(input.input) / input_width_;
}

std::vector<int64_t> History::positions_of(const SequenceInput& next) const {
  if (!next.positions.empty()) return next.positions;
  const int64_t before = rows(past_);
  const int64_t padding = before > 0 ? past_.left_padding : next.left_padding;
  std::vector<int64_t> positions(static_cast<size_t>(rows(next)));
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t place = before + static_cast<int64_t>(i);
    positions[i] = place - std::clamp<int64_t>(padding, 0, place);
  }
  return positions;
}

int64_t History::length_with(const SequenceInput& next) const {
  if (switches_->empty()) return 0;
  const auto largest = [](const std::vector<int64_t>& positions) {
    return positions.empty() ? -1 : *std::max_element(positions.begin(), positions.end());
  };
  const int64_t last = std::max(largest(past_.positions), largest(positions_of(next)));
  return std::min(last, kMostPosition) + 1;
}

bool History::outgrows(int64_t length) const {
  if (past_.positions.empty()) return false;
  return std::any_of(switches_->begin(), switches_->end(),
                     [&](int64_t at) { return (reach_ > at) != (length > at); });
}

void History::append(const SequenceInput& next) {
  if (switches_->empty()) return;
  const std::vector<int64_t> positions = positions_of(next);
  if (past_.positions.empty()) {
    past_ = next;
    past_.positions = positions;
    past_.token_types.resize(positions.size(), 0);
    return;
  }
  mainstem::append(past_.tokens, next.tokens);
  mainstem::append(past_.input, next.input);
  mainstem::append(past_.positions, positions);
  mainstem::append(past_.token_types, next.token_types);
  past_.token_types.resize(past_.positions.size(), 0);
}

void History::truncate(int64_t count) {
  if (switches_->empty()) return;
  const auto size = static_cast<size_t>(count);
  past_.positions.resize(size);
  past_.token_types.resize(size);
  if (input_width_ > 0) {
    past_.input.resize(size * static_cast<size_t>(input_width_));
  } else {
    past_.tokens.resize(size);
  }
}

}  // namespace mainstem
