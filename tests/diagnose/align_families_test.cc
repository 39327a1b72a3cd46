// A tiny model of every family: what a trace writes under each world's names leads back to the very
// same values.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "diagnose/align.h"
#include "diagnose/dump_builder.h"
#include "diagnose/foreign_names.h"
#include "support/golden_families.h"

namespace mainstem::testing {
namespace {

class AlignFamilies : public ::testing::TestWithParam<std::string> {};

std::vector<double> numbers(const TracedValue& traced) { return to_f64(traced.value.view()); }

TEST_P(AlignFamilies, EveryNamingLeadsBackToTheValues) {
  const GoldenModel golden = golden_family(GetParam());
  const Model& model = golden.model;
  const Program& program = model.program();
  const std::vector<TracedValue> values = golden.values();
  for (const Naming naming :
       {Naming::kMainstem, Naming::kHuggingFace, Naming::kTransformerLens, Naming::kGgml}) {
    SCOPED_TRACE(static_cast<int>(naming));
    DumpBuilder dump;
    std::map<ValueId, const TracedValue*> written;
    for (const TracedValue& traced : values) {
      const ValueId value = *program.find_value(traced.site);
      if (traced.site.site == Site::kTokens) {
        const auto ids = traced.value.as<int64_t>();
        dump.add_ids(to_string(traced.site), traced.value.shape(), {ids.begin(), ids.end()});
        continue;
      }
      if (!written.emplace(value, &traced).second) continue;
      dump.add(foreign_name(naming, program, model.family(), value, traced.site),
               traced.value.shape(), numbers(traced));
    }
    if (!golden.input.token_types.empty()) {
      dump.add_ids("token_types", {std::ssize(golden.input.token_types)}, golden.input.token_types);
    }
    const Aligned aligned = align(model, dump.build(), {.threads = 1});
    EXPECT_EQ(aligned.incomparable, "");
    EXPECT_EQ(aligned.unmapped, std::vector<std::string>());
    EXPECT_EQ(aligned.notes, std::vector<std::string>());
    EXPECT_FALSE(aligned.tokens_differ);
    std::set<ValueId> found;
    for (const AlignedValue& value : aligned.values) {
      const ValueId id = *program.find_value(value.site);
      ASSERT_TRUE(written.contains(id)) << to_string(value.site);
      EXPECT_TRUE(found.insert(id).second);
      EXPECT_TRUE(value.complete());
      EXPECT_EQ(value.shape, written.at(id)->value.shape());
      EXPECT_TRUE(value.data == numbers(*written.at(id))) << value.name;
    }
    EXPECT_EQ(found.size(), written.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, AlignFamilies, ::testing::ValuesIn(golden_families()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mainstem::testing
