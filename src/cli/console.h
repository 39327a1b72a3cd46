#pragma once

#include <string>
#include <string_view>

namespace mainstem::cli {

/// The reader of standard output has gone away; main() ends without a word.
struct ClosedOutput {};

/// Writes all of it to standard output at once. Throws ClosedOutput, or Error (bad input) where
/// the system refuses.
void print(std::string_view text);
/// One line to standard error; what cannot be written is lost.
void note(std::string_view text);

bool stdout_is_terminal();
bool stderr_is_terminal();
/// Columns for human output: the terminal's (60 to 120), else 80.
int output_width();

/// Escape codes where standard output is a terminal and NO_COLOR is not set, else the text alone.
enum class Style { kBold, kDim, kGreen, kRed };
std::string styled(Style style, std::string_view text);

/// Opens /dev/null in place of standard files that the caller closed, so that no file of ours
/// gets their numbers. print() then throws an Error (bad input).
void keep_standard_files();

}  // namespace mainstem::cli
