#include "models/weight_names.h"

#include "mainstem/error.h"

namespace mainstem {
namespace {

constexpr std::string_view kSlot = "{N}";

}  // namespace

WeightPlace find_place(const Family& family, const std::string& own_name) {
  WeightPlace place;
  const size_t dot = own_name.rfind('.');
  std::string stem = own_name.substr(0, dot);
  place.suffix = own_name.substr(dot);
  const size_t block = stem.find("blocks.");
  if (block != std::string::npos) {
    const size_t begin = block + 7;
    const size_t end = stem.find('.', begin);
    place.layer = std::stoi(stem.substr(begin, end - begin));
    stem.replace(begin, end - begin, kSlot);
  }
  for (const WeightRow& row : family.rows) {
    if (row.own == stem) {
      place.row = &row;
      return place;
    }
  }
  throw internal_error("family " + std::string(family.name) + " has no row for " + own_name);
}

std::string fill(std::string_view pattern, const WeightPlace& place) {
  std::string text(pattern);
  const size_t slot = text.find(kSlot);
  if (slot != std::string::npos) text.replace(slot, kSlot.size(), std::to_string(place.layer));
  return text + place.suffix;
}

std::vector<int64_t> unpermuted_rows(int64_t heads, int64_t head_width) {
  std::vector<int64_t> order(static_cast<size_t>(heads * head_width));
  const int64_t half = head_width / 2;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t s = 0; s < 2; ++s) {
      for (int64_t j = 0; j < half; ++j) {
        order[static_cast<size_t>(h * head_width + s * half + j)] = h * head_width + 2 * j + s;
      }
    }
  }
  return order;
}

}  // namespace mainstem
