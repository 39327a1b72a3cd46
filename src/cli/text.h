#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mainstem::cli {

/// Columns that a terminal needs for the text: wide East Asian and emoji characters take two,
/// combining marks and colour codes none.
int text_width(std::string_view text);

/// The text filled up with spaces.
std::string pad_right(std::string_view text, int width);
std::string pad_left(std::string_view text, int width);

/// Lines of at most `width` columns, broken at spaces; a longer word stays whole.
std::vector<std::string> wrap(std::string_view text, int width);

/// The word that this one is most likely meant to be: at most two letters wrong, left out, added
/// or exchanged (one in a short word). Empty where none is so near.
std::string closest(std::string_view word, const std::vector<std::string>& words);

/// Broken UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// "12,345,678"
std::string with_commas(int64_t number);
/// "1 step", "1,234 steps"
std::string count_text(int64_t number, std::string_view what);
/// Five significant digits, for tables: "0.12346", "-1.2e-07", "nan".
std::string short_number(double number);
/// "98.4 MB", in powers of 1000.
std::string byte_size(double bytes);
/// "made wrong on purpose: norm.eps, another eps in final_norm: eps = 0", a line; nothing where
/// `id` is empty.
std::string broken_line(const std::string& id, const std::string& how);
/// "[1,4,8]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace mainstem::cli
