// Several --tokens: a batch, the shorter sequences padded on the left.

#include <cmath>

#include "cli/run_command.h"
#include "cli/tiny_llama.h"
#include "mainstem/npz.h"
#include "support/compare.h"

namespace mainstem::cli_test {
namespace {

using Sequences = std::vector<std::vector<int64_t>>;

std::string tiny(const std::string& name) { return test_file("golden/families/" + name); }

std::vector<std::string> trace_words(const std::string& model, const Sequences& sequences,
                                     const std::vector<std::string>& more) {
  std::vector<std::string> words{"trace", model, "--json"};
  for (const auto& ids : sequences) words.insert(words.end(), {"--tokens", joined(ids)});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// What a trace in double writes.
NpzFile traced(const std::string& model, const Sequences& sequences, const Scratch& scratch,
               const std::string& file, std::vector<std::string> more = {}) {
  const std::string path = (scratch / file).string();
  more.insert(more.end(), {"--compute", "f64", "--out", path});
  run_json(trace_words(model, sequences, more));
  return NpzFile::open(path);
}

/// The rows of sequence b that are no padding, of a value whose axis `query` counts its tokens and
/// whose axis `key` (-1: none has) its keys.
std::vector<double> own_part(const Tensor& value, int64_t b, int64_t length, size_t query,
                             int key = -1, int64_t keys = 0) {
  const Shape& shape = value.shape();
  const std::vector<double> all = to_f64(value.view());
  std::vector<double> part;
  std::vector<int64_t> index(shape.size());
  for (size_t i = 0; i < all.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    for (size_t axis = shape.size(); axis-- > 0;) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    const bool own_row = index[query] >= shape[query] - length;
    const bool own_key =
        key < 0 || index[static_cast<size_t>(key)] >= shape[static_cast<size_t>(key)] - keys;
    if (index[0] == b && own_row && own_key) part.push_back(all[i]);
  }
  return part;
}

/// Sequences of a batch see neither each other nor the padding: in double to the last bit.
void expect_own_traces(const std::string& model, const Sequences& sequences) {
  const Scratch scratch;
  const NpzFile batch = traced(model, sequences, scratch, "batch.npz");
  for (size_t b = 0; b < sequences.size(); ++b) {
    const NpzFile one = traced(model, {sequences[b]}, scratch, "one.npz");
    const auto length = static_cast<int64_t>(sequences[b].size());
    for (const std::string& site : one.names()) {
      SCOPED_TRACE(site);
      const Tensor want = one.read(site), got = batch.read(site);
      ASSERT_EQ(got.shape()[0], std::ssize(sequences));
      const bool square = site.ends_with("scores") || site.ends_with("pattern");
      EXPECT_EQ(
          own_part(got, static_cast<int64_t>(b), length, square ? 2 : 1, square ? 3 : -1, length),
          to_f64(want.view()));
    }
  }
}

const Sequences kSequences = {{3, 1, 4, 1, 5}, {9, 2}, {6, 5, 3}};

TEST(TraceBatch, SequencesAreThoseOfTheirOwnTraces) {
  expect_own_traces(TinyLlama().path(), kSequences);
  // Learned positions; windows, soft caps; an encoder, which sees both ways.
  for (const char* name : {"gpt2", "opt", "gemma2", "cohere2", "bert"}) {
    SCOPED_TRACE(name);
    expect_own_traces(tiny(name), kSequences);
  }
}

TEST(TraceBatch, TheFileSaysWhatIsPadding) {
  const TinyLlama model;
  const Scratch scratch;
  const NpzFile batch = traced(model.path(), kSequences, scratch, "t.npz", {"--sites", "*pattern"});
  EXPECT_EQ(to_f64(batch.read("tokens").view()),
            (std::vector<double>{3, 1, 4, 1, 5, 0, 0, 0, 9, 2, 0, 0, 6, 5, 3}));
  EXPECT_EQ(to_f64(batch.read("positions").view()),
            (std::vector<double>{0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2}));
  const std::vector<double> mask = to_f64(batch.read("key_mask").view());
  EXPECT_EQ(mask, (std::vector<double>{1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(batch.read("key_mask").shape(), (Shape{3, 5}));
  EXPECT_EQ(batch.read("key_mask").dtype(), DType::kI64);
  // Nobody sees padding, and padding sees nobody.
  const Tensor pattern = batch.read("blocks.1.pattern");
  const std::vector<double> values = to_f64(pattern.view());
  const int64_t heads = pattern.shape()[1];
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    const int64_t b = i / (heads * 25), t = i / 5 % 5, s = i % 5;
    if (mask[static_cast<size_t>(b * 5 + t)] * mask[static_cast<size_t>(b * 5 + s)] == 0) {
      EXPECT_EQ(values[static_cast<size_t>(i)], 0) << b << " " << t << " " << s;
    }
  }

  const NpzFile one = traced(model.path(), {{3, 1}}, scratch, "one.npz", {"--sites", "embed"});
  EXPECT_EQ(one.names(), (std::vector<std::string>{"embed", "tokens"}));
  const NpzFile equal =
      traced(model.path(), {{3, 1}, {4, 1}}, scratch, "two.npz", {"--sites", "tokens"});
  EXPECT_EQ(equal.names(), (std::vector<std::string>{"tokens", "positions", "key_mask"}));
}

TEST(TraceBatch, JsonListsTheSequencesAndLeavesPaddingOutOfItsNumbers) {
  const TinyLlama model;
  const auto steps = [&](const Sequences& sequences, const std::string& positions = "all") {
    return run_json(trace_words(
        model.path(), sequences,
        {"--sites", "tokens,blocks.1.{q,k,v,scores,pattern},head", "--positions", positions}));
  };
  const nlohmann::json batch = steps({{6, 5, 3}, {9, 2}});
  EXPECT_EQ(batch.at("ids"), (Sequences{{6, 5, 3}, {9, 2}}));
  EXPECT_EQ(steps({{9, 2}}).at("ids"), (std::vector<int64_t>{9, 2}));
  const nlohmann::json first = steps({{6, 5, 3}}), second = steps({{9, 2}});
  for (size_t i = 0; i < batch.at("steps").size(); ++i) {
    const nlohmann::json& both = batch.at("steps")[i];
    SCOPED_TRACE(both.at("site").get<std::string>());
    const nlohmann::json &a = first.at("steps")[i], &b = second.at("steps")[i];
    const auto number = [](const nlohmann::json& step, const char* key) {
      return step.at(key).get<double>();
    };
    EXPECT_EQ(number(both, "min"), std::min(number(a, "min"), number(b, "min")));
    EXPECT_EQ(number(both, "max"), std::max(number(a, "max"), number(b, "max")));
    const auto squares = [&](const nlohmann::json& step) {
      double count = 1;
      for (const int64_t dim : step.at("shape")) count *= static_cast<double>(dim);
      return std::pair(number(step, "rms") * number(step, "rms") * count, count);
    };
    const auto [sum_a, count_a] = squares(a);
    const auto [sum_b, count_b] = squares(b);
    const double rms = std::sqrt((sum_a + sum_b) / (count_a + count_b));
    EXPECT_NEAR(number(both, "rms"), rms, 1e-14 * rms);
    // The shortest first: its padding is not among the first values.
    EXPECT_EQ(steps({{9}, {6, 5, 3}}).at("steps")[i].at("first")[0],
              steps({{9}}).at("steps")[i].at("first")[0]);
    // The last column is everybody's last token, the first one only of the longest.
    const nlohmann::json last = steps({{6, 5, 3}, {9, 2}}, "last").at("steps")[i];
    EXPECT_EQ(last.at("shape")[0], 2);
    EXPECT_EQ(number(last, "max"),
              std::max(number(steps({{6, 5, 3}}, "last").at("steps")[i], "max"),
                       number(steps({{9, 2}}, "last").at("steps")[i], "max")));
    if (both.at("site") == "head" || both.at("site") == "blocks.1.q") {
      EXPECT_EQ(last.at("shape")[1], 1);
      const nlohmann::json begin = steps({{9, 2}, {6, 5, 3}}, "0").at("steps")[i];
      EXPECT_EQ(begin.at("first"), steps({{6, 5, 3}}, "0").at("steps")[i].at("first"));
      EXPECT_EQ(number(begin, "max"), number(steps({{6, 5, 3}}, "0").at("steps")[i], "max"));
    }
  }
}

TEST(TraceBatch, BothStacksOfAnEncoderDecoderArePadded) {
  const std::string model = tiny("marian");
  const Sequences prompts = {{7, 40}, {2, 11, 5}, {9}}, decoders = {{0, 5, 3, 8}, {0}, {0, 7}};
  const Scratch scratch;
  const auto decoder_words = [](const Sequences& lists) {
    std::vector<std::string> words;
    for (const auto& ids : lists) words.insert(words.end(), {"--decoder-tokens", joined(ids)});
    return words;
  };
  const NpzFile batch = traced(model, prompts, scratch, "batch.npz", decoder_words(decoders));
  EXPECT_EQ(to_f64(batch.read("encoder.key_mask").view()),
            (std::vector<double>{0, 1, 1, 1, 1, 1, 0, 0, 1}));
  EXPECT_EQ(to_f64(batch.read("decoder.positions").view()),
            (std::vector<double>{0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 1}));
  for (size_t b = 0; b < prompts.size(); ++b) {
    const NpzFile one =
        traced(model, {prompts[b]}, scratch, "one.npz", decoder_words({decoders[b]}));
    const auto encoder_length = std::ssize(prompts[b]), length = std::ssize(decoders[b]);
    for (const std::string& site : one.names()) {
      SCOPED_TRACE(site);
      const bool square = site.ends_with("scores") || site.ends_with("pattern");
      const bool of_encoder = site.starts_with("encoder.");
      const bool cross = site.find("cross_") != std::string::npos;
      const bool of_keys = site.ends_with("cross_k") || site.ends_with("cross_v");
      const auto part = own_part(batch.read(site), static_cast<int64_t>(b),
                                 of_encoder || of_keys ? encoder_length : length, square ? 2 : 1,
                                 square ? 3 : -1, of_encoder || cross ? encoder_length : length);
      EXPECT_EQ(part, to_f64(one.read(site).view()));
    }
  }
  // One list of the decoder is for all, and so is the start token.
  const auto ids = [&](const Sequences& lists) {
    std::vector<std::string> words = decoder_words(lists);
    words.insert(words.end(), {"--sites", "decoder.head"});
    return run_json(trace_words(model, prompts, words)).at("decoder_ids");
  };
  EXPECT_EQ(ids({{0, 5}}), (Sequences{{0, 5}, {0, 5}, {0, 5}}));
  EXPECT_EQ(ids({}), (Sequences{{0}, {0}, {0}}));
  EXPECT_TRUE(fails(run(trace_words(model, prompts, decoder_words({{0}, {5}}))), 2,
                    "one for each of the 3"));
}

TEST(TraceBatch, NamesTablesAndMistakes) {
  const TinyLlama model;
  const nlohmann::json named = run_json(trace_words(
      model.path(), kSequences, {"--names", "hf", "--sites", "blocks.1.q", "--positions", "1:4"}));
  EXPECT_EQ(named.at("steps")[0].at("site"), "model.layers.1.self_attn.q_proj");
  EXPECT_EQ(named.at("steps")[0].at("shape")[0], 3);
  EXPECT_EQ(named.at("steps")[0].at("shape")[1], 3);
  const nlohmann::json broken = run_json(trace_words(
      model.path(), kSequences, {"--break", "residual.missing@1", "--sites", "logits"}));
  EXPECT_EQ(broken.at("broken"), "residual.missing@1");
  EXPECT_NE(broken.at("steps"),
            run_json(trace_words(model.path(), kSequences, {"--sites", "logits"})).at("steps"));
  std::vector<std::string> table = trace_words(model.path(), kSequences, {});
  std::erase(table, "--json");
  const Outcome outcome = run(table);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("[3,5"), std::string::npos) << outcome.out;
}

TEST(TraceBatch, UsageErrors) {
  const TinyLlama model;
  const auto refused = [&](const std::vector<std::string>& words, const std::string& text) {
    std::vector<std::string> all{"trace", model.path(), "--tokens", "1,2"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_TRUE(fails(run(all), 2, text)) << text;
  };
  refused({"--tokens", "1,x"}, "1,2,3");
  refused({"--tokens", ""}, "--tokens");
  refused({"--tokens", "99999"}, "--tokens");
  refused({"--tokens", "1", "-p", "a"}, "both");
  refused({"--tokens", "1", "--decoder-tokens", "1"}, "--decoder-tokens");
  refused({"--tokens", "1", "--positions", "2"}, "--positions");
  EXPECT_TRUE(fails(run({"run", model.path(), "--tokens", "1", "--tokens", "2"}), 2, "several"));
}

}  // namespace
}  // namespace mainstem::cli_test
