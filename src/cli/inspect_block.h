#pragma once

#include <optional>
#include <string>

#include "cli/block_options.h"

namespace mainstem::cli {

/// `inspect --block`: steps, weights and counts of one block, and where `second` differs.
std::string block_text(const BlockOptions& first, const std::optional<BlockOptions>& second,
                       int64_t context);
std::string block_json(const BlockOptions& first, const std::optional<BlockOptions>& second,
                       int64_t context);

}  // namespace mainstem::cli
