// The caller's own names.

#include "diagnose/name_lines.h"
#include "io/text.h"
#include "mainstem/diff.h"
#include "mainstem/error.h"
#include "mainstem/sites.h"

namespace mainstem {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_name_map(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> names;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const auto where = [&] { return "line " + std::to_string(number); };
    // Names of nodes and paths may hold a '=', sites never do.
    const size_t equals = line.rfind('=');
    const std::string_view theirs =
        equals == std::string_view::npos ? std::string_view() : trimmed(line.substr(0, equals));
    const std::string_view ours =
        equals == std::string_view::npos ? std::string_view() : trimmed(line.substr(equals + 1));
    if (theirs.empty() || ours.empty()) {
      throw bad_input("name map", "their name = site", quote(line)).in(where());
    }
    if (!parse_site(with_number(ours, 0))) {
      throw bad_input("name map", "a site such as blocks.0.q", quote(ours)).in(where());
    }
    for (const auto& [before, site] : names) {
      if (before != theirs) continue;
      throw bad_input("name map", "each name once", quote(before) + " again").in(where());
    }
    names.emplace_back(theirs, ours);
  }
  return names;
}

}  // namespace mainstem
