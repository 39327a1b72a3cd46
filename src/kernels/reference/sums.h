#pragma once

// Orders in which the terms of a sum may be added.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace mainstem {

enum class SumOrder : uint8_t {
  kForward,   ///< one chain from the first term to the last
  kBackward,  ///< one chain from the last to the first
  kLanes,     ///< sixteen chains, each over every sixteenth term, as vector registers do it
  kBlocks,    ///< chains of 64 neighbours, as blocked products do it
  kHalves,    ///< two chains, as a product does it that is split over the columns
};
inline constexpr int64_t kSumLanes = 16;
inline constexpr int64_t kSumBlock = 64;

/// The sum of term(0) to term(count - 1). Number needs a value-initialised zero and +=.
template <typename Number, typename Term>
Number ordered_sum(SumOrder order, int64_t count, const Term& term) {
  Number sum{};
  const auto add_chain = [&](int64_t begin, int64_t end) {
    Number chain{};
    for (int64_t i = begin; i < end; ++i) chain += term(i);
    sum += chain;
  };
  switch (order) {
    case SumOrder::kForward:
      for (int64_t i = 0; i < count; ++i) sum += term(i);
      break;
    case SumOrder::kBackward:
      for (int64_t i = count; i-- > 0;) sum += term(i);
      break;
    case SumOrder::kLanes: {
      Number lanes[kSumLanes] = {};
      for (int64_t i = 0; i < count; ++i) lanes[i % kSumLanes] += term(i);
      for (const Number& lane : lanes) sum += lane;
      break;
    }
    case SumOrder::kBlocks:
      for (int64_t i = 0; i < count; i += kSumBlock) add_chain(i, std::min(count, i + kSumBlock));
      break;
    case SumOrder::kHalves:
      add_chain(0, count - count / 2);
      add_chain(count - count / 2, count);
      break;
  }
  return sum;
}

}  // namespace mainstem
