// Tiny random encoder-decoders and torch.nn modules, loaded from their files, against what
// transformers and torch computed from them (tests/generators/make_encoder_decoder.py).

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "mainstem/block.h"
#include "mainstem/error.h"
#include "mainstem/model.h"
#include "mainstem/safetensors.h"
#include "mainstem/sampling.h"
#include "mainstem/torch_layer.h"
#include "support/bounds.h"
#include "support/compare.h"
#include "support/random_model.h"

namespace mainstem::testing {
namespace {

namespace fs = std::filesystem;
constexpr double kEps64 = std::numeric_limits<double>::epsilon();
constexpr double kEps32 = std::numeric_limits<float>::epsilon();

const fs::path kGolden = fs::path(MAINSTEM_TEST_DATA) / "golden" / "encoder_decoder";

class Case {
 public:
  explicit Case(const std::string& name)
      : folder_(kGolden / name),
        golden_(SafetensorsFile::open(folder_ / "golden.safetensors")),
        model_(Model::load(folder_, {.allow_unknown_keys = {}, .skip_tokenizer = true})) {}

  const fs::path& folder() const { return folder_; }
  const Model& model() const { return model_; }
  std::vector<double> values(const std::string& name) const { return to_f64(golden_.view(name)); }
  Shape shape(const std::string& name) const { return golden_.view(name).shape(); }
  std::vector<int64_t> ids(const std::string& name) const {
    const auto all = golden_.view(name).as<int64_t>();
    return {all.begin(), all.end()};
  }
  /// Names of the golden values that are sites.
  std::set<std::string> sites() const {
    std::set<std::string> names;
    for (const StoredTensor& tensor : golden_.tensors()) {
      if (tensor.dtype == DType::kF64) names.insert(tensor.name);
    }
    return names;
  }
  SequenceInput input() const {
    if (!model_.spec().encoder) return {.tokens = ids("tokens")};
    return {.tokens = ids("decoder_tokens"), .encoder_tokens = ids("tokens")};
  }
  int64_t blocks() const {
    const ModelSpec& spec = model_.spec();
    return std::ssize(spec.stack.blocks) + (spec.encoder ? std::ssize(spec.encoder->blocks) : 0);
  }

 private:
  fs::path folder_;
  SafetensorsFile golden_;
  Model model_;
};

Traced trace_case(const Case& each, Compute compute) {
  Session session(each.model().bound(),
                  {.compute = compute, .threads = 1, .sites = all_sites(each.model().program())});
  SequenceInput input = each.input();
  input.sequence = session.add_sequence();
  Traced traced;
  session.forward_all({&input, 1}, traced.sink());
  return traced;
}

class EncoderDecoder : public ::testing::TestWithParam<const char*> {};

TEST_P(EncoderDecoder, EverySiteEqualsTheReference) {
  const Case each(GetParam());
  for (const Compute compute : {Compute::kF64, Compute::kF32Reference, Compute::kF32}) {
    const Traced got = trace_case(each, compute);
    const double bound =
        bounds::end_to_end(compute == Compute::kF64 ? kEps64 : kEps32, each.blocks());
    const std::set<std::string> sites = each.sites();
    for (const std::string& site : sites) {
      ASSERT_TRUE(got.data.contains(site)) << site;
      EXPECT_TRUE(same_shape(got.shape.at(site), each.shape(site))) << site;
      EXPECT_TRUE(close(got.data.at(site), each.values(site), bound)) << site;
    }
    // The recorders see everything but the ids.
    for (const std::string& site : got.order) {
      EXPECT_TRUE(sites.contains(site) || site.ends_with("tokens")) << site;
    }
  }
}

/// The decoder's cache and the encoder's keys: one token after another gives the same rows.
TEST_P(EncoderDecoder, DecodesStepByStep) {
  const Case each(GetParam());
  if (each.model().spec().stack.blocks[0].attention.mask == MaskKind::kFull) GTEST_SKIP();
  Session session(each.model().bound(), {.compute = Compute::kF64, .threads = 1, .sites = {}});
  const int64_t sequence = session.add_sequence();
  const SequenceInput whole = each.input();
  std::vector<double> rows;
  for (size_t t = 0; t < whole.tokens.size(); ++t) {
    SequenceInput step{.sequence = sequence, .tokens = {whole.tokens[t]}};
    if (t == 0) step.encoder_tokens = whole.encoder_tokens;
    const std::vector<double> row = session.forward_all({&step, 1});
    rows.insert(rows.end(), row.begin(), row.end());
  }
  EXPECT_TRUE(close(rows, each.values("logits"), bounds::end_to_end(kEps64, each.blocks())));
}

INSTANTIATE_TEST_SUITE_P(Cases, EncoderDecoder,
                         ::testing::Values("marian", "translator", "language_model", "layers"),
                         [](const auto& each) { return std::string(each.param); });

TEST(Marian, GreedyTranslationsAreThoseOfGenerate) {
  const Case each("marian");
  const Model& model = each.model();
  ASSERT_EQ(model.decoder_start_id(), 28);
  ASSERT_EQ(model.end_ids(), std::vector<int64_t>{7});
  EXPECT_EQ(model.bad_words().size(), 30U);
  Sampler greedy;
  for (const std::string number : {"0", "1", "2"}) {
    const std::vector<int64_t> want = each.ids("translation." + number);
    Session session(model.bound(), {.compute = Compute::kF32, .threads = 1, .sites = {}});
    SequenceInput input{.sequence = session.add_sequence(),
                        .tokens = {*model.decoder_start_id()},
                        .encoder_tokens = each.ids("prompt." + number)};
    std::vector<int64_t> made = input.tokens;
    while (made.size() < want.size()) {
      std::vector<float> logits = session.forward({&input, 1});
      forbid_words(model.bad_words(), made, logits);
      made.push_back(greedy.sample(logits, made));
      input.tokens = {made.back()};
      input.encoder_tokens.clear();
    }
    EXPECT_EQ(made, want) << number;
  }
}

/// A folder of its own with the marian case's files.
class MarianFolder {
 public:
  MarianFolder() {
    std::string name = (fs::temp_directory_path() / "marian_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
    for (const char* file : {"config.json", "generation_config.json", "model.safetensors"}) {
      fs::copy_file(kGolden / "marian" / file, path_ / file);
    }
  }
  ~MarianFolder() { fs::remove_all(path_); }
  MarianFolder(const MarianFolder&) = delete;
  MarianFolder& operator=(const MarianFolder&) = delete;

  const fs::path& path() const { return path_; }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(path_ / file) << text;
  }
  std::string refusal() const {
    try {
      Model::load(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      return error.what();
    }
    return "accepted";
  }

 private:
  fs::path path_;
};

TEST(Marian, TheStartTokenComesFromEitherFile) {
  const MarianFolder folder;
  folder.write("generation_config.json", R"({"decoder_start_token_id": 5})");
  EXPECT_EQ(Model::load(folder.path()).decoder_start_id(), 5);
  folder.write("generation_config.json", R"({"bos_token_id": 6})");
  EXPECT_EQ(Model::load(folder.path()).decoder_start_id(), 28);  // of config.json
  fs::remove(folder.path() / "generation_config.json");
  EXPECT_EQ(Model::load(folder.path()).decoder_start_id(), 28);
  EXPECT_TRUE(Model::load(folder.path()).bad_words().empty());
  folder.write("generation_config.json", R"({"eos_token_id": 7, "bad_words_ids": [[7], [3, 4]]})");
  EXPECT_EQ(Model::load(folder.path()).bad_words(),
            (std::vector<std::vector<int64_t>>{{3, 4}}));  // an end token is never forbidden
}

TEST(Marian, OddGenerationConfigsAreRefusedByName) {
  const MarianFolder folder;
  for (const auto& [text, names] : std::vector<std::pair<std::string, std::string>>{
           {R"({"decoder_start_token_id": 29})", "decoder_start_token_id"},
           {R"({"decoder_start_token_id": "x"})", "decoder_start_token_id"},
           {R"({"bad_words_ids": 3})", "bad_words_ids"},
           {R"({"bad_words_ids": [[]]})", "bad_words_ids"},
           {R"({"bad_words_ids": [["a"]]})", "bad_words_ids"},
           {"[]", "generation"}}) {
    folder.write("generation_config.json", text);
    EXPECT_NE(folder.refusal().find(names), std::string::npos) << text << ": " << folder.refusal();
  }
}

TEST(ForbidWords, OnlyWhatTheHistoryCompletes) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<std::vector<int64_t>> words = {{3}, {1, 2}, {5, 1, 0}, {9}, {-1}, {7, 7, 7}};
  std::vector<float> logits(6, 1.0F);
  forbid_words(words, std::vector<int64_t>{5, 1}, logits);
  EXPECT_EQ(logits, (std::vector<float>{never, 1, never, never, 1, 1}));
  logits.assign(6, 1.0F);
  forbid_words(words, {}, logits);
  EXPECT_EQ(logits, (std::vector<float>{1, 1, 1, never, 1, 1}));
}

/// Torch keeps its layers' weights as they lie in its own files.
TEST(TorchLayer, IsABlock) {
  struct Layer {
    const char* name;
    const char* prefix;
    const char* block;
    TorchLayerOptions options;
  };
  for (const Layer& layer : {Layer{"layers", "blocks.0.", "blocks.0.", {.heads = 4}},
                             Layer{"language_model",
                                   "encoder.layers.1.",
                                   "blocks.1.",
                                   {.heads = 3,
                                    .activation = Activation::kGeluErf,
                                    .eps = 2e-3,
                                    .norm_first = true,
                                    .causal = true}}}) {
    const Case each(layer.name);
    const auto file = SafetensorsFile::open(each.folder() / "model.safetensors");
    const TorchLayer made = torch_encoder_layer(file, layer.prefix, layer.options);
    const Block block(made.spec, made.weights);
    const std::string at = layer.block;
    const std::vector<double> x = each.values(at + "resid_pre");
    const std::vector<double> want = each.values(at + "resid_post");
    EXPECT_TRUE(close(block.forward(x, 1), want, bounds::end_to_end(kEps64, 1))) << layer.name;
    const std::vector<float> single(x.begin(), x.end());
    const std::vector<float> y = block.forward(single, 1);
    EXPECT_TRUE(close(std::vector<double>(y.begin(), y.end()), want, bounds::end_to_end(kEps32, 1)))
        << layer.name;
  }
}

TEST(TorchLayer, SaysWhatDoesNotFit) {
  const auto file = SafetensorsFile::open(kGolden / "layers" / "model.safetensors");
  std::vector<NamedTensor> state;
  const std::string prefix = "blocks.0.";
  for (const StoredTensor& tensor : file.tensors()) {
    if (tensor.name.starts_with(prefix)) {
      state.push_back({tensor.name.substr(prefix.size()), tensor.view()});
    }
  }
  const auto refusal = [](const std::vector<NamedTensor>& tensors, TorchLayerOptions options) {
    try {
      const TorchLayer layer = torch_encoder_layer(tensors, options);
      const Block block(layer.spec, layer.weights);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(state, {.heads = 4}), "accepted");
  EXPECT_NE(refusal(state, {.heads = 5}).find("heads"), std::string::npos);
  EXPECT_NE(refusal(state, {.heads = 4, .bias = false}).find("in_proj_bias"), std::string::npos);
  for (const char* name : {"norm2.bias", "linear1.weight", "self_attn.in_proj_weight"}) {
    std::vector<NamedTensor> less = state;
    std::erase_if(less, [&](const NamedTensor& each) { return each.name == name; });
    EXPECT_NE(refusal(less, {.heads = 4}).find(name), std::string::npos) << name;
  }
  std::vector<NamedTensor> more = state;
  more.push_back({"norm3.weight", state.front().view});
  EXPECT_NE(refusal(more, {.heads = 4}).find("norm3.weight"), std::string::npos);
}

std::string config_refusal(const std::string& from, const std::string& to) {
  std::string name = (fs::temp_directory_path() / "torch_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return "no temporary folder";
  const fs::path path = name;
  fs::copy_file(kGolden / "translator" / "model.safetensors", path / "model.safetensors");
  std::ifstream in(kGolden / "translator" / "config.json");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  std::ofstream(path / "config.json") << text;
  std::string result = "accepted";
  try {
    Model::load(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
    result = error.what();
  }
  fs::remove_all(path);
  return result;
}

TEST(TorchTransformer, OddConfigsAreRefusedByName) {
  struct Edit {
    std::string from, to, names;
  };
  for (const Edit& edit : std::vector<Edit>{
           {"\"nhead\": 3", "\"nhead\": 5", "nhead"},
           {"\"nhead\": 3", "\"nhead\": 0", "nhead"},
           {"\"d_model\": 12,", "", "d_model"},
           {"\"d_model\": 12", "\"d_model\": 24", "shape"},
           {"\"dim_feedforward\": 20,", "", "linear1"},
           {"\"num_encoder_layers\": 2", "\"num_encoder_layers\": 0", "num_encoder_layers"},
           {"\"num_encoder_layers\": 2", "\"num_encoder_layers\": 1", "encoder.layers.1"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 2", "decoder.layers.1"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"causal\": false", "causal"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"positions\": \"x\"",
            "positions"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"positions\": \"learned\"",
            "max_len"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"head_kind\": \"x\"",
            "head_kind"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"head_kind\": \"tied\"",
            "head.weight"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"bias\": false",
            "in_proj_bias"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"encoder_final_norm\": false",
            "encoder.norm"},
           {"\"num_decoder_layers\": 1",
            "\"num_decoder_layers\": 1, \"names\": {\"head\": \"generator\"}", "generator.weight"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"names\": {\"tail\": \"x\"}",
            "names"},
           {"\"num_decoder_layers\": 1",
            "\"num_decoder_layers\": 1, \"names\": {\"head\": \"{head}\"}", "names"},
           {"\"num_decoder_layers\": 1", "\"num_decoder_layers\": 1, \"dropuot\": 0.1",
            "dropuot"}}) {
    const std::string text = config_refusal(edit.from, edit.to);
    EXPECT_NE(text.find(edit.names), std::string::npos) << edit.to << ": " << text;
  }
}

}  // namespace
}  // namespace mainstem::testing
