#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem {

/// What stands behind the last dot; all of it where there is none.
std::string_view last_component(std::string_view name);
/// What stands before the last dot; empty where there is none.
std::string_view parent(std::string_view name);
bool is_number(std::string_view text);
/// Some component of a dotted name is a number.
bool has_number(std::string_view name);
/// N of "…WORD.N"; nothing where the name ends otherwise.
std::optional<int64_t> number_behind(std::string_view name, std::string_view word);

}  // namespace mainstem
