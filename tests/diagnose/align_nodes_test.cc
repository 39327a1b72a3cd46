// The text of llama.cpp's eval callback: nodes of one name told apart, abridged and rounded
// numbers.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "diagnose/align.h"
#include "diagnose/dump_builder.h"

namespace mainstem::testing {
namespace {

/// Writes nodes as the callback prints them: of each dimension the first and last three.
class NodeText {
 public:
  explicit NodeText(const std::vector<int64_t>& tokens) {
    text_ = "number of input tokens = " + std::to_string(tokens.size()) + "\n";
    for (const int64_t id : tokens) text_ += "  " + std::to_string(id) + "\n";
  }
  /// The shape as a row-major one of four dimensions.
  void add(const std::string& name, const std::string& call, Shape shape,
           const std::vector<double>& data) {
    while (shape.size() < 4) shape.insert(shape.begin(), 1);
    text_ += "ggml_debug: " + name + " = (f32) " + call + ") = {" + std::to_string(shape[3]) +
             ", " + std::to_string(shape[2]) + ", " + std::to_string(shape[1]) + ", " +
             std::to_string(shape[0]) + "}\n";
    for (int64_t d = 0; d < shape[0]; ++d) {
      text_ += " [\n";
      for (int64_t c = 0; c < shape[1]; ++c) {
        if (skip(c, shape[1])) continue;
        text_ += "  [\n";
        for (int64_t b = 0; b < shape[2]; ++b) {
          if (skip(b, shape[2])) continue;
          text_ += "   [";
          for (int64_t a = 0; a < shape[3]; ++a) {
            if (skip(a, shape[3])) continue;
            char number[32];
            const int64_t at = ((d * shape[1] + c) * shape[2] + b) * shape[3] + a;
            std::snprintf(number, sizeof number, "%12.4f", data[static_cast<size_t>(at)]);
            text_ += number;
            if (a + 1 < shape[3]) text_ += ", ";
          }
          text_ += "],\n";
        }
        text_ += "  ],\n";
      }
      text_ += " ]\n sum = 0.000000\n";
    }
  }
  Dump dump() const { return Dump::from_bytes(std::as_bytes(std::span(text_)), "dump.txt"); }

 private:
  /// The middle of a long dimension, for which three points stand.
  bool skip(int64_t index, int64_t size) {
    if (size <= 6 || index < 3 || index >= size - 3) return false;
    if (index == 3) text_ += "..., ";
    return true;
  }
  std::string text_;
};

using Values = std::map<std::string, std::pair<Shape, std::vector<double>>>;

std::vector<double> in_pairs(const std::pair<Shape, std::vector<double>>& value) {
  const auto width = static_cast<size_t>(value.first.back());
  std::vector<double> moved = value.second;
  for (size_t head = 0; head < moved.size(); head += width) {
    for (size_t c = 0; c < width; ++c) {
      moved[head + c] = value.second[head + c % 2 * (width / 2) + c / 2];
    }
  }
  return moved;
}

/// The tiny Llama has biases everywhere, Mistral none.
class AlignNodes : public ::testing::TestWithParam<std::string> {
 protected:
  AlignNodes() : golden_(golden_family(GetParam())) {
    for (const TracedValue& traced : golden_.values()) {
      if (traced.site.site == Site::kTokens) continue;
      values_[to_string(traced.site)] = {traced.value.shape(), to_f64(traced.value.view())};
    }
  }

  const std::vector<double>& data(const std::string& site) const { return values_.at(site).second; }

  /// One block's nodes as the architecture "llama" computes them without flash attention.
  void add_block(NodeText& text, int layer, bool last) const {
    const std::string n = "-" + std::to_string(layer);
    const std::string at = "blocks." + std::to_string(layer) + ".";
    const std::string weight = "blk." + std::to_string(layer) + ".";
    const AttentionSpec& spec = golden_.model.spec().stack.blocks[0].attention;
    const int64_t t = std::ssize(golden_.input.tokens);
    const int64_t d = golden_.model.spec().stack.width;
    const auto dims = [](int64_t a, int64_t b) {
      return "{" + std::to_string(a) + ", " + std::to_string(b) + ", 1, 1}";
    };
    text.add("norm" + n, "RMS_NORM(x" + dims(d, t) + ", }", {t, d}, data(at + "attn_norm"));
    text.add("attn_norm" + n,
             "MUL(norm" + n + dims(d, t) + ", " + weight + "attn_norm.weight" + dims(d, 1) + "}",
             {t, d}, data(at + "attn_norm"));
    const auto product = [&](const std::string& name, const std::string& matrix,
                             const std::string& site, const std::vector<double>& numbers,
                             int64_t rows) {
      const Shape& shape = values_.at(at + site).first;
      int64_t width = 1;
      for (size_t i = 2; i < shape.size(); ++i) width *= shape[i];
      const std::vector<double> made(numbers.end() - rows * width, numbers.end());
      std::vector<double> before = made;
      const bool biased = golden_.model.program().find_weight(at + site + ".bias").has_value();
      for (double& x : before) x -= biased ? 0.5 : 0;
      text.add(
          name,
          "MUL_MAT(" + weight + matrix + ".weight" + dims(d, width) + ", x" + dims(d, rows) + "}",
          {rows, width}, before);
      if (!biased) return;
      text.add(name,
               "ADD(" + name + dims(width, rows) + ", " + weight + matrix + ".bias" +
                   dims(width, 1) + "}",
               {rows, width}, made);
    };
    product("Qcur" + n, "attn_q", "q", in_pairs(values_.at(at + "q")), t);
    product("Vcur" + n, "attn_v", "v", data(at + "v"), t);
    product("Kcur" + n, "attn_k", "k", in_pairs(values_.at(at + "k")), t);
    const Shape heads{t, spec.heads, spec.head_width};
    text.add("Qcur" + n + " (reshaped)", "RESHAPE(Qcur" + n + dims(d, t) + ", }", heads,
             in_pairs(values_.at(at + "q")));
    text.add("Qcur" + n,
             "ROPE(Qcur" + n + " (reshaped)" + dims(d, t) + ", inp_pos" + dims(t, 1) + "}", heads,
             in_pairs(values_.at(at + "q_rot")));
    text.add("Kcur" + n,
             "ROPE(Kcur" + n + " (reshaped)" + dims(d, t) + ", inp_pos" + dims(t, 1) + "}",
             {t, spec.kv_heads, spec.head_width}, in_pairs(values_.at(at + "k_rot")));
    const auto padded = [&](const std::vector<double>& square, double scale) {
      std::vector<double> numbers;
      for (size_t row = 0; row < square.size() / static_cast<size_t>(t); ++row) {
        for (size_t s = 0; s < 256; ++s) {
          numbers.push_back(
              s < static_cast<size_t>(t) ? square[row * static_cast<size_t>(t) + s] / scale : 0);
        }
      }
      return numbers;
    };
    text.add("kq" + n, "MUL_MAT(cache_k_l0 (view)" + dims(d, t) + ", Qcur" + n + dims(d, t) + "}",
             {spec.heads, t, 256}, padded(data(at + "scores"), spec.score_scale));
    text.add("kq_soft_max" + n,
             "SOFT_MAX(kq" + n + dims(256, t) + ", KQ_mask" + dims(256, 64) + "}",
             {spec.heads, t, 256}, padded(data(at + "pattern"), 1));
    std::vector<double> by_head;
    const auto width = static_cast<size_t>(spec.head_width),
               count = static_cast<size_t>(spec.heads);
    for (size_t h = 0; h < count; ++h) {
      for (size_t row = 0; row < static_cast<size_t>(t); ++row) {
        const auto begin =
            data(at + "attn_mix").begin() + static_cast<long>((row * count + h) * width);
        by_head.insert(by_head.end(), begin, begin + static_cast<long>(width));
      }
    }
    text.add("kqv" + n, "MUL_MAT(v" + dims(t, t) + ", kq_soft_max" + n + dims(t, t) + "}",
             {spec.heads, t, spec.head_width}, by_head);
    text.add("kqv_out" + n, "CONT(kqv" + n + " (permuted)" + dims(d, t) + ", }",
             {t, spec.heads * spec.head_width}, data(at + "attn_mix"));
    const int64_t rows = last ? 1 : t;
    product("attn_out" + n, "attn_output", "attn_proj", data(at + "attn_proj"), t);
    const auto stream = [&](const std::string& name, const std::string& site) {
      const std::vector<double>& all = data(at + site);
      text.add(name + n, "ADD(a" + dims(d, rows) + ", b" + dims(d, rows) + "}", {rows, d},
               {all.end() - rows * d, all.end()});
    };
    stream("ffn_inp", "resid_mid");
    product("ffn_gate" + n, "ffn_gate", "mlp_gate", data(at + "mlp_gate"), rows);
    product("ffn_up" + n, "ffn_up", "mlp_value", data(at + "mlp_value"), rows);
    product("ffn_out" + n, "ffn_down", "mlp_proj", data(at + "mlp_proj"), rows);
    stream("l_out", "resid_post");
  }

  NodeText whole() const {
    NodeText text(golden_.input.tokens);
    const int64_t t = std::ssize(golden_.input.tokens), d = golden_.model.spec().stack.width;
    text.add("embd", "GET_ROWS(token_embd.weight{8, 8, 1, 1}, inp_tokens{8, 1, 1, 1}}", {t, d},
             data("token_embed"));
    const auto blocks = static_cast<int>(golden_.model.spec().stack.blocks.size());
    for (int layer = 0; layer < blocks; ++layer) add_block(text, layer, layer + 1 == blocks);
    const auto last = [&](const std::string& site) {
      const auto width = static_cast<int64_t>(data(site).size()) / t;
      return std::vector<double>(data(site).end() - width, data(site).end());
    };
    text.add("result_norm", "MUL(norm{8, 1, 1, 1}, output_norm.weight{8, 1, 1, 1}}", {1, d},
             last("final_norm"));
    text.add("result_output", "MUL_MAT(output.weight{8, 8, 1, 1}, result_norm{8, 1, 1, 1}}",
             {1, golden_.model.spec().vocab_size}, last("head"));
    return text;
  }

  bool is_hidden(const Shape& shape, int64_t flat) const {
    const AttentionSpec& spec = golden_.model.spec().stack.blocks[0].attention;
    const int64_t back = flat / shape[3] % shape[2] - flat % shape[3];
    return back < 0 || (spec.mask == MaskKind::kWindow && back >= spec.window);
  }

  GoldenModel golden_;
  Values values_;
};

TEST_P(AlignNodes, AWholeGraph) {
  const Dump dump = whole().dump();
  const Aligned aligned = align(golden_.model, dump, {.threads = 1});
  EXPECT_EQ(aligned.incomparable, "");
  EXPECT_EQ(aligned.inputs[0].tokens, golden_.input.tokens);
  EXPECT_EQ(aligned.unmapped, std::vector<std::string>());
  EXPECT_FALSE(aligned.tokens_differ);
  std::set<std::string> found;
  for (const AlignedValue& value : aligned.values) {
    const std::string site = to_string(value.site);
    SCOPED_TRACE(site);
    found.insert(site);
    EXPECT_EQ(value.shape, values_.at(site).first);
    ASSERT_EQ(value.printed_error.size(), value.data.size());
    const bool scores = value.site.site == Site::kScores;
    int known = 0;
    for (size_t i = 0; i < value.data.size(); ++i) {
      if (!value.known.empty() && value.known[i] == 0) continue;
      ++known;
      const auto flat = static_cast<int64_t>(i);
      if (scores && is_hidden(value.shape, flat)) continue;
      EXPECT_NEAR(value.data[i], data(site)[i],
                  static_cast<double>(value.printed_error[i]) * 1.001);
    }
    EXPECT_GT(known, 0);
  }
  for (const char* site : {"token_embed", "blocks.0.q", "blocks.0.k_rot", "blocks.1.scores",
                           "blocks.1.pattern", "blocks.1.attn_mix", "blocks.1.attn_proj",
                           "blocks.1.mlp_gate", "blocks.1.resid_post", "final_norm", "head"}) {
    EXPECT_TRUE(found.contains(site)) << site;
  }
  // Told by the graph, so no note is needed for a mistake to show: rows cut, q·k, channels.
  const auto last = std::find_if(aligned.values.begin(), aligned.values.end(), [](const auto& v) {
    return to_string(v.site) == "blocks.1.resid_post";
  });
  ASSERT_EQ(last->known.size(), last->data.size());
  EXPECT_EQ(last->known[0], 0);
}

TEST_P(AlignNodes, ASecondEvaluationIsLeftOut) {
  NodeText text = whole();
  const int64_t d = golden_.model.spec().stack.width;
  text.add("embd", "GET_ROWS(token_embd.weight{8, 8, 1, 1}, inp_tokens{1, 1, 1, 1}}", {1, d},
           std::vector<double>(static_cast<size_t>(d), 7));
  const Dump dump = text.dump();
  const Aligned aligned = align(golden_.model, dump, {.threads = 1});
  ASSERT_EQ(aligned.incomparable, "");
  EXPECT_EQ(aligned.values.front().shape[1], std::ssize(golden_.input.tokens));
  EXPECT_NE(aligned.notes.front().find("only the first call was read"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Families, AlignNodes, ::testing::Values("llama", "mistral"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mainstem::testing
