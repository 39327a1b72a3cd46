#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/memory_budget.h"

namespace mainstem {

struct JsonLimits {
  size_t max_bytes = size_t{256} << 20;
  size_t max_depth = 128;
  size_t max_token_bytes = size_t{16} << 20;  ///< one string or number
};

/// Strict JSON: one document and nothing after it, no duplicate keys, no comments, valid UTF-8, no
/// numbers that overflow. Memory is bounded by 64 MB plus 8 times the text. An Error (kBadInput)
/// names line and column.
nlohmann::json parse_json(std::string_view text, const JsonLimits& limits = {});
nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {});

/// Base of handlers for parse_json_events. Handlers throw Error; the driver adds the position.
class JsonHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool binary(binary_t& value) override;
  bool parse_error(size_t position, const std::string& last_token,
                   const nlohmann::json::exception& exception) override;
};

/// Runs the parser over `text` under the same rules, except that duplicate keys are left to the
/// handler. The parser's own buffers are charged to `budget`, which the handler shares.
void parse_json_events(std::string_view text, const JsonLimits& limits, MemoryBudget& budget,
                       JsonHandler& handler);

}  // namespace mainstem
