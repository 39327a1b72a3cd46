// Text of llama.cpp itself (tests/generators/make_llama_dumps.py), of small models in float32.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "diagnose/dump_builder.h"
#include "mainstem/doctor.h"

namespace mainstem::testing {
namespace {

DoctorReport doctor_of(const std::string& name) {
  const GoldenModel golden = golden_family(name);
  const std::filesystem::path dumps = golden_families_folder().parent_path() / "dumps";
  return doctor(golden.model, Dump::open(dumps / ("nodes_" + name + ".txt")), {.threads = 1});
}

const Cause* find(const DoctorReport& report, const std::string& id) {
  const auto found = std::find_if(report.causes.begin(), report.causes.end(),
                                  [&](const Cause& each) { return each.id == id; });
  return found == report.causes.end() ? nullptr : &*found;
}

TEST(LlamaText, SoundStepsMatchAndTheTableOfGeluIsNamed) {
  const DoctorReport report = doctor_of("gpt_neox");
  EXPECT_EQ(report.diff.verdict, DiffVerdict::kMatch);
  EXPECT_EQ(report.diff.arithmetic, ArithmeticType::kQ8Act);
  EXPECT_GT(report.diff.steps.size(), 30u);
  EXPECT_TRUE(report.diff.unmapped.empty()) << report.diff.unmapped[0];
  const Cause* table = find(report, "mlp.activation");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(report.causes.size(), 1u);
  EXPECT_NE(table->known_fault.find("llama.cpp"), std::string::npos);
  EXPECT_LT(table->left, table->local / 10);
}

// The model asks for scores divided by the number of the layer, which GGUF cannot say.
TEST(LlamaText, WhatTheFileCannotSayIsProved) {
  const DoctorReport report = doctor_of("gpt2");
  ASSERT_EQ(report.diff.verdict, DiffVerdict::kDivergent);
  EXPECT_EQ(to_string(report.diff.steps[*report.diff.first].site), "blocks.1.pattern");
  const Cause* scale = find(report, "attn.scale");
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->status, CauseStatus::kProved);
  const Cause* table = find(report, "mlp.activation");
  ASSERT_NE(table, nullptr);
  EXPECT_FALSE(table->known_fault.empty());
}

}  // namespace
}  // namespace mainstem::testing
