// Dumps of programs with a known mistake in them: nothing of it is taken for a convention.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "diagnose/align.h"
#include "diagnose/align_conventions.h"
#include "diagnose/dump_builder.h"
#include "diagnose/foreign_names.h"
#include "mainstem/check.h"
#include "mainstem/error.h"
#include "support/golden_families.h"

namespace mainstem::testing {
namespace {

class AlignMistakes : public ::testing::TestWithParam<std::string> {};

/// As the type holds it.
std::vector<double> stored(const TracedValue& traced, DType dtype) {
  std::vector<double> numbers = to_f64(traced.value.view());
  for (double& x : numbers) {
    const auto single = static_cast<float>(x);
    x = static_cast<double>(dtype == DType::kBF16 ? bf16_to_f32(f32_to_bf16(single)) : single);
  }
  return numbers;
}

TEST_P(AlignMistakes, StayAsTheyAre) {
  const GoldenModel golden = golden_family(GetParam());
  const Model& model = golden.model;
  int made = 0;
  for (const MistakeInfo& info : known_mistakes()) {
    BrokenModel edited;
    try {
      edited = make_mistake(model.program(), model.weights(), {.id = info.id});
    } catch (const Error&) {
      continue;  // nothing here to break that way
    }
    ++made;
    const auto bound = std::make_shared<BoundProgram>(edited.program, edited.weights);
    const std::vector<TracedValue> values =
        trace(bound, {&golden.input, 1}, all_sites(edited.program), Compute::kF64, 1);
    using Way = std::pair<Naming, DType>;
    for (const auto& [naming, dtype] :
         {Way{Naming::kMainstem, DType::kF32}, Way{Naming::kMainstem, DType::kBF16},
          Way{Naming::kHuggingFace, DType::kF32}, Way{Naming::kTransformerLens, DType::kBF16},
          Way{Naming::kGgml, DType::kF32}}) {
      // These are what such a name means there: llama.cpp's q and k are permuted, and an embedding
      // may or may not have its scale.
      const bool usual = (info.id == "weight.rows_permuted" && naming == Naming::kGgml) ||
                         (info.id == "embed.scale" && naming != Naming::kMainstem);
      if (usual) continue;
      SCOPED_TRACE(info.id + " " + std::to_string(static_cast<int>(naming)) + " " +
                   std::string(name(dtype)));
      DumpBuilder dump;
      std::map<std::string, std::vector<double>> written;
      for (const TracedValue& traced : values) {
        if (traced.site.site == Site::kTokens) {
          const auto ids = traced.value.as<int64_t>();
          dump.add_ids(to_string(traced.site), traced.value.shape(), {ids.begin(), ids.end()});
          continue;
        }
        const auto value = model.program().find_value(traced.site);
        if (!value || first_site(model.program(), *value) != traced.site) continue;
        written[to_string(traced.site)] = stored(traced, dtype);
        dump.add(foreign_name(naming, model.program(), model.family(), *value, traced.site),
                 traced.value.shape(), to_f64(traced.value.view()), dtype);
      }
      if (!golden.input.token_types.empty()) {
        dump.add_ids("token_types", {std::ssize(golden.input.token_types)},
                     golden.input.token_types);
      }
      const Aligned aligned = align(model, dump.build(), {.threads = 1});
      EXPECT_EQ(aligned.notes, std::vector<std::string>());
      EXPECT_EQ(aligned.values.size(), written.size());
      for (const AlignedValue& value : aligned.values) {
        // What a mask hides is the reference's own.
        if (value.site.site == Site::kScores || value.site.site == Site::kCrossScores) continue;
        EXPECT_TRUE(value.data == written.at(to_string(value.site))) << to_string(value.site);
      }
    }
  }
  EXPECT_GE(made, 3);
}

INSTANTIATE_TEST_SUITE_P(Golden, AlignMistakes, ::testing::ValuesIn(golden_families()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mainstem::testing
