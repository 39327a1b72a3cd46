#include "diagnose/name_lines.h"

#include <algorithm>

#include "mainstem/error.h"

namespace mainstem {
namespace {

bool has_any(std::string_view name) { return name.find(kAnyBlock) != std::string_view::npos; }

}  // namespace

std::string with_number(std::string_view pattern, int64_t number) {
  std::string name(pattern);
  if (const size_t at = name.find(kAnyBlock); at != std::string::npos) {
    name.replace(at, 1, std::to_string(number));
  }
  return name;
}

int64_t blocks_of(const Program& program, Stack stack) {
  const bool encoder = stack == Stack::kEncoder;
  if (encoder && !program.spec.encoder) return 0;
  return std::ssize((encoder ? *program.spec.encoder : program.spec.stack).blocks);
}

std::vector<NameLine> write_out(const Program& program,
                                const std::vector<std::pair<std::string, std::string>>& names) {
  std::vector<NameLine> lines;
  for (const auto& [theirs, ours] : names) {
    NameLine line{.theirs = theirs, .ours = ours};
    if (!has_any(ours)) {
      // A '*' of theirs is one of its letters here.
      const auto site = parse_site(ours);
      if (site && program.find_value(*site)) line.names.emplace_back(theirs, *site);
    } else if (const auto first = parse_site(with_number(ours, 0))) {
      const int64_t blocks = blocks_of(program, first->stack);
      if (std::count(theirs.begin(), theirs.end(), kAnyBlock) > 1) {
        throw bad_input("name in the map", "one '*', for the number of a block",
                        "'" + theirs + "'");
      }
      if (!has_any(theirs)) line.stacked = blocks;
      const std::string pattern = has_any(theirs) ? theirs : theirs + '.' + kAnyBlock;
      for (int64_t n = 0; n < blocks; ++n) {
        const auto site = parse_site(with_number(ours, n));
        if (site && program.find_value(*site)) {
          line.names.emplace_back(with_number(pattern, n), *site);
        }
      }
    }
    if (line.names.empty()) {
      throw bad_input("site that '" + theirs + "' stands for", "a step of this model",
                      "'" + ours + "'")
          .hint("mainstem inspect MODEL lists them");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace mainstem
