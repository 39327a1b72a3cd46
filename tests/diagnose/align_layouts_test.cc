// Shapes in which programs write values, and what each is read as.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "diagnose/align.h"
#include "diagnose/align_conventions.h"
#include "diagnose/align_program.h"
#include "diagnose/dump_builder.h"
#include "mainstem/error.h"

namespace mainstem::testing {
namespace {

using ::testing::Test;

struct Array {
  Shape shape;
  std::vector<double> data;
};

/// Axis i of the result is axis order[i].
Array permuted(const Array& array, const std::vector<size_t>& order) {
  Array result;
  for (const size_t axis : order) result.shape.push_back(array.shape[axis]);
  std::vector<int64_t> index(order.size(), 0);
  for (size_t n = 0; n < array.data.size(); ++n) {
    int64_t at = 0;
    for (size_t axis = 0; axis < order.size(); ++axis) {
      const auto place = std::find(order.begin(), order.end(), axis) - order.begin();
      at = at * array.shape[axis] + index[static_cast<size_t>(place)];
    }
    result.data.push_back(array.data[static_cast<size_t>(at)]);
    for (size_t i = order.size(); i-- > 0;) {
      if (++index[i] < result.shape[i]) break;
      index[i] = 0;
    }
  }
  return result;
}

class AlignLayouts : public Test {
 protected:
  void load(const std::string& family, size_t sequences = 1) {
    golden_.emplace(golden_family(family));
    inputs_.clear();
    for (size_t b = 0; b < sequences; ++b) {
      SequenceInput input = golden_->input;
      std::rotate(input.tokens.begin(), input.tokens.begin() + static_cast<long>(b),
                  input.tokens.end());
      inputs_.push_back(std::move(input));
    }
    values_.clear();
    for (const TracedValue& traced : golden_->values_of(inputs_)) {
      values_[to_string(traced.site)] = {traced.value.shape(), to_f64(traced.value.view())};
    }
  }
  const Array& at(const std::string& site) const { return values_.at(site); }
  int64_t tokens() const { return std::ssize(inputs_[0].tokens); }

  /// The value that a tensor of that name and shape is read as, beside the tokens alone.
  Aligned read(const std::string& name, const Shape& shape, const std::vector<double>& data,
               const DiffOptions& options = {.threads = 1}) {
    DumpBuilder dump;
    dump.add(name, shape, data);
    std::vector<int64_t> ids;
    for (const SequenceInput& input : inputs_) {
      ids.insert(ids.end(), input.tokens.begin(), input.tokens.end());
    }
    dump.add_ids("tokens", {std::ssize(inputs_), tokens()}, ids);
    return align(golden_->model, dump.build(), options);
  }
  void expect_read(const std::string& name, const Shape& shape, const std::vector<double>& data,
                   const std::string& site) {
    SCOPED_TRACE(name + " " + to_string(shape));
    const Aligned aligned = read(name, shape, data);
    ASSERT_EQ(aligned.values.size(), 1U);
    EXPECT_EQ(to_string(aligned.values[0].site), site);
    EXPECT_EQ(aligned.values[0].shape, at(site).shape);
    EXPECT_TRUE(aligned.values[0].data == at(site).data);
    EXPECT_TRUE(aligned.values[0].complete());
  }
  std::string error_of(const std::string& name, const Shape& shape) {
    try {
      read(name, shape, std::vector<double>(static_cast<size_t>(element_count(shape)), 1));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
    return "no error";
  }

  std::optional<GoldenModel> golden_;
  std::vector<SequenceInput> inputs_;
  std::map<std::string, Array> values_;
};

TEST_F(AlignLayouts, RowsAndHeadsOfOneSequenceAndOfTwo) {
  for (const size_t batch : {size_t{1}, size_t{2}}) {
    load("llama", batch);
    const auto b = static_cast<int64_t>(batch);
    const Array& stream = at("blocks.0.resid_mid");
    const int64_t width = stream.shape[2];
    expect_read("blocks.0.resid_mid", {b * tokens(), width}, stream.data, "blocks.0.resid_mid");
    const Array first = permuted(stream, {1, 0, 2});
    expect_read("blocks.0.resid_mid", first.shape, first.data, "blocks.0.resid_mid");
    expect_read("blocks.0.resid_mid", {1, b, tokens(), width}, stream.data, "blocks.0.resid_mid");
    for (const char* site : {"blocks.0.q", "blocks.1.k_rot", "blocks.0.v", "blocks.1.attn_mix"}) {
      const Array& heads = at(site);
      const int64_t count = heads.shape[2], each = heads.shape[3];
      expect_read(site, {b, tokens(), count * each}, heads.data, site);
      expect_read(site, {b * tokens(), count * each}, heads.data, site);
      expect_read(site, {b * tokens() * count, each}, heads.data, site);
      expect_read(site, {b * tokens(), count, each}, heads.data, site);
      for (const auto& order : {std::vector<size_t>{0, 2, 1, 3}, {1, 0, 2, 3}, {0, 2, 3, 1}}) {
        const Array moved = permuted(heads, order);
        expect_read(site, moved.shape, moved.data, site);
      }
      const Array heads_first = permuted(heads, {0, 2, 1, 3});
      expect_read(site, {b * count, tokens(), each}, heads_first.data, site);
    }
    const Array& scores = at("blocks.0.pattern");
    expect_read("blocks.0.pattern", {b * scores.shape[1], tokens(), tokens()}, scores.data,
                "blocks.0.pattern");
  }
}

TEST_F(AlignLayouts, KeysPaddedToACachesSize) {
  load("llama");
  const Array& pattern = at("blocks.0.pattern");
  const auto keys = static_cast<size_t>(tokens());
  std::vector<double> padded;
  for (size_t row = 0; row < pattern.data.size() / keys; ++row) {
    for (size_t s = 0; s < 32; ++s) padded.push_back(s < keys ? pattern.data[row * keys + s] : 0);
  }
  expect_read("blocks.0.pattern", {pattern.shape[1], tokens(), 32}, padded, "blocks.0.pattern");
}

TEST_F(AlignLayouts, HeadsOfKeysRepeatedForEveryQueryHead) {
  load("llama");
  const Array& keys = at("blocks.0.k");
  const int64_t kept = keys.shape[2], width = keys.shape[3];
  const int64_t heads = at("blocks.0.q").shape[2];
  ASSERT_GT(kept, 1);
  ASSERT_GT(heads, kept);
  for (const bool in_turn : {false, true}) {
    Array repeated{{1, tokens(), heads, width}, {}};
    for (int64_t t = 0; t < tokens(); ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t from = in_turn ? h % kept : h / (heads / kept);
        for (int64_t e = 0; e < width; ++e) {
          repeated.data.push_back(keys.data[static_cast<size_t>((t * kept + from) * width + e)]);
        }
      }
    }
    const Array theirs = permuted(repeated, {0, 2, 1, 3});
    expect_read("blocks.0.k", theirs.shape, theirs.data, "blocks.0.k");
  }
}

TEST_F(AlignLayouts, OnlySomeTokens) {
  load("llama");
  const Array& stream = at("blocks.1.resid_post");
  const auto width = static_cast<size_t>(stream.shape[2]);
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{tokens() - 1, 1}, {2, 3}}) {
    const auto begin = stream.data.begin() + first * static_cast<int64_t>(width);
    const Aligned aligned = read("blocks.1.resid_post", {count, stream.shape[2]},
                                 {begin, begin + count * static_cast<int64_t>(width)});
    ASSERT_EQ(aligned.values.size(), 1U);
    const AlignedValue& value = aligned.values[0];
    EXPECT_EQ(value.shape, stream.shape);
    ASSERT_EQ(value.known.size(), stream.data.size());
    for (size_t i = 0; i < stream.data.size(); ++i) {
      const auto t = static_cast<int64_t>(i / width);
      ASSERT_EQ(value.known[i] != 0, t >= first && t < first + count);
      if (value.known[i] != 0) {
        EXPECT_EQ(value.data[i], stream.data[i]);
      }
    }
  }
}

TEST_F(AlignLayouts, FusedProductsAreTakenApartAsTheFamilyLaysThem) {
  struct Case {
    const char* family;
    const char* module;
    bool per_group;
  };
  for (const Case& each :
       {Case{"gpt2", "transformer.h.1.attn.c_attn", false},
        Case{"gpt_neox", "gpt_neox.layers.1.attention.query_key_value", true},
        Case{"falcon_40b", "transformer.h.1.self_attention.query_key_value", true},
        Case{"phi3", "model.layers.1.self_attn.qkv_proj", false}}) {
    SCOPED_TRACE(each.family);
    load(each.family);
    const Array &q = at("blocks.1.q"), &k = at("blocks.1.k"), &v = at("blocks.1.v");
    const auto width = static_cast<size_t>(q.shape[3]);
    const auto heads = static_cast<size_t>(q.shape[2]), kept = static_cast<size_t>(k.shape[2]);
    std::vector<double> fused;
    const auto put = [&](const Array& from, size_t t, size_t first, size_t count) {
      const size_t row = from.data.size() / static_cast<size_t>(tokens());
      const auto begin = from.data.begin() + static_cast<long>(t * row + first * width);
      fused.insert(fused.end(), begin, begin + static_cast<long>(count * width));
    };
    for (size_t t = 0; t < static_cast<size_t>(tokens()); ++t) {
      if (!each.per_group) {
        put(q, t, 0, heads), put(k, t, 0, kept), put(v, t, 0, kept);
        continue;
      }
      for (size_t g = 0; g < kept; ++g) {
        put(q, t, g * (heads / kept), heads / kept), put(k, t, g, 1), put(v, t, g, 1);
      }
    }
    const auto all = static_cast<int64_t>((heads + 2 * kept) * width);
    const Aligned aligned = read(each.module, {1, tokens(), all}, fused);
    ASSERT_EQ(aligned.values.size(), 3U);
    for (const AlignedValue& value : aligned.values) {
      EXPECT_TRUE(value.data == at(to_string(value.site)).data) << to_string(value.site);
    }
  }
}

TEST_F(AlignLayouts, PathsUnderAnyPrefixAndEveryKindOfHook) {
  load("llama");
  const Array& norm = at("blocks.1.attn_norm");
  const Array& stream = at("blocks.0.resid_post");
  for (const char* prefix : {"", "model.", "module.model.", "base_model.model.model.", "my_net.",
                             "LlamaForCausalLM.model.", "language_model.model."}) {
    const std::string path = std::string(prefix) + "layers.1.input_layernorm";
    for (const char* end : {"", ".output", ".output.0", ".outputs", ".outputs.0", ".out"}) {
      expect_read(path + end, norm.shape, norm.data, "blocks.1.attn_norm");
    }
    for (const char* end :
         {".input", ".input.0", ".inputs.args.0", ".in", ".inputs.kwargs.hidden_states"}) {
      expect_read(path + end, stream.shape, stream.data, "blocks.0.resid_post");
    }
    expect_read(std::string(prefix) + "layers.0", stream.shape, stream.data, "blocks.0.resid_post");
  }
  const auto read_as = [&](const std::string& name, const std::string& site) {
    expect_read(name, at(site).shape, at(site).data, site);
  };
  read_as("model.layers.1.self_attn.o_proj.input", "blocks.1.attn_mix");
  read_as("model.layers.1.mlp.down_proj.inputs.args.0", "blocks.1.mlp_hidden");
  read_as("model.layers.0.self_attn.inputs.kwargs.hidden_states", "blocks.0.attn_norm");
  read_as("model.layers.1.self_attn.output.1", "blocks.1.pattern");
  read_as("hidden_states.1", "blocks.0.resid_post");
  read_as("outputs.attentions.1", "blocks.1.pattern");
  read_as("last_hidden_state", "final_norm");
  read_as("LlamaForCausalLM.outputs.logits", "head");
  // What is kept for the next pass.
  read_as("past_key_values.1.0", "blocks.1.k_rot");
  read_as("out.past_key_values.0.1", "blocks.0.v");
  read_as("present.1.key", "blocks.1.k_rot");
  read_as("present_key_values.1.value", "blocks.1.v");
  read_as("lm_head.input", "final_norm");
  // TensorLens 3 says what lies around a component, llama.cpp's older versions joined heads.
  read_as("blocks.1.ln1.hook_out", "blocks.1.attn_norm");
  read_as("blocks.1.ln2.hook_in", "blocks.1.resid_mid");
  read_as("blocks.1.attn.q.hook_out", "blocks.1.q");
  read_as("blocks.1.attn.o.hook_in", "blocks.1.attn_mix");
  read_as("blocks.1.mlp.out.hook_in", "blocks.1.mlp_hidden");
  read_as("blocks.0.hook_out", "blocks.0.resid_post");
  read_as("blocks.1.hook_in", "blocks.0.resid_post");
  read_as("ln_final.hook_out", "final_norm");
  read_as("unembed.hook_out", "head");
  read_as("kqv_merged_cont-1", "blocks.1.attn_mix");
  read_as("ffn_gate_par-1", "blocks.1.mlp_hidden");
  read_as("attn_norm-1", "blocks.1.attn_norm");
  for (const char* other : {"vision_tower.layers.1.input_layernorm", "blocks.1.nonsense",
                            "model.layers.9.input_layernorm", "layers.0.layers.1.input_layernorm",
                            "present.9.key", "present.1.monkey", "past_key_values.1.2"}) {
    EXPECT_NE(read(other, norm.shape, norm.data).incomparable, "") << other;
  }
}

TEST_F(AlignLayouts, WhatADecoderKeepsForTheNextPass) {
  load("marian");
  const auto read_as = [&](const std::string& name, const std::string& site) {
    const Array& array = at(site);
    DumpBuilder dump;
    dump.add(name, array.shape, array.data);
    dump.add_ids("decoder_input_ids", {1, tokens()}, inputs_[0].tokens);
    dump.add_ids("input_ids", {1, std::ssize(inputs_[0].encoder_tokens)},
                 inputs_[0].encoder_tokens);
    const Aligned aligned = align(golden_->model, dump.build(), {.threads = 1});
    ASSERT_EQ(aligned.values.size(), 1U) << name << aligned.incomparable;
    EXPECT_EQ(to_string(aligned.values[0].site), site);
    EXPECT_TRUE(aligned.values[0].data == array.data);
  };
  read_as("past_key_values.1.0", "decoder.blocks.1.k");
  read_as("past_key_values.1.3", "decoder.blocks.1.cross_v");
  read_as("present.0.decoder.value", "decoder.blocks.0.v");
  read_as("present.0.encoder.key", "decoder.blocks.0.cross_k");
}

TEST_F(AlignLayouts, NamesOfTheCaller) {
  load("llama");
  const Array& norm = at("blocks.1.attn_norm");
  const DiffOptions options{.names = {{"h1/norm=x", "blocks.1.attn_norm"}}, .threads = 1};
  const Aligned aligned = read("h1/norm=x", norm.shape, norm.data, options);
  ASSERT_EQ(aligned.values.size(), 1U);
  EXPECT_EQ(to_string(aligned.values[0].site), "blocks.1.attn_norm");
  EXPECT_EQ(parse_name_map("# mine\n\n h1/norm=x = blocks.1.attn_norm \r\n"), options.names);
  const auto failure = [](const char* text) -> std::string {
    try {
      parse_name_map(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(failure("a = embed\nb"), "name map: expected their name = site, got \"b\"; in line 2");
  EXPECT_EQ(failure("a = blocks.0.Q"),
            "name map: expected a site such as blocks.0.q, got \"blocks.0.Q\"; in line 1");
  EXPECT_EQ(failure("a = embed\na = logits"),
            "name map: expected each name once, got \"a\" again; in line 2");
  EXPECT_EQ(failure("a\x1b[31m\x01"),
            "name map: expected their name = site, got \"a\\x1b[31m\\x01\"; in line 1");
  EXPECT_THROW(read("x", {1}, {1}, {.names = {{"x", "blocks.7.q"}}}), Error);
}

TEST_F(AlignLayouts, NamesOfTheCallerForEveryBlock) {
  load("llama");
  const Array& norm = at("blocks.1.attn_norm");
  const DiffOptions options{.names = parse_name_map("h[*].mine = blocks.*.attn_norm"),
                            .threads = 1};
  const Aligned aligned = read("h[1].mine", norm.shape, norm.data, options);
  ASSERT_EQ(aligned.values.size(), 1U);
  EXPECT_EQ(to_string(aligned.values[0].site), "blocks.1.attn_norm");
  EXPECT_TRUE(aligned.values[0].data == norm.data);
  // Blocks of which the dump holds nothing are no mistake of the map.
  EXPECT_TRUE(aligned.notes.empty());
  const Aligned other = read("h[x].mine", norm.shape, norm.data, options);
  EXPECT_NE(other.incomparable.find("no tensor of the dump has a name"), std::string::npos);
  // A line for one block counts before that for all; without a '*' in the site it is a letter.
  const Array& mlp = at("blocks.1.mlp_norm");
  for (const char* text : {"h.*=blocks.*.attn_norm\nh.1=blocks.1.mlp_norm",
                           "h.1=blocks.1.mlp_norm\nh.*=blocks.*.attn_norm"}) {
    const Aligned one = read("h.1", mlp.shape, mlp.data, {.names = parse_name_map(text)});
    ASSERT_EQ(one.values.size(), 1U);
    EXPECT_EQ(to_string(one.values[0].site), "blocks.1.mlp_norm");
  }
  const Aligned star = read("h.*", mlp.shape, mlp.data, {.names = {{"h.*", "blocks.1.mlp_norm"}}});
  ASSERT_EQ(star.values.size(), 1U);
  const auto failure = [&](const std::string& theirs, const std::string& ours) -> std::string {
    try {
      read("x", {1}, {1}, {.names = {{theirs, ours}}});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(failure("h.*", "encoder.blocks.*.q"),
            "site that 'h.*' stands for: expected a step of this model, got 'encoder.blocks.*.q'; "
            "mainstem inspect MODEL lists them");
  EXPECT_EQ(failure("*.h.*", "blocks.*.q"),
            "name in the map: expected one '*', for the number of a block, got '*.h.*'");
  EXPECT_THROW(parse_name_map("h.* = blocks.*"), Error);
  EXPECT_THROW(parse_name_map("h.* = *.q"), Error);
}

TEST_F(AlignLayouts, ValuesOfAllBlocksInOneTensor) {
  load("llama", 2);
  const auto blocks = std::ssize(golden_->model.program().spec.stack.blocks);
  const auto stacked = [&](const std::vector<std::string>& sites) {
    Array result{.shape = at(sites[0]).shape, .data = {}};
    result.shape.insert(result.shape.begin(), std::ssize(sites));
    for (const std::string& site : sites) {
      result.data.insert(result.data.end(), at(site).data.begin(), at(site).data.end());
    }
    return result;
  };
  std::vector<std::string> streams, patterns, queries;
  for (int64_t n = 0; n < blocks; ++n) {
    const std::string block = "blocks." + std::to_string(n);
    streams.push_back(block + ".resid_pre");
    patterns.push_back(block + ".pattern");
    queries.push_back(block + ".q");
  }
  streams.emplace_back("final_norm");
  const auto expect_values = [&](const Aligned& aligned, const std::vector<std::string>& sites) {
    ASSERT_EQ(aligned.incomparable, "");
    ASSERT_EQ(aligned.values.size(), sites.size());
    for (size_t i = 0; i < sites.size(); ++i) {
      SCOPED_TRACE(sites[i]);
      const auto found =
          std::find_if(aligned.values.begin(), aligned.values.end(), [&](const auto& value) {
            return golden_->model.program().find_value(value.site) ==
                   golden_->model.program().find_value(*parse_site(sites[i]));
          });
      ASSERT_NE(found, aligned.values.end());
      EXPECT_TRUE(found->data == at(sites[i]).data);
    }
  };
  const Array all = stacked(streams), seen = stacked(patterns), q = stacked(queries);
  const Aligned aligned = read("out.hidden_states", all.shape, all.data);
  expect_values(aligned, streams);
  ASSERT_EQ(aligned.notes.size(), 1U);
  EXPECT_EQ(aligned.notes[0],
            "'out.hidden_states' holds " + std::to_string(blocks + 1) +
                " values along its first axis, read as out.hidden_states.0 to out.hidden_states." +
                std::to_string(blocks));
  expect_values(read("attentions", seen.shape, seen.data), patterns);
  const DiffOptions options{.names = parse_name_map("all_q = blocks.*.q"), .threads = 1};
  expect_values(read("all_q", q.shape, q.data, options), queries);
  // As many sequences as the stream is there are none of its values.
  load("llama", static_cast<size_t>(blocks) + 1);
  const Array& one = at("blocks.0.resid_mid");
  EXPECT_EQ(read("mlp.hidden_states", one.shape, one.data).incomparable.substr(0, 9), "no tensor");
  load("llama", 2);
  // Another number of them is something else; where the caller says it, it is an error.
  Shape fewer = q.shape;
  fewer[0] = blocks - 1;
  const std::vector<double> less(static_cast<size_t>(element_count(fewer)));
  EXPECT_NE(read("attentions", fewer, less).incomparable, "");
  try {
    read("all_q", fewer, less, options);
    ADD_FAILURE() << "read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(std::string(error.what())
                  .find("shape of 'all_q' (blocks.*.q): expected the " + std::to_string(blocks) +
                        " blocks along the first axis"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(AlignLayouts, ShapesThatCannotBe) {
  load("llama");
  const Shape& q = at("blocks.0.q").shape;
  EXPECT_EQ(error_of("blocks.0.q", {1, tokens(), 7, 5}),
            "shape of 'blocks.0.q' (blocks.0.q): expected [B,T,H,E] = " + to_string(q) +
                ", got [1, " + std::to_string(tokens()) +
                ", 7, 5]; in dump.safetensors; B and T are those of the ids, [1, " +
                std::to_string(tokens()) + "]");
  EXPECT_NE(error_of("model.layers.0.input_layernorm",
                     {1, tokens() + 1, at("blocks.0.resid_mid").shape[2]})
                .find("(blocks.0.attn_norm): expected [B,T,D]"),
            std::string::npos);
}

TEST_F(AlignLayouts, OnlyTheBlocksThatAreAskedFor) {
  load("llama");
  DumpBuilder dump;
  for (const auto& [site, array] : values_) {
    if (site != "tokens") dump.add(site, array.shape, array.data);
  }
  dump.add_ids("tokens", {1, tokens()}, inputs_[0].tokens);
  // Nothing of the other block is even looked at.
  dump.add("model.layers.0.mlp.up_proj", {3}, {1, 2, 3});
  const Aligned aligned = align(golden_->model, dump.build(), {.layers = {{1, 2}}, .threads = 1});
  ASSERT_FALSE(aligned.values.empty());
  EXPECT_EQ(to_string(aligned.values.front().site), "blocks.0.resid_post");
  EXPECT_EQ(to_string(aligned.values.back().site), "head");
  for (const AlignedValue& value : aligned.values) {
    EXPECT_TRUE(value.data == at(to_string(value.site)).data) << to_string(value.site);
    EXPECT_TRUE(value.site.layer != 0 || value.site.site == Site::kResidPost);
  }
  const Array& q = at("blocks.0.q");
  EXPECT_EQ(read("blocks.0.q", q.shape, q.data, {.layers = {{1, 2}}}).incomparable,
            "the dump holds nothing of the blocks that were asked for");
}

TEST_F(AlignLayouts, AProgramThatBeginsAtTheStreamBetweenTwoBlocks) {
  for (const char* family : {"llama", "gpt2", "gemma3", "phi"}) {
    SCOPED_TRACE(family);
    load(family, 2);
    const Program& program = golden_->model.program();
    const ValueId stream = *program.find_value({Site::kResidPre, 1});
    const auto bound =
        std::make_shared<BoundProgram>(cut_before(program, stream), golden_->model.weights());
    const std::vector<double>& rows = at("blocks.1.resid_pre").data;
    std::vector<SequenceInput> inputs(2);
    const auto half = rows.begin() + std::ssize(rows) / 2;
    inputs[0].input.assign(rows.begin(), half);
    inputs[1].input.assign(half, rows.end());
    size_t count = 0;
    for (const TracedValue& traced :
         trace(bound, inputs, all_sites(bound->program()), Compute::kF64, 1)) {
      EXPECT_TRUE(to_f64(traced.value.view()) == at(to_string(traced.site)).data)
          << to_string(traced.site);
      EXPECT_TRUE(traced.site.layer != 0 || traced.site.site == Site::kResidPost);
      ++count;
    }
    EXPECT_GT(count, 15U);
  }
}

}  // namespace
}  // namespace mainstem::testing
