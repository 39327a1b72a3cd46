// Random programs against the oracle: every site, in double and in float32.

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();

constexpr uint64_t kCases = 96;

Kind kind_of(uint64_t seed) {
  return seed % 4 == 3 ? Kind::kEncoderDecoder : (seed % 4 == 2 ? Kind::kEncoder : Kind::kDecoder);
}

/// A model and a batch of equally long sequences, some with padding, some with odd positions.
struct Case {
  TestModel model;
  std::vector<SequenceInput> inputs;
};
Case random_case(uint64_t seed, DType dtype) {
  Dice dice(seed * 7919 + 1);
  Case result;
  if (seed % 8 == 5) {
    result.model =
        make_block(random_block(dice, dice.pick<int64_t>({9, 15, 24}), false), seed, dtype);
  } else {
    result.model = make_model(random_spec(dice, kind_of(seed)), seed, dtype);
  }
  const int64_t length = dice.chance(0.2) ? dice.between(17, 37) : dice.between(1, 9);
  const int64_t batch = dice.between(1, 3);
  for (int64_t i = 0; i < batch; ++i) {
    SequenceInput input = random_input(result.model, dice, length);
    if (i > 0) {
      // Values have a [B,T,…] shape only where all sequences are equally long.
      input.encoder_tokens.resize(result.inputs[0].encoder_tokens.size(), 1);
    }
    if (dice.chance(0.3)) input.left_padding = dice.below(length);
    if (!input.encoder_tokens.empty() && dice.chance(0.3)) {
      input.encoder_left_padding = dice.below(static_cast<int64_t>(input.encoder_tokens.size()));
    }
    result.inputs.push_back(input);
  }
  if (dice.chance(0.2)) {
    for (SequenceInput& input : result.inputs) {
      for (int64_t t = 0; t < length; ++t) input.positions.push_back(dice.below(40));
    }
  }
  return result;
}

bool compared(const std::string& site) {
  return !site.ends_with("k_cache") && !site.ends_with("v_cache");
}

class RandomPrograms : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomPrograms, DoubleEqualsTheOracleAtEverySite) {
  const Case c = random_case(GetParam(), GetParam() % 3 == 0 ? DType::kF64 : DType::kF32);
  const oracle::Trace want = run_oracle(c.model, c.inputs);
  std::vector<std::string> names;
  for (const auto& [name, values] : want.all()) names.push_back(name);
  for (const Compute compute : {Compute::kF64, Compute::kF64Reference}) {
    const Traced got = trace_all(c.model, c.inputs, compute);
    EXPECT_EQ(got.order, names);
    for (const auto& [name, values] : want.all()) {
      ASSERT_TRUE(got.data.contains(name)) << name;
      EXPECT_TRUE(same_shape(got.shape.at(name), values.shape)) << name;
      EXPECT_TRUE(close(got.data.at(name), values.data, bounds::end_to_end(kEps64, c.model.blocks)))
          << name;
    }
  }
}

/// Every site is at most one step of float32 away from what the oracle makes of the site's own
/// inputs.
void expect_every_step_right(const Case& c, const Traced& got, double epsilon) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    oracle::Replacements own;
    for (const auto& [name, data] : got.data) {
      if (!compared(name)) continue;
      const auto index = static_cast<int64_t>(i);
      own[name] = slice(data, got.shape.at(name), 0, index, index + 1);
    }
    const oracle::Trace want = run_oracle(c.model, {c.inputs[i]}, own);
    for (const auto& [name, values] : want.all()) {
      EXPECT_TRUE(close(own.at(name), values.data,
                        [&](size_t element) {
                          return bounds::one_step(epsilon, values.terms, values.magnitude[element]);
                        }))
          << name << ", sequence " << i;
    }
  }
}

TEST_P(RandomPrograms, EveryFloat32ReferenceStepIsRight) {
  const Case c = random_case(GetParam(), DType::kF32);
  expect_every_step_right(c, trace_all(c.model, c.inputs, Compute::kF32Reference), kEps32);
}

TEST_P(RandomPrograms, EveryFastFloat32StepIsRight) {
  const std::vector<DType> types{DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  const Case c = random_case(GetParam(), types[GetParam() % types.size()]);
  expect_every_step_right(c, trace_all(c.model, c.inputs, Compute::kF32), kEps32);
}

TEST_P(RandomPrograms, UntracedOutputEqualsTraced) {
  const Case c = random_case(GetParam(), DType::kF32);
  for (Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    Session traced(c.model.bound,
                   {.compute = compute, .threads = 1, .sites = all_sites(c.model.program())});
    Session plain(c.model.bound, {.compute = compute, .threads = 1, .sites = {}});
    std::vector<SequenceInput> inputs = c.inputs;
    for (SequenceInput& input : inputs) {
      input.sequence = traced.add_sequence();
      plain.add_sequence();
    }
    const std::vector<double> want = traced.forward_all(inputs);
    const std::vector<double> got = plain.forward_all(inputs);
    if (compute == Compute::kF32) {
      EXPECT_TRUE(close(got, want, bounds::end_to_end(kEps32, c.model.blocks)));
    } else {
      EXPECT_TRUE(same_bits(got, want));
    }
  }
}

/// With one wanted value the planner fuses everything around it.
TEST_P(RandomPrograms, ASiteAloneHasTheValueItHasAmongAll) {
  const Case c = random_case(GetParam(), DType::kF32);
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    const Traced all = trace_all(c.model, c.inputs, compute);
    for (const SiteId& site : all_sites(c.model.program())) {
      const std::string name = to_string(site);
      if (!compared(name)) continue;
      Session session(c.model.bound, {.compute = compute, .threads = 1, .sites = {site}});
      std::vector<SequenceInput> inputs = c.inputs;
      for (SequenceInput& input : inputs) input.sequence = session.add_sequence();
      Traced alone;
      session.forward_all(inputs, alone.sink());
      ASSERT_EQ(alone.order, std::vector<std::string>{name});
      EXPECT_TRUE(same_shape(alone.shape.at(name), all.shape.at(name))) << name;
      if (compute == Compute::kF64 || name.ends_with("tokens")) {
        EXPECT_TRUE(same_bits(alone.data.at(name), all.data.at(name))) << name;
      } else {
        EXPECT_TRUE(close(alone.data.at(name), all.data.at(name),
                          bounds::end_to_end(kEps32, c.model.blocks)))
            << name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPrograms, ::testing::Range<uint64_t>(0, kCases));

/// The generator reaches every value of every axis, so the tests above do.
TEST(RandomSpecs, CoverEveryAxis) {
  std::set<std::string> seen;
  const auto note = [&](const std::string& axis, const auto& value) {
    seen.insert(axis + "=" + std::string(name(value)));
  };
  const auto note_bool = [&](const std::string& axis, bool value) {
    seen.insert(axis + (value ? "=yes" : "=no"));
  };
  for (uint64_t seed = 0; seed < kCases; ++seed) {
    const Case c = random_case(seed, DType::kF32);
    for (const SequenceInput& input : c.inputs) {
      note_bool("padding", input.left_padding > 0);
      note_bool("encoder padding", input.encoder_left_padding > 0);
      note_bool("positions", !input.positions.empty());
    }
    const HeadSpec& head = c.model.spec.head;
    seen.insert("head=" + std::to_string(static_cast<int>(head.kind)));
    note_bool("tied", head.tied && head.kind != HeadKind::kNone);
    note_bool("head bias", head.bias);
    note_bool("head projection", head.projection_width > 0);
    note_bool("logit scale", head.logit_scale != 1);
    note_bool("logit cap", head.logit_cap != 0);
    std::vector<StackSpec> stacks{c.model.spec.stack};
    if (c.model.spec.encoder) stacks.push_back(*c.model.spec.encoder);
    for (const StackSpec& stack : stacks) {
      note("positions", stack.positions);
      note_bool("embed scale", stack.embed_scale != 1);
      note_bool("embed width", stack.embed_width != stack.width);
      note_bool("token types", stack.token_types > 0);
      note_bool("embed norm", stack.embed_norm.has_value());
      note_bool("final norm", stack.final_norm.has_value());
      for (const BlockSpec& block : stack.blocks) {
        note_bool("same blocks", block == stack.blocks[0] && &block != &stack.blocks[0]);
        note("norm", block.norm.kind);
        note_bool("norm weight", block.norm.weight);
        note_bool("norm bias", block.norm.bias);
        note_bool("norm offset", block.norm.weight_offset != 0);
        seen.insert("form=" + std::string(name(block.placement)) + "/" +
                    std::string(name(block.residual)));
        note_bool("multiplier", block.residual_multiplier != 1);
        note_bool("cross", block.cross_attention.has_value());
        note_bool("gated", block.mlp.gated);
        note("activation", block.mlp.activation);
        note_bool("up bias", block.mlp.up_bias);
        note_bool("down bias", block.mlp.down_bias);
        const AttentionSpec& a = block.attention;
        note_bool("output projection", a.output_projection);
        note_bool("grouped", a.kv_heads != a.heads);
        note_bool("biases", a.q_bias || a.k_bias || a.v_bias);
        note_bool("output bias", a.output_bias);
        note_bool("alibi", !a.alibi_slopes.empty());
        note_bool("cap", a.soft_cap != 0);
        note("mask", a.mask);
        if (a.qk_norm) {
          note("qk scope", a.qk_norm->scope);
          note_bool("qk per head", a.qk_norm->weight_per_head);
          note_bool("qk after", a.qk_norm->after_rotary);
        }
        if (!a.rotary) continue;
        note("pairing", a.rotary->pairing);
        note("scaling", a.rotary->scaling.kind);
        note_bool("partial", a.rotary->width < a.head_width);
      }
    }
  }
  std::set<std::string> missing;
  for (const char* value : {"form=pre/sequential",
                            "form=post/sequential",
                            "form=sandwich/sequential",
                            "form=output-only/sequential",
                            "form=pre/parallel",
                            "form=sandwich/parallel",
                            "form=output-only/parallel",
                            "form=pre/parallel-shared",
                            "form=sandwich/parallel-shared",
                            "scaling=none",
                            "scaling=linear",
                            "scaling=dynamic",
                            "scaling=yarn",
                            "scaling=llama3",
                            "scaling=longrope",
                            "scaling=divisors",
                            "mask=causal",
                            "mask=full",
                            "mask=window",
                            "positions=none",
                            "positions=learned",
                            "positions=sinusoidal",
                            "positions=sinusoidal-halves",
                            "head=0",
                            "head=1",
                            "head=2",
                            "pairing=half-split",
                            "pairing=interleaved",
                            "qk scope=whole",
                            "qk scope=per-head",
                            "norm=rms",
                            "norm=layer",
                            "activation=relu",
                            "activation=relu2",
                            "activation=gelu-erf",
                            "activation=gelu-tanh",
                            "activation=silu",
                            "activation=quick-gelu"}) {
    if (!seen.contains(value)) missing.insert(value);
  }
  for (const std::string& value : seen) {
    for (const auto& [yes, no] :
         {std::pair<std::string, std::string>{"=yes", "=no"}, {"=no", "=yes"}}) {
      if (!value.ends_with(yes)) continue;
      const std::string other = value.substr(0, value.size() - yes.size()) + no;
      if (!seen.contains(other)) missing.insert(other);
    }
  }
  EXPECT_TRUE(missing.empty()) << ::testing::PrintToString(missing);
}

}  // namespace
}  // namespace mainstem::testing
