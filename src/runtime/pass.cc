#include "runtime/pass.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "mainstem/error.h"

namespace mainstem {
namespace {

// Far beyond any context, and exact as a double.
constexpr int64_t kMaxPosition = int64_t{1} << 40;

size_t index(Rows rows) { return static_cast<size_t>(rows); }

void expect_in_range(int64_t value, int64_t limit, const char* what) {
  if (value < 0 || value >= limit) {
    throw usage_error(what, "0 to " + std::to_string(limit - 1), std::to_string(value));
  }
}

}  // namespace

template <typename T>
void PassRows<T>::add_rows(Rows rows, std::span<const int64_t> tokens,
                           std::span<const int64_t> given, int64_t past, int64_t padding,
                           int64_t vocab_size) {
  const size_t r = index(rows);
  if (!given.empty() && given.size() != tokens.size()) {
    throw usage_error("positions", "one for each of " + std::to_string(tokens.size()) + " tokens",
                      std::to_string(given.size()));
  }
  int64_t longest = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    expect_in_range(tokens[i], vocab_size, "token id");
    ids_[r].push_back(tokens[i]);
    const int64_t counted = std::max<int64_t>(past + static_cast<int64_t>(i) - padding, 0);
    const int64_t position = given.empty() ? counted : given[i];
    if (position < 0 || position > kMaxPosition) {
      throw usage_error("position", "0 to " + std::to_string(kMaxPosition),
                        std::to_string(position));
    }
    positions_[r].push_back(position);
    longest = std::max(longest, position + 1);
  }
  longest_[r].push_back(longest);
  counts_[r] += static_cast<int64_t>(tokens.size());
  begins_[r].push_back(counts_[r]);
}

template <typename T>
PassRows<T>::PassRows(const Program& program, std::span<const PassSequence<T>> sequences,
                      LogitRows logits)
    : sequences_(sequences) {
  if (sequences.empty()) throw usage_error("pass", "at least one sequence", "none");
  const ModelSpec& spec = program.spec;
  const bool block_only = program.input != kNoId;
  for (auto& begins : begins_) begins.push_back(0);
  std::vector<int64_t> zeros;
  for (const PassSequence<T>& sequence : sequences) {
    const SequenceState<T>& state = *sequence.state;
    if (state.length > 0) continues_ = true;
    std::span<const int64_t> tokens = sequence.tokens;
    if (block_only) {
      const auto width = static_cast<size_t>(spec.stack.width);
      if (sequence.input.size() % width != 0) {
        throw usage_error("block input", "whole rows of " + std::to_string(width) + " values",
                          std::to_string(sequence.input.size()) + " values");
      }
      zeros.assign(sequence.input.size() / width, 0);
      tokens = zeros;
    }
    if (tokens.empty()) throw usage_error("sequence", "at least one token", "none");
    if (sequence.padding < 0 || sequence.padding > static_cast<int64_t>(tokens.size()) ||
        (sequence.padding > 0 && state.length > 0)) {
      throw usage_error("left padding", "part of a sequence's first tokens",
                        std::to_string(sequence.padding));
    }
    if (sequence.encoder_padding < 0 ||
        sequence.encoder_padding > static_cast<int64_t>(sequence.encoder_tokens.size())) {
      throw usage_error("encoder left padding", "part of the encoder's tokens",
                        std::to_string(sequence.encoder_padding));
    }
    const int64_t padding = state.length > 0 ? state.padding : sequence.padding;
    add_rows(Rows::kMain, tokens, sequence.positions, state.length, padding, spec.vocab_size);
    longest_[index(Rows::kMain)].back() =
        std::max(longest_[index(Rows::kMain)].back(), sequence.reach);
    add_rows(Rows::kEncoder, sequence.encoder_tokens, {}, 0, sequence.encoder_padding,
             spec.vocab_size);

    if (!sequence.token_types.empty() && sequence.token_types.size() != tokens.size()) {
      throw usage_error("token types", "one for each token",
                        std::to_string(sequence.token_types.size()));
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int64_t type = sequence.token_types.empty() ? 0 : sequence.token_types[i];
      if (spec.stack.token_types > 0) expect_in_range(type, spec.stack.token_types, "token type");
      token_types_.push_back(type);
    }
    const int64_t end = counts_[index(Rows::kMain)];
    for (int64_t row = logits == LogitRows::kLast ? end - 1
                                                  : end - static_cast<int64_t>(tokens.size());
         row < end; ++row) {
      head_rows_.push_back(row);
    }
    counts_[index(Rows::kHead)] = static_cast<int64_t>(head_rows_.size());
    begins_[index(Rows::kHead)].push_back(counts_[index(Rows::kHead)]);

    const PassSequence<T>& first = sequences.front();
    uniform_ = uniform_ && count(Rows::kMain, begins_[0].size() - 2) == count(Rows::kMain, 0) &&
               sequence.encoder_tokens.size() == first.encoder_tokens.size() &&
               state.length == first.state->length &&
               state.encoder_length == first.state->encoder_length;
  }
  if (!block_only) check_position_table(spec.stack, Rows::kMain);
  if (spec.encoder) check_position_table(*spec.encoder, Rows::kEncoder);
}

template <typename T>
void PassRows<T>::check_position_table(const StackSpec& stack, Rows rows) const {
  if (stack.positions != PositionKind::kLearned) return;
  const int64_t limit = stack.position_rows - stack.position_offset;
  for (const int64_t longest : longest_[index(rows)]) {
    if (longest <= limit) continue;
    throw usage_error("position",
                      "less than " + std::to_string(limit) + ", the rows of the position table",
                      std::to_string(longest - 1));
  }
}

template <typename T>
std::vector<int64_t> PassRows<T>::positions(Rows rows, size_t sequence, RowPosition rule) const {
  const auto first = positions(rows).begin() + begin(rows, sequence);
  std::vector<int64_t> result(first, first + count(rows, sequence));
  if (rule == RowPosition::kRight) return result;
  const bool counts_past = rule == RowPosition::kWithPadding && rows == Rows::kMain;
  const int64_t past = counts_past ? sequences_[sequence].state->length : 0;
  std::iota(result.begin(), result.end(), past);
  return result;
}

template <typename T>
int64_t PassRows<T>::key_count(const AttentionParams& params, Rows rows, size_t sequence) const {
  const SequenceState<T>& state = *sequences_[sequence].state;
  if (params.cross || rows == Rows::kEncoder) {
    const int64_t fresh = count(Rows::kEncoder, sequence);
    return fresh > 0 ? fresh : state.encoder_length;
  }
  return state.length + count(Rows::kMain, sequence);
}

template <typename T>
std::vector<kernels::KeyRange> PassRows<T>::key_ranges(const AttentionParams& params,
                                                       Rows rows) const {
  std::vector<kernels::KeyRange> ranges;
  ranges.reserve(static_cast<size_t>(count(rows)));
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const SequenceState<T>& state = *sequences_[i].state;
    const bool encoder_keys = params.cross || rows == Rows::kEncoder;
    const int64_t keys = key_count(params, rows, i);
    int64_t first = state.length > 0 ? state.padding : sequences_[i].padding;
    if (encoder_keys) {
      first = count(Rows::kEncoder, i) > 0 ? sequences_[i].encoder_padding : state.encoder_padding;
    }
    if (params.sees_padding) first = 0;
    const int64_t past = encoder_keys || params.from_first_key ? 0 : state.length;
    for (int64_t t = 0; t < count(rows, i); ++t) {
      const int64_t self = params.restarts.place(past + t);
      kernels::KeyRange range{first, keys};
      if (params.mask != MaskKind::kFull) {
        range.end = std::min(self + 1 + params.diagonal, keys);
      }
      if (params.mask == MaskKind::kWindow) {
        range.begin = std::max(first, self - params.window + 1);
      }
      const bool is_padding = !params.cross && self < first;
      if (is_padding || range.begin >= range.end) range = {0, 0};
      ranges.push_back(range);
    }
  }
  return ranges;
}

template class PassRows<float>;
template class PassRows<double>;

}  // namespace mainstem
