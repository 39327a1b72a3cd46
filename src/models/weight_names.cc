#include "models/weight_names.h"

#include "mainstem/error.h"

namespace mainstem {
namespace {

void replace(std::string& text, std::string_view slot, const std::string& with) {
  const size_t at = text.find(slot);
  if (at != std::string::npos) text.replace(at, slot.size(), with);
}

}  // namespace

WeightPlace find_place(const Family& family, const std::string& own_name) {
  WeightPlace place;
  std::string name = own_name;
  if (const size_t block = name.find("blocks."); block != std::string::npos) {
    const size_t begin = block + 7;
    const size_t end = name.find('.', begin);
    place.layer = std::stoi(name.substr(begin, end - begin));
    name.replace(begin, end - begin, "{N}");
  }
  const size_t dot = name.rfind('.');
  const std::string stem = name.substr(0, dot);
  place.suffix = name.substr(dot + 1);
  place.part = stem.substr(stem.rfind('.') + 1);  // npos + 1 is 0
  for (const WeightRow& row : family.rows) {
    if (row.own == name || (row.own == stem && place.row == nullptr)) place.row = &row;
    if (row.own != name) continue;
    place.exact = true;
    return place;
  }
  if (place.row == nullptr) {
    throw internal_error("family " + std::string(family.name) + " has no row for " + own_name);
  }
  return place;
}

std::vector<std::string> names_of(std::string_view pattern, const WeightPlace& place,
                                  int64_t head) {
  std::vector<std::string> names;
  while (true) {
    const size_t bar = pattern.find('|');
    std::string name(pattern.substr(0, bar));
    const bool placed = place.exact || name.find("{S}") != std::string::npos;
    replace(name, "{N}", std::to_string(place.layer));
    replace(name, "{N+1}", std::to_string(place.layer + 1));
    replace(name, "{L+1}", std::to_string(place.blocks + 1));
    replace(name, "{H}", std::to_string(head));
    replace(name, "{S}", place.suffix);
    names.push_back(placed ? name : name + "." + place.suffix);
    if (bar == std::string_view::npos) return names;
    pattern.remove_prefix(bar + 1);
  }
}

}  // namespace mainstem
