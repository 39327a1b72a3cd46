// Clean runs of every family are no findings, in any arithmetic that is imitated; a value that was
// changed is found at its own step and nowhere else.

#include "mainstem/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "diagnose/dump_builder.h"
#include "diagnose/made_dump.h"
#include "mainstem/doctor.h"
#include "mainstem/error.h"
#include "mainstem/rng.h"
#include "support/golden_families.h"

namespace mainstem {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace mainstem::testing;

std::string found(const DiffReport& report) {
  std::string text = std::string(name(report.verdict)) + " " + report.reason;
  for (const StepReport& step : report.steps) {
    if (step.verdict == StepVerdict::kOk || step.verdict == StepVerdict::kInherited) continue;
    text += "\n" + to_string(step.site) + " " + std::string(name(step.verdict)) + " local " +
            std::to_string(*step.local) + " ratio " + std::to_string(*step.ratio);
  }
  return text;
}

class Diff : public ::testing::TestWithParam<std::string> {
 protected:
  Diff() : model_(load_family(GetParam())), input_(some_input(model_, 9)) {}
  MadeDump run(const SessionOptions& how) const { return {model_.bound(), input_, how}; }
  DiffReport compare(const MadeDump& dump) const {
    return diff(model_, dump.open(), {.threads = 1});
  }

  Model model_;
  SequenceInput input_;
};

TEST_P(Diff, OurOwnFastRunIsNoFinding) {
  const DiffReport report = compare(run({.compute = Compute::kF32}));
  EXPECT_EQ(report.verdict, DiffVerdict::kMatch) << found(report);
  EXPECT_EQ(report.arithmetic, ArithmeticType::kF32);
  EXPECT_GT(report.steps.size(), 10U);
  EXPECT_THAT(report.unmapped, IsEmpty());
}

TEST_P(Diff, HalfPrecisionIsNoFindingAndIsRecognised) {
  for (const auto& [type, stored] : {std::pair{ArithmeticType::kBF16, DType::kBF16},
                                     std::pair{ArithmeticType::kF16, DType::kF16},
                                     std::pair{ArithmeticType::kBF16, DType::kF32}}) {
    for (int variant : {0, 3}) {
      MadeDump dump = run({.compute = Compute::kF64, .arithmetic = {type, variant}});
      dump.store_as(stored);
      const DiffReport report = compare(dump);
      EXPECT_EQ(report.verdict, DiffVerdict::kMatch) << found(report);
      EXPECT_EQ(report.arithmetic, type);
    }
  }
}

// Not only what was computed in 16 bits: also what was computed in float32 and rounded to save
// room.
TEST_P(Diff, RoundedOnTheWayIntoTheFileIsNoFinding) {
  const int64_t rows = model_.spec().context_length - 2;
  const SequenceInput input = some_input(model_, std::min<int64_t>(rows, 56));
  for (const DType stored : {DType::kBF16, DType::kF16}) {
    MadeDump dump(model_.bound(), input, {.compute = Compute::kF32});
    dump.store_as(stored);
    const DiffReport report = compare(dump);
    EXPECT_EQ(report.verdict, DiffVerdict::kMatch) << found(report);
  }
}

TEST_P(Diff, DoubleIsHeldToDouble) {
  MadeDump dump = run({.compute = Compute::kF64Reference});
  EXPECT_EQ(compare(dump).verdict, DiffVerdict::kMatch);
  // Far below float32's round-off, but not double's.
  const std::string site = model_.spec().encoder ? "decoder.blocks.0.mlp_act" : "blocks.0.mlp_act";
  double* largest = dump.at(site).data<double>();
  for (int64_t i = 0; i < dump.at(site).count(); ++i) {
    double* each = dump.at(site).data<double>() + i;
    if (std::fabs(*each) > std::fabs(*largest)) largest = each;
  }
  *largest *= 1 + 1e-8;
  const DiffReport report = compare(dump);
  EXPECT_EQ(report.arithmetic, ArithmeticType::kF64);
  EXPECT_THAT(report.wrong(), Contains(site)) << found(report);
}

// Every step in its turn is the only one that is wrong.
TEST_P(Diff, AChangedValueIsWrongAtItsOwnStepAlone) {
  const MadeDump clean = run({.compute = Compute::kF32});
  const DiffReport whole = compare(clean);
  size_t tried = 0;
  for (const StepReport& step : whole.steps) {
    if (step.site.site == Site::kScores || step.site.site == Site::kCrossScores) continue;
    if (++tried % 3 != 0) continue;  // a third of them, spread over the program
    MadeDump dump = clean;
    Tensor copy(DType::kF32, dump.at(to_string(step.site)).shape());
    const auto before = dump.at(to_string(step.site)).as<float>();
    for (int64_t i = 0; i < copy.count(); ++i) {
      copy.data<float>()[i] = before[static_cast<size_t>(i)] * (i % 2 == 0 ? 1.01F : 0.98F);
    }
    dump.at(to_string(step.site)) = copy;
    const DiffReport report = compare(dump);
    ASSERT_TRUE(report.first) << to_string(step.site);
    EXPECT_EQ(report.steps[*report.first].site, step.site) << found(report);
    // Its readers are judged on what they read, so they are right; but for other names of it.
    EXPECT_LE(report.wrong().size(), 5U) << found(report);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Diff, ::testing::ValuesIn(golden_families()),
                         [](const auto& each) { return each.param; });

class DiffLlama : public ::testing::Test {
 protected:
  Model model_ = load_family("llama");
  SequenceInput input_ = some_input(model_, 9);
  MadeDump clean_{model_.bound(), input_, {.compute = Compute::kF32}};
};

TEST_F(DiffLlama, AMissingValueIsJudgedWithTheNextOne) {
  MadeDump dump = clean_;
  dump.keep([](const std::string& each) {
    return each == "tokens" || each.ends_with("resid_post") || each == "embed";
  });
  DiffReport report = diff(model_, dump.open(), {.threads = 1});
  EXPECT_EQ(report.verdict, DiffVerdict::kMatch) << found(report);
  Tensor changed(DType::kF32, dump.at("blocks.1.resid_post").shape());
  const auto before = dump.at("blocks.1.resid_post").as<float>();
  for (int64_t i = 0; i < changed.count(); ++i) {
    changed.data<float>()[i] = before[static_cast<size_t>(i)] + 0.25F;
  }
  dump.at("blocks.1.resid_post") = changed;
  report = diff(model_, dump.open(), {.threads = 1});
  ASSERT_TRUE(report.first);
  const StepReport& step = report.steps[*report.first];
  EXPECT_EQ(to_string(step.site), "blocks.1.resid_post");
  EXPECT_THAT(step.from, ElementsAre("blocks.0.resid_post"));
  EXPECT_THAT(step.covers, Contains("blocks.1.mlp_hidden"));
}

// One wrong row of many vanishes in the norm of the whole.
TEST_F(DiffLlama, OneWrongRowIsFound) {
  const SequenceInput input = some_input(model_, 60);
  MadeDump dump(model_.bound(), input,
                {.compute = Compute::kF64, .arithmetic = {ArithmeticType::kBF16, 0}});
  Tensor& value = dump.at("blocks.0.mlp_proj");
  const int64_t width = value.shape().back();
  // The smallest row gets the error, as large as the row itself is.
  int64_t smallest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t row = 0; row < 60; ++row) {
    double size = 0;
    for (int64_t c = 0; c < width; ++c) size += std::pow(value.data<double>()[row * width + c], 2);
    if (size < least) {
      least = size;
      smallest = row;
    }
  }
  for (int64_t c = 0; c < width; ++c) value.data<double>()[smallest * width + c] *= -1;
  dump.store_as(DType::kBF16);
  const DiffReport report = diff(model_, dump.open(), {.threads = 1});
  ASSERT_TRUE(report.first);
  EXPECT_EQ(to_string(report.steps[*report.first].site), "blocks.0.mlp_proj");
}

TEST_F(DiffLlama, InfAndNanAreFindingsOfTheirOwn) {
  MadeDump dump = clean_;
  dump.at("blocks.0.mlp_proj").data<float>()[5] = std::numeric_limits<float>::infinity();
  dump.at("blocks.1.k").data<float>()[7] = std::nanf("");
  const DiffReport report = diff(model_, dump.open(), {.threads = 1});
  ASSERT_TRUE(report.first);
  const StepReport& step = report.steps[*report.first];
  EXPECT_EQ(to_string(step.site), "blocks.0.mlp_proj");
  EXPECT_THAT(step.first_inf, ElementsAre(0, 0, 5));
  const auto nan = std::find_if(report.steps.begin(), report.steps.end(),
                                [](const StepReport& each) { return !each.first_nan.empty(); });
  ASSERT_NE(nan, report.steps.end());
  EXPECT_EQ(to_string(nan->site), "blocks.1.k");
}

// attn_proj and attn_out are one value of a block without a norm behind attention.
TEST_F(DiffLlama, NanUnderOneOfTwoNamesIsNoMatch) {
  for (const char* name : {"blocks.0.attn_proj", "blocks.0.attn_out"}) {
    for (const float number : {std::nanf(""), INFINITY, -INFINITY}) {
      MadeDump dump = clean_;
      dump.at(name).data<float>()[5] = number;
      const DiffReport report = diff(model_, dump.open(), {.threads = 1});
      EXPECT_EQ(report.verdict, DiffVerdict::kDivergent) << name << " " << number;
      EXPECT_THAT(report.wrong(), Contains(name)) << number;
    }
  }
}

// Squares of such numbers are infinite.
TEST_F(DiffLlama, HugeNumbersAreMeasured) {
  MadeDump dump(model_.bound(), input_, {.compute = Compute::kF64});
  dump.at("blocks.0.mlp_hidden").data<double>()[5] = 1e300;
  const DiffReport report = diff(model_, dump.open(), {.threads = 1});
  EXPECT_THAT(report.wrong(), ElementsAre("blocks.0.mlp_hidden", "blocks.0.mlp_proj"));
  for (const StepReport& step : report.steps) {
    EXPECT_FALSE(std::isnan(*step.local) || std::isnan(*step.ratio)) << to_string(step.site);
    EXPECT_TRUE(std::isfinite(*step.envelope)) << to_string(step.site);
    EXPECT_NE(step.verdict, StepVerdict::kPrecision) << to_string(step.site);
  }
}

TEST_F(DiffLlama, ALowerPrecisionIsToldFromAMistake) {
  MadeDump dump = clean_;
  // This product alone ran in bfloat16.
  MadeDump low(model_.bound(), input_,
               {.compute = Compute::kF64, .arithmetic = {ArithmeticType::kBF16, 0}});
  low.store_as(DType::kF32);
  dump.at("blocks.0.mlp_gate") = low.at("blocks.0.mlp_gate");
  DiffReport report = diff(model_, dump.open(), {.threads = 1});
  ASSERT_TRUE(report.first);
  EXPECT_EQ(to_string(report.steps[*report.first].site), "blocks.0.mlp_gate");
  EXPECT_EQ(report.steps[*report.first].verdict, StepVerdict::kPrecision);
  EXPECT_EQ(report.verdict, DiffVerdict::kDivergent);
  // Noise of the same size is none.
  dump = clean_;
  Tensor noisy(DType::kF32, dump.at("blocks.0.mlp_gate").shape());
  const auto before = dump.at("blocks.0.mlp_gate").as<float>();
  for (int64_t i = 0; i < noisy.count(); ++i) {
    const auto sign = static_cast<float>((i * 7919 % 13) - 6) / 6;
    noisy.data<float>()[i] = before[static_cast<size_t>(i)] * (1 + 0.003F * sign);
  }
  dump.at("blocks.0.mlp_gate") = noisy;
  report = diff(model_, dump.open(), {.threads = 1});
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.steps[*report.first].verdict, StepVerdict::kWrong) << found(report);
}

TEST_F(DiffLlama, AValueStoredInALowerTypeDoesNotMakeItsReadersWrong) {
  struct Case {
    Compute compute;
    DType dtype;
  };
  for (const auto& [compute, dtype] :
       {Case{Compute::kF64, DType::kF32}, Case{Compute::kF64, DType::kF16},
        Case{Compute::kF32, DType::kF16}, Case{Compute::kF32, DType::kBF16}}) {
    for (const char* site : {"blocks.0.k", "blocks.0.attn_norm", "blocks.0.resid_mid",
                             "blocks.1.pattern", "blocks.1.mlp_gate"}) {
      SCOPED_TRACE(std::string(info(dtype).name) + " " + site);
      MadeDump dump(model_.bound(), input_, {.compute = compute});
      dump.store_one_as(site, dtype);
      const DiffReport report = diff(model_, dump.open(), {.threads = 1});
      EXPECT_THAT(report.wrong(), ElementsAre(site)) << found(report);
      ASSERT_TRUE(report.first);
      EXPECT_EQ(report.steps[*report.first].verdict, StepVerdict::kPrecision) << found(report);
    }
  }
  // What is wrong by more than that stays wrong, and so does what reads nothing of it.
  MadeDump dump = clean_;
  dump.store_one_as("blocks.0.attn_norm", DType::kF16);
  for (const char* site : {"blocks.0.q", "blocks.0.mlp_gate"}) {
    Tensor& value = dump.at(site);
    const float factor = std::string_view(site) == "blocks.0.q" ? 1.01F : 1.0001F;
    for (int64_t i = 0; i < value.view().count(); ++i) value.data<float>()[i] *= factor;
  }
  const DiffReport report = diff(model_, dump.open(), {.threads = 1});
  EXPECT_THAT(report.wrong(), ElementsAre("blocks.0.attn_norm", "blocks.0.q", "blocks.0.q_rot",
                                          "blocks.0.mlp_gate", "blocks.0.mlp_act"))
      << found(report);
}

// A pattern in 16 bits of which the dump has nothing but what was mixed by it.
TEST_F(DiffLlama, OneRoundedValueInsideAChainIsFound) {
  const auto round = [](double x) {
    return double{bf16_to_f32(f32_to_bf16(static_cast<float>(x)))};
  };
  std::vector<SiteId> sites = all_sites(model_.program());
  Session session(model_.bound(), {.compute = Compute::kF64, .threads = 1, .sites = sites});
  SequenceInput own = input_;
  own.sequence = session.add_sequence();
  DumpBuilder builder;
  session.forward_all(
      {&own, 1},
      [&](const TraceEvent& event) {
        const Site site = event.site.site;
        const bool inside = site == Site::kScores || site == Site::kPattern || site == Site::kQRot;
        const DType type = site == Site::kTokens ? DType::kI64 : DType::kF32;
        if (!inside) {
          builder.add(to_string(event.site), event.value.shape(), to_f64(event.value), type);
        }
      },
      [&](const TraceEvent& event, void* data) {
        if (event.site.site != Site::kPattern || event.site.layer != 1) return;
        auto* values = static_cast<double*>(data);
        for (int64_t i = 0; i < event.value.count(); ++i) values[i] = round(values[i]);
      });
  const DoctorReport report = doctor(model_, builder.build(), {.threads = 1});
  ASSERT_EQ(report.causes.size(), 1) << found(report.diff);
  EXPECT_THAT(report.diff.wrong(), ElementsAre("blocks.1.attn_mix"));
  EXPECT_EQ(report.causes[0].id, "precision.dtype");
  EXPECT_EQ(report.causes[0].parameters[0].second, "bf16, in pattern alone");
}

TEST_F(DiffLlama, LogitsAreComparedAsPredictions) {
  const DiffReport same = diff(model_, clean_.open(), {.threads = 1});
  ASSERT_TRUE(same.logits);
  EXPECT_EQ(same.logits->top1, 1);
  EXPECT_LT(same.logits->kl, 1e-9);
  MadeDump dump = clean_;
  dump.keep([](const std::string& each) { return each != "logits"; });
  const std::string site = "head";
  Tensor turned(DType::kF32, dump.at(site).shape());
  const auto before = dump.at(site).as<float>();
  for (int64_t i = 0; i < turned.count(); ++i) {
    turned.data<float>()[i] = -before[static_cast<size_t>(i)];
  }
  dump.at(site) = turned;
  const DiffReport other = diff(model_, dump.open(), {.threads = 1});
  ASSERT_TRUE(other.logits);
  EXPECT_EQ(other.logits->top1, 0);
  EXPECT_GT(other.logits->kl, 0.01);
}

TEST_F(DiffLlama, BlocksThatAreNotThereAreRefused) {
  const Dump dump = clean_.open();
  const auto blocks = static_cast<int>(model_.spec().stack.blocks.size());
  const auto judged = [&](int begin, int end) {
    return diff(model_, dump, {.layers = {{begin, end}}, .threads = 1});
  };
  const DiffReport later = judged(1, blocks);
  EXPECT_EQ(later.verdict, DiffVerdict::kMatch);
  for (const StepReport& step : later.steps) {
    // What the first of them reads is taken as it is.
    EXPECT_NE(step.site.layer, 0) << to_string(step.site);
    for (const std::string& site : step.covers) EXPECT_FALSE(site.starts_with("blocks.0.")) << site;
  }
  EXPECT_EQ(later.steps.front().from, std::vector<std::string>{"blocks.0.resid_post"});
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{
           {0, blocks + 1}, {blocks, blocks + 1}, {1, 1}, {2, 1}, {-1, 1}}) {
    try {
      judged(begin, end);
      ADD_FAILURE() << begin << ":" << end;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("layers"));
      EXPECT_THAT(error.what(), HasSubstr(std::to_string(begin) + ":" + std::to_string(end)));
    }
  }
}

TEST_F(DiffLlama, TwoDumpsAreComparedByName) {
  const DiffReport same = diff(clean_.open(), clean_.open());
  EXPECT_EQ(same.verdict, DiffVerdict::kMatch);
  MadeDump dump = clean_;
  dump.at("blocks.1.q").data<float>()[0] += 1;
  const DiffReport report = diff(dump.open(), clean_.open());
  EXPECT_EQ(report.verdict, DiffVerdict::kDivergent);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.steps[*report.first].name, "blocks.1.q");
  EXPECT_THAT(report.notes, Not(Contains(HasSubstr("first in the file"))));
  dump.keep([](const std::string& each) { return each == "embed"; });
  MadeDump other = clean_;
  other.keep([](const std::string& each) { return each == "blocks.0.q"; });
  EXPECT_EQ(diff(dump.open(), other.open()).verdict, DiffVerdict::kIncomparable);
}

// Files sort their tensors; what comes first is a matter of the computation.
TEST_F(DiffLlama, TheFirstDifferenceOfTwoDumpsIsTheFirstOfTheComputation) {
  DumpBuilder mine, theirs;
  for (const char* name : {"blocks.1.q", "blocks.10.q", "blocks.0.resid_post", "logits", "embed"}) {
    mine.add(name, {2}, {1, 2});
    theirs.add(name, {2}, {1, 3});
  }
  const DiffReport report = diff(mine.build(), theirs.build());
  std::vector<std::string> names;
  for (const StepReport& step : report.steps) names.push_back(step.name);
  EXPECT_THAT(names,
              ElementsAre("embed", "blocks.0.resid_post", "blocks.1.q", "blocks.10.q", "logits"));
  EXPECT_EQ(report.first, 0U);
  DumpBuilder foreign, other;
  foreign.add("model.norm", {2}, {1, 2});
  other.add("model.norm", {2}, {1, 3});
  EXPECT_THAT(diff(foreign.build(), other.build()).notes, Contains(HasSubstr("first in the file")));
}

TEST_F(DiffLlama, OtherWeightsAreSuspected) {
  const auto note_of = [&](const std::string& changed) {
    WeightSources weights = model_.weights();
    std::vector<Tensor> made;
    Generator generator(2);
    for (auto& [name, source] : weights) {
      if (name.find(changed) == std::string::npos || source.tensor.rank() != 2) continue;
      std::vector<double> values = to_f64(source.tensor);
      for (double& value : values) {
        double noise = 0;
        generator.randn(std::span<double>(&noise, 1));
        value += 0.05 * noise;
      }
      Tensor tensor(DType::kF64, source.tensor.shape());
      std::copy(values.begin(), values.end(), tensor.data<double>());
      made.push_back(tensor);
      source.tensor = made.back().view();
    }
    EXPECT_FALSE(made.empty()) << changed;
    const MadeDump dump(std::make_shared<BoundProgram>(model_.program(), weights),
                        some_input(model_, 9), {.compute = Compute::kF32});
    const DiffReport report = diff(model_, dump.open(), {.threads = 1});
    EXPECT_EQ(report.verdict, DiffVerdict::kDivergent);
    return std::any_of(report.notes.begin(), report.notes.end(), [](const std::string& note) {
      return note.find("looks like one of other weights") != std::string::npos;
    });
  };
  EXPECT_TRUE(note_of(""));
  EXPECT_FALSE(note_of("mlp"));
}

}  // namespace
}  // namespace mainstem
