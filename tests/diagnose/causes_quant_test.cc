// Quantised blocks that are read in another order, against the order written down here.

#include <gtest/gtest.h>

#include <cstring>

#include "diagnose/causes_check.h"
#include "support/random_model.h"

namespace mainstem {
namespace {

using testing::Dice;

/// Random quants with one scale for the whole block: a misread order is a permutation then.
Tensor random_blocks(DType dtype, const std::vector<int64_t>& shape, Dice& dice) {
  Tensor tensor(dtype, shape);
  auto* bytes = tensor.data<uint8_t>();
  const int64_t step = info(dtype).block_bytes;
  const bool k_quant = info(dtype).block_elements == 256;
  const bool has_minimum = k_quant || dtype == DType::kQ4_1 || dtype == DType::kQ5_1;
  for (int64_t at = 0; at < tensor.view().bytes(); at += step) {
    for (int64_t i = 0; i < step; ++i) bytes[at + i] = static_cast<uint8_t>(dice.below(256));
    const uint16_t scale = f32_to_f16(k_quant ? 0.0002F : 0.01F);
    const uint16_t minimum = f32_to_f16(k_quant ? 0.0015F : -0.07F);
    std::memcpy(bytes + at, &scale, 2);
    if (has_minimum) std::memcpy(bytes + at + 2, &minimum, 2);
    if (k_quant) std::memset(bytes + at + 4, 255, 12);
  }
  return tensor;
}

/// A small decoder whose matrices and table are quantised.
struct Quantised {
  testing::TestModel model;
  std::map<std::string, Tensor> tensors;
  std::shared_ptr<const BoundProgram> bound;

  explicit Quantised(DType dtype) {
    ModelSpec spec = testing::small_decoder();
    const int64_t width = 256;
    spec.stack.width = spec.stack.embed_width = width;
    spec.stack.blocks.resize(1);
    BlockSpec& block = spec.stack.blocks[0];
    block.width = block.mlp.hidden = width;
    block.attention.heads = block.attention.kv_heads = 4;
    block.attention.head_width = 64;
    spec.head.tied = true;
    model = testing::make_model(spec, 1);
    Dice dice(7);
    for (const WeightInfo& weight : model.program().weights) {
      if (weight.kind == WeightKind::kVector) continue;
      tensors[weight.name] = random_blocks(dtype, weight.shape, dice);
      model.sources[weight.name] = {.tensor = tensors.at(weight.name).view()};
    }
    bound = std::make_shared<BoundProgram>(model.program(), model.sources);
  }
  std::vector<Form> forms(int layer) const {
    return mainstem::forms(bound->program(), model.sources, layer);
  }
};

const std::vector<DType>& types() {
  static const std::vector<DType> all{DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                                      DType::kQ5_1, DType::kQ4_K, DType::kQ5_K};
  return all;
}

class MisreadBlocks : public ::testing::TestWithParam<DType> {};

TEST_P(MisreadBlocks, ShowAtTheProductsThatReadThem) {
  const Quantised model(GetParam());
  Dice dice(2);
  std::vector<SequenceInput> inputs{testing::random_input(model.model, dice, 5)};
  inputs[0].tokens[0] = 0;  // its row has the table's first block
  int tried = 0;
  for (int layer : {-1, 0}) {
    for (const Form& form : model.forms(layer)) {
      if (form.cause != "weight.quant_layout") continue;
      ++tried;
      testing::expect_shown(
          form, {},
          testing::differences(model.bound, testing::bind(form.make({}), model.model.sources),
                               inputs));
    }
  }
  EXPECT_GE(tried, 3 * 9);
}

/// What the wrong code reads at an element, by the element whose quant it takes.
TEST_P(MisreadBlocks, TakeTheQuantsOfOtherElements) {
  const Quantised model(GetParam());
  const std::string name = "blocks.0.mlp_proj.weight";
  const std::vector<double> right = to_f64(model.tensors.at(name).view());
  const int64_t block = info(GetParam()).block_elements;
  const int64_t chunk = block == 256 ? 64 : 32;
  const auto read = [&](const std::string& what) {
    const Form form = testing::form_of(model.forms(0), "weight.quant_layout", what);
    return to_f64(form.make({}).weights.at(name).tensor);
  };
  const auto neighbours = read("neighbours in mlp_proj");
  const auto high_first = read("first half of a block in mlp_proj");
  const auto first_only = read("behind the first block in mlp_proj");
  ASSERT_EQ(neighbours.size(), right.size());
  for (size_t i = 0; i < right.size(); ++i) {
    const auto e = static_cast<int64_t>(i) % chunk;
    const size_t first = i - static_cast<size_t>(e);
    EXPECT_EQ(neighbours[i], right[first + static_cast<size_t>(e % 2 * (chunk / 2) + e / 2)]);
    EXPECT_EQ(high_first[i], right[first + static_cast<size_t>((e + chunk / 2) % chunk)]);
    EXPECT_EQ(first_only[i], static_cast<int64_t>(i) < block ? right[i] : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MisreadBlocks, ::testing::ValuesIn(types()),
                         [](const auto& each) { return std::string(name(each.param)); });

TEST(MisreadNibbles, AsSignedNumbers) {
  const Quantised model(DType::kQ4_0);
  const std::string name = "blocks.0.q.weight";
  const Form form = testing::form_of(model.forms(0), "weight.quant_layout", "signed number in q ");
  const auto wrong = to_f64(form.make({}).weights.at(name).tensor);
  const auto right = to_f64(model.tensors.at(name).view());
  const double scale = f16_to_f32(f32_to_f16(0.01F));
  for (size_t i = 0; i < right.size(); ++i) {
    const auto stored = static_cast<int>(std::lround(right[i] / scale)) + 8;
    EXPECT_NEAR(wrong[i], scale * (stored < 8 ? stored : stored - 16), 1e-9);
  }
}

// Files that hold no blocks any more, written by a converter that took neighbours for halves.
TEST(ConvertedNibbles, AreColumnsInAnotherOrder) {
  ModelSpec spec = testing::small_decoder();
  const int64_t width = 64;
  spec.stack.width = spec.stack.embed_width = width;
  spec.stack.blocks.resize(1);
  BlockSpec& block = spec.stack.blocks[0];
  block.width = width;
  block.mlp.hidden = 96;
  block.attention.heads = block.attention.kv_heads = 4;
  block.attention.head_width = 16;
  const testing::TestModel model = testing::make_model(spec, 1);
  Dice dice(2);
  const std::vector<SequenceInput> inputs{testing::random_input(model, dice, 5)};
  int tried = 0;
  for (int layer : {-1, 0}) {
    for (const Form& form : forms(model.program(), model.sources, layer)) {
      if (form.cause != "weight.quant_layout") continue;
      ++tried;
      const auto wrong = testing::bind(form.make({}), model.sources);
      testing::expect_shown(form, {}, testing::differences(model.bound, wrong, inputs));
      if (layer < 0 || form.shows.size() > 1) continue;
      // The same file with its columns moved.
      const Step& step = model.program().step(
          model.program().value(*model.program().find_value(form.shows[0])).producer);
      const std::string& name = model.program().weight(step.weights[0]).name;
      const std::vector<double> right = to_f64(model.storage.at(name).view());
      const auto& shape = model.storage.at(name).shape();
      Tensor moved(DType::kF32, shape);
      for (int64_t at = 0; at < shape[0] * shape[1]; at += 32) {
        for (int64_t j = 0; j < 16; ++j) {
          for (int64_t s = 0; s < 2; ++s) {
            moved.data<float>()[at + 2 * j + s] =
                static_cast<float>(right[static_cast<size_t>(at + 16 * s + j)]);
          }
        }
      }
      Edited file{model.program()};
      file.weights[name] = {.tensor = moved.view()};
      const std::string site = to_string(form.shows[0]);
      const auto expected = testing::values_of(testing::bind(file, model.sources), inputs);
      EXPECT_LT(distance(testing::values_of(wrong, inputs).at(site), expected.at(site)), 1e-12)
          << form.yours;
    }
  }
  EXPECT_GE(tried, 9);
}

}  // namespace
}  // namespace mainstem
