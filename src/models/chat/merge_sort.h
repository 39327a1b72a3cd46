#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace mainstem::chat {

/// Stable, as Python's sort, and within bounds whatever `less` says: templates may compare NaN.
template <typename T, typename Less>
void merge_sort(std::vector<T>& items, Less less) {
  std::vector<T> merged;
  const auto at = [&](size_t place) {
    return std::make_move_iterator(items.begin() +
                                   static_cast<std::ptrdiff_t>(std::min(place, items.size())));
  };
  for (size_t width = 1; width < items.size(); width *= 2) {
    merged.clear();
    for (size_t i = 0; i < items.size(); i += 2 * width) {
      std::merge(at(i), at(i + width), at(i + width), at(i + 2 * width), std::back_inserter(merged),
                 less);
    }
    items.swap(merged);
  }
}

}  // namespace mainstem::chat
