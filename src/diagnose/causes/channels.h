#pragma once

#include <cstdint>
#include <vector>

#include "diagnose/causes/place.h"

// Orders of channels: entry i of an order is the channel that position i takes.

namespace mainstem::causes {

std::vector<int64_t> inverse(const std::vector<int64_t>& order);
/// First one, then the other.
std::vector<int64_t> composed(const std::vector<int64_t>& first, const std::vector<int64_t>& then);
bool is_identity(const std::vector<int64_t>& order);
/// Inside each head the first `turned` channels go from half-split to pair order: channel 2j + s
/// takes s · turned/2 + j.
std::vector<int64_t> pair_order(int64_t heads, int64_t head_width, int64_t turned);

/// A row made of channels of the inputs' rows, which count as laid one after another.
CustomParams pick_channels(std::string note, std::vector<int64_t> order);

}  // namespace mainstem::causes
