#include "diagnose/causes/channels.h"

namespace mainstem::causes {

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return result;
}

std::vector<int64_t> composed(const std::vector<int64_t>& first, const std::vector<int64_t>& then) {
  std::vector<int64_t> result;
  for (int64_t position : then) result.push_back(first[static_cast<size_t>(position)]);
  return result;
}

bool is_identity(const std::vector<int64_t>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::vector<int64_t> pair_order(int64_t heads, int64_t head_width, int64_t turned) {
  std::vector<int64_t> order;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t e = 0; e < head_width; ++e) {
      order.push_back(h * head_width + (e < turned ? e % 2 * (turned / 2) + e / 2 : e));
    }
  }
  return order;
}

CustomParams pick_channels(std::string note, std::vector<int64_t> order) {
  return {.note = std::move(note),
          .apply = [order = std::move(order)](std::span<const std::span<const double>> in,
                                              std::span<double> out, int64_t) {
            for (size_t i = 0; i < out.size(); ++i) {
              auto at = static_cast<size_t>(order[i]);
              size_t which = 0;
              while (at >= in[which].size()) at -= in[which++].size();
              out[i] = in[which][at];
            }
          }};
}

}  // namespace mainstem::causes
