#include "models/weight_layout.h"

#include <numeric>

#include "mainstem/error.h"

namespace mainstem {
namespace {

enum class Part : uint8_t { kQuery, kKey, kValue, kMlpGate, kMlpValue };

Part part_of(std::string_view name) {
  if (name == "q" || name == "cross_q") return Part::kQuery;
  if (name == "k" || name == "cross_k") return Part::kKey;
  if (name == "v" || name == "cross_v") return Part::kValue;
  if (name == "mlp_gate") return Part::kMlpGate;
  if (name == "mlp_value") return Part::kMlpValue;
  throw internal_error("no fused layout has a part " + std::string(name));
}

int64_t size_of(Part part, const FusedSizes& sizes) {
  switch (part) {
    case Part::kQuery:
      return sizes.heads * sizes.head_width;
    case Part::kKey:
    case Part::kValue:
      return sizes.kv_heads * sizes.head_width;
    case Part::kMlpGate:
    case Part::kMlpValue:
      return sizes.hidden;
  }
  return 0;
}

/// Parts that lie one after another.
StoredRows in_sequence(std::initializer_list<Part> parts, Part wanted, const FusedSizes& sizes) {
  StoredRows rows;
  for (const Part part : parts) {
    const int64_t size = size_of(part, sizes);
    if (part == wanted) {
      rows.order.resize(static_cast<size_t>(size));
      std::iota(rows.order.begin(), rows.order.end(), rows.total);
    }
    rows.total += size;
  }
  return rows;
}

StoredRows per_group(Part wanted, const FusedSizes& sizes) {
  const int64_t queries = sizes.heads / sizes.kv_heads;
  const int64_t heads_in_group = queries + 2;
  const int64_t first = wanted == Part::kQuery ? 0 : wanted == Part::kKey ? queries : queries + 1;
  const int64_t count = wanted == Part::kQuery ? queries : 1;
  StoredRows rows;
  rows.total = sizes.kv_heads * heads_in_group * sizes.head_width;
  for (int64_t group = 0; group < sizes.kv_heads; ++group) {
    const int64_t begin = (group * heads_in_group + first) * sizes.head_width;
    for (int64_t row = 0; row < count * sizes.head_width; ++row) rows.order.push_back(begin + row);
  }
  return rows;
}

/// Undoes the permutation in which row 2j + s of a head holds what belongs in row s * E/2 + j.
StoredRows from_pairs(Part part, const FusedSizes& sizes) {
  StoredRows rows;
  rows.total = size_of(part, sizes);
  const int64_t half = sizes.head_width / 2;
  for (int64_t begin = 0; begin < rows.total; begin += sizes.head_width) {
    for (int64_t s = 0; s < 2; ++s) {
      for (int64_t j = 0; j < half; ++j) rows.order.push_back(begin + 2 * j + s);
    }
  }
  return rows;
}

}  // namespace

StoredRows stored_rows(RowLayout rows, std::string_view part, const FusedSizes& sizes) {
  switch (rows) {
    case RowLayout::kAll:
    case RowLayout::kPerHead:
      return {};
    case RowLayout::kPairs:
      return from_pairs(part_of(part), sizes);
    case RowLayout::kQkv:
      return in_sequence({Part::kQuery, Part::kKey, Part::kValue}, part_of(part), sizes);
    case RowLayout::kQkvPerGroup:
      return per_group(part_of(part), sizes);
    case RowLayout::kGateValue:
      return in_sequence({Part::kMlpGate, Part::kMlpValue}, part_of(part), sizes);
    case RowLayout::kQkvValueGate:
      return in_sequence({Part::kQuery, Part::kKey, Part::kValue, Part::kMlpValue, Part::kMlpGate},
                         part_of(part), sizes);
  }
  return {};
}

}  // namespace mainstem
