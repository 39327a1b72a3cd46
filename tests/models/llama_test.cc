// A tiny random Llama, loaded from its files, against what transformers computed from them
// (tests/generators/make_tiny_llama.py).

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "mainstem/error.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

namespace fs = std::filesystem;
constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();
constexpr int64_t kBlocks = 3;

const fs::path kFolder = fs::path(MAINSTEM_TEST_DATA) / "golden" / "tiny_llama";

/// A model folder of its own: the weights (some left out) with one of the configs.
class Folder {
 public:
  explicit Folder(const std::string& config, const std::string& without = {}) {
    std::string name = (fs::temp_directory_path() / "tiny_llama_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
    fs::copy_file(kFolder / config, path_ / "config.json");
    const auto file = SafetensorsFile::open(kFolder / "model.safetensors");
    std::vector<NamedTensor> kept;
    for (const StoredTensor& tensor : file.tensors()) {
      if (tensor.name != without) kept.push_back({tensor.name, file.view(tensor.name)});
    }
    write_safetensors(path_ / "model.safetensors", kept);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }
  void edit_config(const std::string& from, const std::string& to) const {
    std::ifstream in(path_ / "config.json");
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    std::ofstream(path_ / "config.json") << text;
  }

 private:
  fs::path path_;
};

class Golden {
 public:
  Golden() : file_(SafetensorsFile::open(kFolder / "golden.safetensors")) {}
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  std::vector<double> values(const std::string& name) const { return to_f64(file_.view(name)); }
  Shape shape(const std::string& name) const { return file_.view(name).shape(); }
  std::vector<int64_t> tokens(const std::string& name = "tokens", int64_t row = 0) const {
    const TensorView view = file_.view(name);
    const auto all = view.as<int64_t>();
    const auto columns = static_cast<size_t>(view.columns());
    const auto begin =
        all.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * columns);
    return {begin, begin + static_cast<std::ptrdiff_t>(columns)};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const StoredTensor& tensor : file_.tensors()) result.push_back(tensor.name);
    return result;
  }

 private:
  SafetensorsFile file_;
};

Model load(const fs::path& path) {
  return Model::load(path, {.allow_unknown_keys = {}, .skip_tokenizer = true});
}

SequenceInput tokens_input(std::vector<int64_t> ids, int64_t sequence = 0) {
  SequenceInput input;
  input.sequence = sequence;
  input.tokens = std::move(ids);
  return input;
}

Traced trace_model(const Model& model, std::vector<SequenceInput> inputs, Compute compute) {
  Session session(model.bound(),
                  {.compute = compute, .threads = 1, .sites = all_sites(model.program())});
  for (SequenceInput& input : inputs) input.sequence = session.add_sequence();
  Traced traced;
  session.forward_all(inputs, traced.sink());
  return traced;
}

/// Scores of hidden keys are defined, but transformers adds its mask to them: golden scores are
/// recorded before that, so everything is compared.
TEST(TinyLlama, EverySiteEqualsTransformers) {
  const Golden golden;
  const Model model = load(kFolder);
  EXPECT_EQ(model.family(), "llama");
  for (Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    const Traced got = trace_model(model, {tokens_input(golden.tokens())}, compute);
    const double bound = bounds::end_to_end(compute == Compute::kF64 ? kEps64 : kEps32, kBlocks);
    int compared = 0;
    for (const std::string& name : golden.names()) {
      if (!name.starts_with("llama3.") || name.starts_with("llama3.f32.") ||
          name.starts_with("llama3.padded.")) {
        continue;
      }
      const std::string site = name.substr(7);
      ASSERT_TRUE(got.data.contains(site)) << site;
      EXPECT_TRUE(same_shape(got.shape.at(site), golden.shape(name))) << site;
      EXPECT_TRUE(close(got.data.at(site), golden.values(name), bound)) << site;
      ++compared;
    }
    EXPECT_EQ(compared, 4 + 3 * 19);
    // The sites that transformers has no place for are second names or the tokens.
    for (const std::string& site : got.order) {
      if (golden.has("llama3." + site)) continue;
      EXPECT_TRUE(site == "tokens" || site == "embed" || site.ends_with("attn_out") ||
                  site.ends_with("mlp_out"))
          << site;
    }
  }
}

TEST(TinyLlama, Float32LogitsEqualThoseOfAFloat32Model) {
  const Golden golden;
  const Traced got = trace_model(load(kFolder), {tokens_input(golden.tokens())}, Compute::kF32);
  EXPECT_TRUE(close(got.data.at("logits"), golden.values("llama3.f32.logits"),
                    bounds::end_to_end(kEps32, kBlocks)));
}

TEST(TinyLlama, OtherRotaryScalings) {
  const Golden golden;
  std::vector<std::vector<double>> seen;
  for (const std::string scaling : {"linear", "dynamic", "yarn"}) {
    const Folder folder(scaling + ".json");
    const Traced got =
        trace_model(load(folder.path()), {tokens_input(golden.tokens())}, Compute::kF64);
    for (const std::string site :
         {"blocks.0.q_rot", "blocks.1.q_rot", "blocks.2.q_rot", "logits"}) {
      EXPECT_TRUE(close(got.data.at(site), golden.values(scaling + "." + site),
                        bounds::end_to_end(kEps64, kBlocks)))
          << scaling << " " << site;
    }
    for (const auto& other : seen) {
      EXPECT_FALSE(close(got.data.at("blocks.0.q_rot"), other, 1e-3)) << scaling;
    }
    seen.push_back(got.data.at("blocks.0.q_rot"));
  }
}

/// The base grows as the sequence does; keys in the cache stay as they were turned.
TEST(TinyLlama, DynamicScalingDecodesAsTransformersDoes) {
  const Golden golden;
  const Folder folder("dynamic.json");
  const Model model = load(folder.path());
  Session session(model.bound(), {.compute = Compute::kF64, .threads = 1, .sites = {}});
  session.add_sequence();
  const std::vector<int64_t> ids = golden.tokens();
  std::vector<double> logits;
  for (size_t t = 0; t < ids.size();) {
    const size_t end = t == 0 ? 6 : t + 1;
    const SequenceInput part = tokens_input({ids.begin() + static_cast<std::ptrdiff_t>(t),
                                             ids.begin() + static_cast<std::ptrdiff_t>(end)});
    const auto rows = session.forward_all({&part, 1});
    logits.insert(logits.end(), rows.begin(), rows.end());
    t = end;
  }
  EXPECT_TRUE(
      close(logits, golden.values("dynamic.decode.logits"), bounds::end_to_end(kEps64, kBlocks)));
}

TEST(TinyLlama, LeftPaddingInABatch) {
  const Golden golden;
  std::vector<SequenceInput> inputs;
  for (int64_t row : {0, 1}) {
    inputs.push_back(tokens_input(golden.tokens("llama3.padded.tokens", row)));
  }
  inputs[1].left_padding = 3;
  const Traced got = trace_model(load(kFolder), inputs, Compute::kF64);
  for (const std::string site :
       {"blocks.0.q_rot", "blocks.1.pattern", "blocks.2.resid_post", "logits"}) {
    // Rows of padding mean nothing.
    const auto real = [&](const std::vector<double>& data, const Shape& shape) {
      std::vector<double> rows = slice(data, shape, 0, 0, 1);
      Shape one = shape;
      one[0] = 1;
      const size_t axis = token_axis(site);
      const auto second = slice(slice(data, shape, 0, 1, 2), one, axis, 3, one[axis]);
      rows.insert(rows.end(), second.begin(), second.end());
      return rows;
    };
    EXPECT_TRUE(
        close(real(got.data.at(site), got.shape.at(site)),
              real(golden.values("llama3.padded." + site), golden.shape("llama3.padded." + site)),
              bounds::end_to_end(kEps64, kBlocks)))
        << site;
  }
}

TEST(TinyLlama, ATiedHeadIsTheTokenTable) {
  const Golden golden;
  const Folder folder("tied.json", "lm_head.weight");
  const Model model = load(folder.path());
  EXPECT_TRUE(model.spec().head.tied);
  const Traced got = trace_model(model, {tokens_input(golden.tokens())}, Compute::kF64);
  EXPECT_TRUE(close(got.data.at("logits"), golden.values("tied.logits"),
                    bounds::end_to_end(kEps64, kBlocks)));
}

std::string refusal(const fs::path& path) {
  try {
    load(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST(TinyLlama, MissingWeightsAndOddConfigsAreRefusedByName) {
  {
    const Folder folder("config.json", "model.layers.1.self_attn.k_proj.bias");
    EXPECT_NE(refusal(folder.path()).find("layers.1"), std::string::npos) << refusal(folder.path());
  }
  {
    const Folder folder("config.json", "lm_head.weight");
    EXPECT_NE(refusal(folder.path()), "accepted");
  }
  struct Edit {
    std::string from, to, names;
  };
  for (const Edit& edit :
       std::vector<Edit>{{"\"vocab_size\": 97", "\"vocab_size\": 98", "token_embed"},
                         {"\"head_dim\": 10", "\"head_dim\": 12", "q.weight"},
                         {"\"attention_bias\": true", "\"attention_bias\": false", "bias"},
                         {"\"mlp_bias\": true", "\"mlp_bias\": false", "bias"},
                         {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "layers.2"},
                         {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", "layers.3"},
                         {"\"model_type\": \"llama\"", "\"model_type\": \"alpaca\"", "alpaca"},
                         {"\"use_cache\": true", "\"use_magic\": true", "use_magic"},
                         {"\"rope_type\": \"llama3\"", "\"rope_type\": \"llama4\"", "llama4"},
                         {"\"hidden_act\": \"silu\"", "\"hidden_act\": \"mish\"", "mish"}}) {
    const Folder folder("config.json");
    folder.edit_config(edit.from, edit.to);
    const std::string text = refusal(folder.path());
    EXPECT_NE(text.find(edit.names), std::string::npos) << edit.to << ": " << text;
  }
}

}  // namespace
}  // namespace mainstem::testing
