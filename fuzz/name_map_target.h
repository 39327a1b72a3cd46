#pragma once

// What the fuzz target does with its input: the lines of a name map are read and taken to a model,
// which the length chooses; and each is taken for the name of a tensor.
// tests/diagnose/fuzz_corpus_test.cc runs the kept corpus through it.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diagnose/name_table.h"
#include "fuzz_model.h"
#include "fuzz_targets.h"
#include "mainstem/diff.h"
#include "mainstem/sites.h"

namespace mainstem::fuzz {

/// Names of any tensors mean something or nothing in every model.
inline void find_names(const FuzzModel& of,
                       const std::vector<std::pair<std::string, std::string>>& map,
                       std::string_view text) {
  const Program& program = of.model.program();
  const NameTable table(of.model, map);
  const auto find = [&](const std::string& name, const std::string& op) {
    DumpTensor tensor;
    tensor.name = name;
    tensor.dtype = DType::kI64;
    tensor.shape = {1, 3};
    tensor.op = op;
    if (!op.empty()) tensor.operands.push_back({.name = name, .shape = {1, 3}});
    (void)table.slices(tensor);
    const Meaning meaning = table.find(tensor);
    if ((meaning.kind == NameKind::kValues) != !meaning.parts.empty()) std::abort();
    for (const NamePart& part : meaning.parts) {
      if (part.targets.empty()) std::abort();
      for (const Target& target : part.targets) (void)program.value(target.value);
      for (const int64_t column : part.columns) {
        if (column < 0 || column >= part.width) std::abort();
      }
    }
    return meaning;
  };
  for (const NameLine& line : table.lines()) {
    if (line.names.empty()) std::abort();
    for (const auto& [name, site] : line.names) {
      const Meaning meaning = find(name, "");
      if (meaning.kind == NameKind::kUnknown) std::abort();
    }
    find(line.theirs, "");
  }
  // Whole lines, taken for names of tensors.
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    for (const char* op : {"", "ADD", "MUL_MAT"}) find(line, op);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

inline void run_name_map(std::span<const std::byte> input) {
  std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  expect_answer([&] {
    const auto map = parse_name_map(text);
    std::set<std::string> seen;
    for (const auto& [name, site] : map) {
      if (name.empty() || !parse_site(with_number(site, 0)) || !seen.insert(name).second)
        std::abort();
    }
    expect_answer([&] { find_names(fuzz_model(text.size()), map, {}); });
  });
  // The lines need not be a map to be names.
  constexpr size_t kEnough = 2048;
  find_names(fuzz_model(text.size()), {}, text.substr(0, kEnough));
}

}  // namespace mainstem::fuzz
