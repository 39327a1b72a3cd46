// What the user's program read: tokens, masks, positions, types, and where they are taken from.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "diagnose/align.h"
#include "diagnose/dump_builder.h"
#include "mainstem/error.h"

namespace mainstem::testing {
namespace {

class AlignInputs : public ::testing::Test {
 protected:
  void load(const std::string& family) {
    golden_.emplace(golden_family(family));
    tokens_ = golden_->input.tokens;
  }
  int64_t count() const { return std::ssize(tokens_); }

  void add(DumpBuilder& dump, const char* site, const std::vector<SequenceInput>& inputs,
           DType dtype = DType::kF32, const char* name = nullptr) const {
    for (const TracedValue& traced : golden_->values_of(inputs)) {
      if (to_string(traced.site) != site) continue;
      dump.add(name == nullptr ? site : name, traced.value.shape(), to_f64(traced.value.view()),
               dtype);
    }
  }
  std::string failure(DumpBuilder& dump, const DiffOptions& options = {}) const {
    try {
      return align(golden_->model, dump.build(), options).incomparable;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
  }

  std::optional<GoldenModel> golden_;
  std::vector<int64_t> tokens_;
};

// What a module was called with says what ran; what is called tokens says what was meant.
TEST_F(AlignInputs, ANameOfItsOwnComesBeforeTheInputOfAModule) {
  load("llama");
  std::vector<int64_t> other = tokens_;
  other[0] = (other[0] + 1) % golden_->model.spec().vocab_size;
  DumpBuilder dump;
  dump.add_ids("model.embed_tokens.input", {1, count()}, other);
  dump.add_ids("tokens", {1, count()}, tokens_);
  // The value of a step, too: here it came from another place than its name says.
  add(dump, "blocks.1.mlp_value", {golden_->input}, DType::kF32, "model.layers.1.mlp.act_fn.input");
  add(dump, "blocks.1.mlp_gate", {golden_->input}, DType::kF32, "model.layers.1.mlp.gate_proj");
  const Aligned aligned = align(golden_->model, dump.build(), {});
  ASSERT_EQ(aligned.incomparable, "");
  EXPECT_EQ(aligned.inputs.at(0).tokens, tokens_);
  ASSERT_EQ(aligned.values.size(), 1U);
  EXPECT_EQ(aligned.values[0].name, "model.layers.1.mlp.gate_proj");
  ASSERT_EQ(aligned.notes.size(), 2U);
  EXPECT_NE(aligned.notes[0].find("'model.embed_tokens.input' holds other ids than 'tokens'"),
            std::string::npos);
  EXPECT_NE(aligned.notes[1].find("should hold one value and differ"), std::string::npos);
}

TEST_F(AlignInputs, NamesOfTheMapThatTheDumpLacksAreTold) {
  load("llama");
  DumpBuilder dump;
  dump.add_ids("tokens", {1, count()}, tokens_);
  add(dump, "blocks.1.q", {golden_->input}, DType::kF32, "mine");
  const Aligned aligned = align(golden_->model, dump.build(),
                                {.names = {{"mine", "blocks.1.q"}, {"mine.k", "blocks.1.k"}}});
  ASSERT_EQ(aligned.values.size(), 1U);
  ASSERT_EQ(aligned.notes.size(), 1U);
  EXPECT_EQ(aligned.notes[0], "the name map speaks of 'mine.k', which the dump does not hold");
}

TEST_F(AlignInputs, AnEmptyDumpHoldsNoTensors) {
  load("llama");
  DumpBuilder dump;
  EXPECT_EQ(failure(dump), "the dump holds no tensors");
}

TEST_F(AlignInputs, TokensOfTheDumpWin) {
  load("llama");
  for (const char* name :
       {"tokens", "input_ids", "inp_tokens", "LlamaForCausalLM.inputs.args.0",
        "LlamaModel.embed_tokens.inputs.args.0", "LlamaForCausalLM.inputs.kwargs.input_ids"}) {
    DumpBuilder dump;
    add(dump, "blocks.0.resid_mid", {golden_->input});
    dump.add_ids(name, {1, count()}, tokens_);
    const Aligned aligned = align(golden_->model, dump.build(), {.tokens = tokens_});
    ASSERT_EQ(aligned.incomparable, "") << name;
    ASSERT_EQ(aligned.inputs.size(), 1U);
    EXPECT_EQ(aligned.inputs[0].tokens, tokens_);
    std::vector<int64_t> other = tokens_;
    other[0] = (other[0] + 1) % golden_->model.spec().vocab_size;
    EXPECT_NE(failure(dump, {.tokens = other}).find("--tokens gives the tokens"),
              std::string::npos);
  }
  DumpBuilder without;
  add(without, "blocks.0.resid_mid", {golden_->input});
  EXPECT_EQ(align(golden_->model, without.build(), {.tokens = tokens_}).inputs[0].tokens, tokens_);
  EXPECT_EQ(failure(without),
            "the dump holds no tokens, and they cannot be told from its embeddings: give --tokens");
}

TEST_F(AlignInputs, TokensToldFromTheEmbeddings) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [family, site] :
         std::initializer_list<std::pair<const char*, const char*>>{{"llama", "token_embed"},
                                                                    {"gemma2", "embed"},
                                                                    {"gpt2", "embed"},
                                                                    {"bert", "embed_sum"},
                                                                    {"opt", "token_embed"}}) {
      SCOPED_TRACE(family);
      load(family);
      SequenceInput input = golden_->input;
      input.token_types.clear();
      DumpBuilder dump;
      add(dump, site, {input}, dtype);
      const Aligned aligned = align(golden_->model, dump.build(), {});
      ASSERT_EQ(aligned.incomparable, "");
      EXPECT_EQ(aligned.inputs[0].tokens, tokens_);
      EXPECT_EQ(aligned.notes.size(), 1U);
      EXPECT_FALSE(aligned.tokens_differ);
    }
  }
  // Rows that are no rows of the table.
  load("llama");
  DumpBuilder dump;
  dump.add("token_embed", {1, 3, golden_->model.spec().stack.width},
           std::vector<double>(static_cast<size_t>(3 * golden_->model.spec().stack.width), 0.5));
  EXPECT_NE(failure(dump).find("give --tokens"), std::string::npos);
}

TEST_F(AlignInputs, EmbeddingsOfOtherTokens) {
  for (const char* family : {"llama", "gemma"}) {
    load(family);
    SequenceInput other = golden_->input;
    other.tokens[1] = (other.tokens[1] + 3) % golden_->model.spec().vocab_size;
    for (const char* site : {"token_embed", "embed"}) {
      if (std::string(family) == "llama" && std::string(site) == "embed") continue;
      DumpBuilder dump;
      add(dump, site, {other});
      dump.add_ids("tokens", {count()}, tokens_);
      EXPECT_TRUE(align(golden_->model, dump.build(), {}).tokens_differ) << family << site;
      DumpBuilder right;
      add(right, site, {golden_->input});
      right.add_ids("tokens", {count()}, tokens_);
      EXPECT_FALSE(align(golden_->model, right.build(), {}).tokens_differ);
    }
  }
}

TEST_F(AlignInputs, PaddingPositionsAndTypes) {
  load("bert");
  SequenceInput padded = golden_->input;
  padded.tokens.insert(padded.tokens.begin(), 2, 0);
  if (padded.token_types.empty()) padded.token_types.assign(tokens_.size(), 1);
  padded.token_types.insert(padded.token_types.begin(), 2, 0);
  padded.left_padding = 2;
  SequenceInput full = padded;
  full.left_padding = 0;
  full.positions.resize(full.tokens.size());
  for (size_t i = 0; i < full.positions.size(); ++i) {
    full.positions[i] = static_cast<int64_t>(full.positions.size() - i);
  }
  const int64_t length = count() + 2;
  DumpBuilder dump;
  add(dump, "blocks.1.resid_post", {padded, full});
  std::vector<int64_t> ids = padded.tokens, types = padded.token_types;
  ids.insert(ids.end(), padded.tokens.begin(), padded.tokens.end());
  types.insert(types.end(), types.begin(), types.end());
  std::vector<int64_t> mask(static_cast<size_t>(2 * length), 1), positions;
  mask[0] = mask[1] = 0;
  for (int64_t t = 0; t < length; ++t) positions.push_back(std::max<int64_t>(t - 2, 0));
  positions.insert(positions.end(), full.positions.begin(), full.positions.end());
  dump.add_ids("input_ids", {2, length}, ids);
  dump.add_ids("token_type_ids", {2, length}, types);
  dump.add_ids("attention_mask", {2, length}, mask);
  dump.add_ids("position_ids", {2, length}, positions);
  const Aligned aligned = align(golden_->model, dump.build(), {});
  ASSERT_EQ(aligned.incomparable, "");
  ASSERT_EQ(aligned.inputs.size(), 2U);
  EXPECT_EQ(aligned.inputs[0].left_padding, 2);
  EXPECT_TRUE(aligned.inputs[0].positions.empty());
  EXPECT_EQ(aligned.inputs[1].left_padding, 0);
  EXPECT_EQ(aligned.inputs[1].positions, full.positions);
  EXPECT_EQ(aligned.inputs[1].token_types, padded.token_types);

  // Padding behind the text would move every other token.
  DumpBuilder behind;
  add(behind, "blocks.1.resid_post", {padded});
  behind.add_ids("input_ids", {1, length}, padded.tokens);
  std::vector<int64_t> right(static_cast<size_t>(length), 1);
  right.back() = 0;
  behind.add_ids("attention_mask", {1, length}, right);
  EXPECT_NE(failure(behind).find("padded behind"), std::string::npos);
}

TEST_F(AlignInputs, PaddingBehindTheTextOfACausalModel) {
  load("llama");
  DumpBuilder dump;
  add(dump, "blocks.1.resid_post", {golden_->input});
  add(dump, "blocks.1.pattern", {golden_->input});
  dump.add_ids("input_ids", {1, count()}, tokens_);
  std::vector<int64_t> mask(tokens_.size(), 1);
  mask.back() = 0;
  dump.add_ids("attention_mask", {1, count()}, mask);
  const Aligned aligned = align(golden_->model, dump.build(), {});
  ASSERT_EQ(aligned.values.size(), 2U);
  for (const AlignedValue& value : aligned.values) {
    const size_t axis = value.shape.size() == 4 ? 2 : 1;
    const int64_t inner = value.shape.back();
    for (size_t i = 0; i < value.data.size(); ++i) {
      const int64_t t = static_cast<int64_t>(i) / inner % value.shape[axis];
      ASSERT_EQ(value.known[i] == 0, t == count() - 1);
    }
  }
  std::fill(mask.begin(), mask.end(), 1);
  mask[1] = 0;
  DumpBuilder hole;
  add(hole, "blocks.1.resid_post", {golden_->input});
  hole.add_ids("input_ids", {1, count()}, tokens_);
  hole.add_ids("attention_mask", {1, count()}, mask);
  EXPECT_NE(failure(hole).find("hides tokens between others"), std::string::npos);
}

TEST_F(AlignInputs, EncoderAndDecoder) {
  golden_.emplace(std::filesystem::path(MAINSTEM_TEST_DATA) / "golden" / "families" / "marian");
  tokens_ = golden_->input.tokens;
  const std::vector<int64_t> source = golden_->input.encoder_tokens;
  for (const bool ours : {true, false}) {
    DumpBuilder dump;
    add(dump, "decoder.blocks.1.cross_attn_mix", {golden_->input});
    add(dump, "encoder.blocks.0.q", {golden_->input});
    dump.add_ids(ours ? "encoder.tokens" : "input_ids", {1, std::ssize(source)}, source);
    dump.add_ids(ours ? "decoder.tokens" : "decoder_input_ids", {1, count()}, tokens_);
    const Aligned aligned = align(golden_->model, dump.build(), {});
    ASSERT_EQ(aligned.incomparable, "");
    EXPECT_EQ(aligned.values.size(), 2U);
    EXPECT_EQ(aligned.inputs[0].tokens, tokens_);
    EXPECT_EQ(aligned.inputs[0].encoder_tokens, source);
  }
  DumpBuilder dump;
  add(dump, "encoder.blocks.0.q", {golden_->input});
  const Aligned aligned =
      align(golden_->model, dump.build(), {.tokens = source, .decoder_tokens = tokens_});
  EXPECT_EQ(aligned.inputs[0].encoder_tokens, source);
  EXPECT_EQ(aligned.inputs[0].tokens, tokens_);
}

TEST_F(AlignInputs, WhatCannotBeCompared) {
  load("llama");
  DumpBuilder unknown;
  unknown.add("conv1.weight", {2, 2}, {1, 2, 3, 4});
  unknown.add_ids("tokens", {count()}, tokens_);
  const std::string text = failure(unknown);
  EXPECT_EQ(text,
            "no tensor of the dump has a name that stands for a step of this model: conv1.weight, "
            "tokens; --map FILE says what names stand for");
  DumpBuilder large;
  add(large, "blocks.0.resid_mid", {golden_->input});
  std::vector<int64_t> ids = tokens_;
  ids[0] = golden_->model.spec().vocab_size;
  large.add_ids("tokens", {count()}, ids);
  EXPECT_EQ(failure(large), "token: expected 0 to " + std::to_string(ids[0] - 1) + ", got " +
                                std::to_string(ids[0]) + "; in 'tokens', dump.safetensors");
  DumpBuilder longer;
  add(longer, "blocks.0.resid_mid", {golden_->input});
  longer.add_ids("tokens", {count()}, tokens_);
  longer.add_ids("attention_mask", {1, count() + 4}, std::vector<int64_t>(tokens_.size() + 4, 1));
  EXPECT_NE(failure(longer).find("continue a cache"), std::string::npos);
}

TEST_F(AlignInputs, TokensAndCachesUnderTheCallersOwnNames) {
  load("llama");
  const std::vector<TracedValue> values = golden_->values();
  const auto keys = std::find_if(values.begin(), values.end(), [](const TracedValue& each) {
    return to_string(each.site) == "blocks.1.k_rot";
  });
  ASSERT_NE(keys, values.end());
  DumpBuilder dump;
  dump.add_ids("my ids", {1, count()}, tokens_);
  dump.add("my keys", keys->value.shape(), to_f64(keys->value.view()));
  const Aligned aligned = align(golden_->model, dump.build(),
                                {.names = {{"my ids", "tokens"}, {"my keys", "blocks.1.k_cache"}}});
  EXPECT_EQ(aligned.incomparable, "");
  ASSERT_EQ(aligned.inputs.size(), 1U);
  EXPECT_EQ(aligned.inputs[0].tokens, tokens_);
  ASSERT_EQ(aligned.values.size(), 1U);
  EXPECT_EQ(to_string(aligned.values[0].site), "blocks.1.k_rot");
}

TEST_F(AlignInputs, AMaskInNumbersWithAPointHoldsWholeOnes) {
  load("llama");
  std::vector<double> mask(tokens_.size(), 1);
  const auto failure_of = [&](double number) {
    mask[1] = number;
    DumpBuilder dump;
    add(dump, "blocks.0.resid_mid", {golden_->input});
    dump.add_ids("tokens", {count()}, tokens_);
    dump.add("attention_mask", {1, count()}, mask, DType::kF32);
    return failure(dump);
  };
  EXPECT_EQ(failure_of(1), "");
  EXPECT_NE(failure_of(std::nan("")).find("expected whole numbers, got nan"), std::string::npos);
  EXPECT_NE(failure_of(-INFINITY).find("expected whole numbers, got -inf"), std::string::npos);
  EXPECT_NE(failure_of(0.5).find("expected whole numbers, got 0.5"), std::string::npos);
  EXPECT_NE(failure_of(-3.4e38).find("expected whole numbers"), std::string::npos);
}

}  // namespace
}  // namespace mainstem::testing
