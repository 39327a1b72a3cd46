// A tiny random model of every family, loaded from its files, against what transformers computed
// from them (tests/generators/make_families.py) and against the oracle.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "mainstem/check.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/golden_families.h"
#include "support/parts.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

namespace fs = std::filesystem;
constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();

/// The weight as the program means it, apart from the library's own way to lay it out.
std::vector<double> laid_out(const WeightInfo& info, const WeightSource& source) {
  const std::vector<double> stored = to_f64(source.tensor);
  const bool vector = info.kind == WeightKind::kVector;
  const auto inputs = static_cast<size_t>(vector ? 1 : info.shape.back());
  const size_t outputs = static_cast<size_t>(element_count(info.shape)) / inputs;
  const size_t stored_outputs = stored.size() / inputs;
  std::vector<double> weight;
  for (size_t n = 0; n < outputs; ++n) {
    const size_t row = source.row_order.empty() ? n : static_cast<size_t>(source.row_order[n]);
    for (size_t i = 0; i < inputs; ++i) {
      weight.push_back(stored.at(source.transposed ? i * stored_outputs + row : row * inputs + i));
    }
  }
  return weight;
}

class Families : public ::testing::TestWithParam<std::string> {
 protected:
  Families()
      : folder_(golden_families_folder() / GetParam()),
        golden_(SafetensorsFile::open(folder_ / "golden.safetensors")),
        loaded_(Model::load(folder_, {.allow_unknown_keys = {}, .skip_tokenizer = true})) {
    model_.spec = loaded_.spec();
    model_.sources = loaded_.weights();
    model_.bound = loaded_.bound();
    model_.blocks = count_blocks(model_.spec);
    for (const WeightInfo& info : loaded_.program().weights) {
      model_.oracle_weights[info.name] = laid_out(info, model_.sources.at(info.name));
    }
    input_.tokens = ids("tokens");
    input_.token_types = ids("token_types");
    input_.encoder_tokens = ids("encoder_tokens");
  }

  std::vector<int64_t> ids(const std::string& name) const {
    if (golden_.find(name) == nullptr) return {};
    const TensorView view = golden_.view(name);
    const auto values = view.as<int64_t>();
    return {values.begin(), values.end()};
  }

  fs::path folder_;
  SafetensorsFile golden_;
  Model loaded_;
  TestModel model_;
  SequenceInput input_;
};

/// Golden values are kept in float32: half a unit of theirs, beside the rounding of the forward.
TEST_P(Families, EverySiteEqualsTransformers) {
  for (Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    const Traced got = trace_all(model_, {input_}, compute);
    const double relative =
        bounds::end_to_end(compute == Compute::kF64 ? kEps64 : kEps32, model_.blocks);
    std::set<std::string> compared;
    for (const StoredTensor& tensor : golden_.tensors()) {
      if (tensor.name.ends_with("tokens") || tensor.name == "token_types") continue;
      SCOPED_TRACE(tensor.name);
      ASSERT_TRUE(got.data.contains(tensor.name));
      const TensorView view = golden_.view(tensor.name);
      const std::vector<double> want = to_f64(view);
      double largest = 0;
      for (double value : want) largest = std::max(largest, std::abs(value));
      EXPECT_TRUE(same_shape(got.shape.at(tensor.name), view.shape()));
      EXPECT_TRUE(close(got.data.at(tensor.name), want, [&](size_t i) {
        return relative * largest + kEps32 / 2 * std::abs(want[i]);
      }));
      compared.insert(tensor.name);
    }
    // What has no golden value of its own is a second name, or stands in an earlier block.
    const std::string last = "blocks." + std::to_string(model_.spec.stack.blocks.size() - 1) + ".";
    std::set<std::vector<double>> values;
    for (const std::string& site : compared) values.insert(got.data.at(site));
    for (const std::string& site : got.order) {
      const bool earlier =
          site.find("blocks.") != std::string::npos && site.find(last) == std::string::npos;
      if (earlier || site.ends_with("tokens")) continue;
      EXPECT_TRUE(values.contains(got.data.at(site))) << site;
    }
  }
}

TEST_P(Families, DoubleEqualsTheOracleAtEverySite) {
  const oracle::Trace want = run_oracle(model_, {input_});
  const Traced got = trace_all(model_, {input_}, Compute::kF64);
  std::vector<std::string> names;
  for (const auto& [name, values] : want.all()) {
    names.push_back(name);
    ASSERT_TRUE(got.data.contains(name)) << name;
    EXPECT_TRUE(same_shape(got.shape.at(name), values.shape)) << name;
    EXPECT_TRUE(close(got.data.at(name), values.data, bounds::end_to_end(kEps64, model_.blocks)))
        << name;
  }
  EXPECT_EQ(got.order, names);
}

TEST_P(Families, ChunksAndSingleStepsEqualOnePassAtEverySite) {
  if (model_.spec.stack.blocks[0].attention.mask == MaskKind::kFull) {
    GTEST_SKIP() << "an encoder has no cache";
  }
  const auto length = static_cast<int64_t>(input_.tokens.size());
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    const Traced whole = trace_all(model_, {input_}, compute);
    for (int64_t chunk : {int64_t{1}, int64_t{3}}) {
      Session session(model_.bound,
                      {.compute = compute, .threads = 1, .sites = all_sites(model_.program())});
      input_.sequence = session.add_sequence();
      for (int64_t begin = 0; begin < length; begin += chunk) {
        const int64_t end = std::min(length, begin + chunk);
        const SequenceInput part = part_of(input_, begin, end);
        Traced traced;
        session.forward_all({&part, 1}, traced.sink());
        expect_part(model_, traced, whole, begin, end, compute);
      }
    }
  }
}

TEST_P(Families, PassesEveryCheck) {
  int passed = 0;
  for (const CheckResult& result : check(model_.program(), model_.sources, {.threads = 1})) {
    EXPECT_NE(result.status, CheckStatus::kFailed) << result.id << ": " << result.detail;
    passed += result.status == CheckStatus::kOk ? 1 : 0;
  }
  EXPECT_GE(passed, 6);
}

INSTANTIATE_TEST_SUITE_P(Golden, Families, ::testing::ValuesIn(golden_families()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mainstem::testing
