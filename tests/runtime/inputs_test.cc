// What callers may not ask for: every refusal is a usage error, and the session stays usable.

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "mainstem/error.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

struct Bad {
  std::string names;
  std::function<void(std::vector<SequenceInput>&)> edit;
};

SequenceInput tokens(std::vector<int64_t> ids) {
  SequenceInput input;
  input.tokens = std::move(ids);
  return input;
}

/// Learned positions for 8 tokens, 3 token types.
ModelSpec bounded_decoder() {
  ModelSpec spec = small_decoder();
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = 10;
  spec.stack.position_offset = 2;
  spec.stack.token_types = 3;
  return spec;
}

void expect_refused(const TestModel& model, const SequenceInput& good,
                    const std::vector<Bad>& table) {
  for (Compute compute : {Compute::kF64, Compute::kF32}) {
    for (const Bad& bad : table) {
      SCOPED_TRACE(bad.names);
      Session session(model.bound, {.compute = compute, .threads = 1, .sites = {}});
      session.add_sequence();
      const auto want = session.forward_all({&good, 1});
      session.reset(0);
      std::vector<SequenceInput> inputs{good};
      bad.edit(inputs);
      try {
        session.forward_all(inputs);
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage);
        EXPECT_NE(std::string(error.what()).find(bad.names), std::string::npos) << error.what();
      }
      EXPECT_THROW(session.forward(inputs), Error);
      EXPECT_EQ(session.length(0), 0);
      EXPECT_TRUE(same_bits(session.forward_all({&good, 1}), want));
    }
  }
}

TEST(Inputs, OfADecoder) {
  const TestModel model = make_model(bounded_decoder(), 2);
  const std::vector<Bad> table{
      {"token id", [](auto& in) { in[0].tokens[1] = 31; }},
      {"token id", [](auto& in) { in[0].tokens[1] = -1; }},
      {"token id", [](auto& in) { in[0].tokens[1] = std::numeric_limits<int64_t>::max(); }},
      {"at least one token", [](auto& in) { in[0].tokens.clear(); }},
      {"at least one sequence", [](auto& in) { in.clear(); }},
      {"each sequence once", [](auto& in) { in.push_back(in[0]); }},
      {"sequence", [](auto& in) { in[0].sequence = 1; }},
      {"sequence", [](auto& in) { in[0].sequence = -1; }},
      {"positions", [](auto& in) { in[0].positions = {0, 1}; }},
      {"position", [](auto& in) { in[0].positions = {0, 1, 8}; }},
      {"position", [](auto& in) { in[0].positions = {0, -1, 2}; }},
      {"position", [](auto& in) { in[0].positions = {0, 1, std::numeric_limits<int64_t>::max()}; }},
      {"position", [](auto& in) { in[0].tokens.assign(9, 1); }},
      {"token types", [](auto& in) { in[0].token_types = {0, 1}; }},
      {"token type", [](auto& in) { in[0].token_types = {0, 1, 3}; }},
      {"token type", [](auto& in) { in[0].token_types = {0, 1, -1}; }},
      {"left padding", [](auto& in) { in[0].left_padding = 4; }},
      {"left padding", [](auto& in) { in[0].left_padding = -1; }},
      {"encoder", [](auto& in) { in[0].encoder_tokens = {1}; }},
  };
  expect_refused(model, tokens({1, 2, 3}), table);
}

TEST(Inputs, OfAnEncoderDecoder) {
  ModelSpec spec = small_decoder();
  spec.encoder = spec.stack;
  for (BlockSpec& block : spec.encoder->blocks) block.attention.mask = MaskKind::kFull;
  for (BlockSpec& block : spec.stack.blocks) {
    block.attention.rotary.reset();
    block.cross_attention = block.attention;
    block.cross_attention->mask = MaskKind::kFull;
  }
  const TestModel model = make_model(spec, 2);
  SequenceInput good = tokens({1, 2, 3});
  good.encoder_tokens = {4, 5};
  expect_refused(model, good,
                 {{"encoder tokens", [](auto& in) { in[0].encoder_tokens.clear(); }},
                  {"token id", [](auto& in) { in[0].encoder_tokens[0] = 31; }},
                  {"encoder left padding", [](auto& in) { in[0].encoder_left_padding = -1; }},
                  {"encoder left padding", [](auto& in) { in[0].encoder_left_padding = 3; }}});
}

/// Other encoder tokens would leave the decoder's cache made with the old ones.
TEST(Inputs, AnEncoderReadsOnce) {
  Dice dice(9);
  const TestModel model = make_model(random_spec(dice, Kind::kEncoderDecoder), 2);
  for (const Compute compute : {Compute::kF64, Compute::kF32}) {
    Session session(model.bound, {.compute = compute, .threads = 1});
    SequenceInput input = random_input(model, dice, 3);
    input.sequence = session.add_sequence();
    const std::vector<double> first = session.forward_all({&input, 1});
    EXPECT_THROW(session.forward_all({&input, 1}), Error);
    EXPECT_THROW(session.forward({&input, 1}), Error);
    EXPECT_EQ(session.length(input.sequence), std::ssize(input.tokens));
    session.reset(input.sequence);
    EXPECT_TRUE(same_bits(session.forward_all({&input, 1}), first));
  }
}

TEST(Inputs, OfABlockAlone) {
  const TestModel model = make_block(small_decoder().stack.blocks[0], 2);
  Dice dice(3);
  expect_refused(model, random_input(model, dice, 3),
                 {{"block input", [](auto& in) { in[0].input.pop_back(); }},
                  {"at least one token", [](auto& in) { in[0].input.clear(); }}});
}

TEST(Inputs, PaddingBelongsToTheFirstPass) {
  const TestModel model = make_model(small_decoder(), 2);
  Session session(model.bound, {.compute = Compute::kF64, .threads = 1, .sites = {}});
  session.add_sequence();
  SequenceInput input = tokens({1, 2, 3});
  session.forward_all({&input, 1});
  input.left_padding = 1;
  EXPECT_THROW(session.forward_all({&input, 1}), Error);
}

TEST(Inputs, PositionsRunOutWhileDecoding) {
  const TestModel model = make_model(bounded_decoder(), 2);
  Session session(model.bound, {.compute = Compute::kF32, .threads = 1, .sites = {}});
  session.add_sequence();
  const SequenceInput step = tokens({1});
  for (int t = 0; t < 8; ++t) EXPECT_NO_THROW(session.forward({&step, 1}));
  EXPECT_THROW(session.forward({&step, 1}), Error);
  EXPECT_EQ(session.length(0), 8);
}

TEST(Inputs, ATraceNeedsEquallyLongSequences) {
  const TestModel model = make_model(small_decoder(), 2);
  Session session(model.bound,
                  {.compute = Compute::kF64, .threads = 1, .sites = {*parse_site("logits")}});
  std::vector<SequenceInput> inputs{tokens({1, 2}), tokens({1})};
  inputs[0].sequence = session.add_sequence();
  inputs[1].sequence = session.add_sequence();
  EXPECT_THROW(session.forward_all(inputs), Error);
}

TEST(Inputs, OptionsAndSites) {
  const TestModel model = make_model(small_decoder(), 2);
  EXPECT_THROW(Session(model.bound, {.sites = {*parse_site("blocks.2.q")}}), Error);
  EXPECT_THROW(Session(model.bound, {.sites = {*parse_site("blocks.0.q_norm")}}), Error);
  EXPECT_THROW(Session(model.bound, {.sites = {*parse_site("encoder.embed")}}), Error);
  EXPECT_THROW(Session(model.bound, {.sites = {}, .chunk = 0}), Error);
  Session session(model.bound, {.threads = 1, .sites = {}});
  EXPECT_THROW(session.length(0), Error);
  EXPECT_THROW(session.reset(0), Error);
}

}  // namespace
}  // namespace mainstem::testing
