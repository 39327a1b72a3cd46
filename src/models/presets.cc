#include "mainstem/presets.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mainstem/error.h"
#include "models/families/family.h"

namespace mainstem {
namespace {

struct Row {
  std::string_view name;
  std::string_view config;  ///< config.json, as the family's reader wants it
  std::string_view source;
};

constexpr std::string_view kTransformer = "Vaswani et al., arXiv:1706.03762, table 3 and §5.1";
constexpr std::string_view kGpt2 = "GPT-2 report, table 2; released config.json";
constexpr std::string_view kGpt3 = "Brown et al., arXiv:2005.14165, table 2.1";
constexpr std::string_view kBert = "Devlin et al., arXiv:1810.04805 §3; released config.json";
constexpr std::string_view kLlama2 = "Touvron et al., arXiv:2307.09288; released config.json";
constexpr std::string_view kLlama3 = "Llama team, arXiv:2407.21783, table 3; released config.json";
constexpr std::string_view kMistral = "Jiang et al., arXiv:2310.06825, table 1; config of v0.1";
constexpr std::string_view kPalm = "Chowdhery et al., arXiv:2204.02311, table 1";
constexpr std::string_view kGemma = "Gemma team, arXiv:2403.08295, table 1; released config.json";
constexpr std::string_view kGemma2 = "Gemma team, arXiv:2408.00118, table 1; released config.json";
constexpr std::string_view kGemma3 = "Gemma team, arXiv:2503.19786; released config.json";

constexpr Row kRows[] = {
    {"transformer-base",
     R"({"model_type": "torch_transformer", "d_model": 512, "nhead": 8, "num_encoder_layers": 6,
         "num_decoder_layers": 6, "dim_feedforward": 2048, "vocab_size": 37000,
         "scale_embedding": true, "head_kind": "tied", "encoder_final_norm": false,
         "decoder_final_norm": false})",
     kTransformer},
    {"transformer-big",
     R"({"model_type": "torch_transformer", "d_model": 1024, "nhead": 16, "num_encoder_layers": 6,
         "num_decoder_layers": 6, "dim_feedforward": 4096, "vocab_size": 37000,
         "scale_embedding": true, "head_kind": "tied", "encoder_final_norm": false,
         "decoder_final_norm": false})",
     kTransformer},
    {"bert-base", R"({"model_type": "bert", "architectures": ["BertModel"]})", kBert},
    {"bert-large",
     R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 1024,
         "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096})",
     kBert},
    {"gpt2", R"({"model_type": "gpt2"})", kGpt2},
    {"gpt2-medium", R"({"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16})",
     kGpt2},
    {"gpt2-large", R"({"model_type": "gpt2", "n_embd": 1280, "n_layer": 36, "n_head": 20})", kGpt2},
    {"gpt2-xl", R"({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25})", kGpt2},
    {"gpt3-175b",
     R"({"model_type": "gpt3", "n_embd": 12288, "n_layer": 96, "n_head": 96,
         "n_positions": 2048})",
     kGpt3},
    {"llama-2-7b",
     R"({"model_type": "llama", "rms_norm_eps": 1e-5, "max_position_embeddings": 4096})", kLlama2},
    {"llama-2-13b",
     R"({"model_type": "llama", "hidden_size": 5120, "intermediate_size": 13824,
         "num_hidden_layers": 40, "num_attention_heads": 40, "rms_norm_eps": 1e-5,
         "max_position_embeddings": 4096})",
     kLlama2},
    {"llama-2-70b",
     R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
         "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
         "rms_norm_eps": 1e-5, "max_position_embeddings": 4096})",
     kLlama2},
    {"llama-3-8b",
     R"({"model_type": "llama", "vocab_size": 128256, "intermediate_size": 14336,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 500000,
         "max_position_embeddings": 8192})",
     kLlama3},
    {"llama-3-70b",
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192,
         "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 500000,
         "max_position_embeddings": 8192})",
     kLlama3},
    {"llama-3.1-405b",
     R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 16384,
         "intermediate_size": 53248, "num_hidden_layers": 126, "num_attention_heads": 128,
         "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 500000,
         "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8,
         "low_freq_factor": 1, "high_freq_factor": 4,
         "original_max_position_embeddings": 8192}})",
     kLlama3},
    {"mistral-7b",
     R"({"model_type": "mistral", "rms_norm_eps": 1e-5, "max_position_embeddings": 32768})",
     kMistral},
    {"palm-8b", R"({"model_type": "palm", "dim": 4096, "depth": 32, "heads": 16})", kPalm},
    {"palm-62b", R"({"model_type": "palm", "dim": 8192, "depth": 64, "heads": 32})", kPalm},
    {"palm-540b", R"({"model_type": "palm", "dim": 18432, "depth": 118, "heads": 48})", kPalm},
    {"gemma-2b",
     R"({"model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384,
         "num_hidden_layers": 18, "num_attention_heads": 8, "num_key_value_heads": 1})",
     kGemma},
    {"gemma-7b", R"({"model_type": "gemma"})", kGemma},
    {"gemma-2-2b", R"({"model_type": "gemma2"})", kGemma2},
    {"gemma-2-9b",
     R"({"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336,
         "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8})",
     kGemma2},
    {"gemma-2-27b",
     R"({"model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864,
         "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16,
         "head_dim": 128, "query_pre_attn_scalar": 144})",
     kGemma2},
    {"gemma-3-270m",
     R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 640,
         "intermediate_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 4,
         "num_key_value_heads": 1, "sliding_window": 512, "max_position_embeddings": 32768})",
     kGemma3},
    {"gemma-3-1b",
     R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152,
         "intermediate_size": 6912, "num_hidden_layers": 26, "num_attention_heads": 4,
         "num_key_value_heads": 1, "sliding_window": 512, "max_position_embeddings": 32768})",
     kGemma3},
    {"gemma-3-4b",
     R"({"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
         "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
         "sliding_window": 1024, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
     kGemma3},
    {"gemma-3-12b",
     R"({"model_type": "gemma3_text", "hidden_size": 3840, "intermediate_size": 15360,
         "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 8,
         "sliding_window": 1024, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
     kGemma3},
    {"gemma-3-27b",
     R"({"model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504,
         "num_hidden_layers": 62, "num_attention_heads": 32, "num_key_value_heads": 16,
         "head_dim": 128, "query_pre_attn_scalar": 168, "sliding_window": 1024,
         "rope_scaling": {"rope_type": "linear", "factor": 8}})",
     kGemma3},
};

std::string_view note_of(std::string_view family) {
  if (family == "torch_transformer") {
    return "attention has biases, as torch.nn gives them; the paper's formulas have none "
           "(less than 0.1 % of the parameters)";
  }
  if (family == "gpt3") {
    return "every other block of the published model attends to a band of keys whose width was "
           "not published; here all blocks are dense (\"band_width\" in a config chooses one)";
  }
  if (family == "palm") {
    return "the paper writes LayerNorm without bias; the lesson and one of its engineers say "
           "RMSNorm, which has as many parameters (--norm rms)";
  }
  if (family == "bert") return "with the pooler, which is counted and not run";
  return {};
}

const Family& family_of(const nlohmann::json& config) {
  const auto type = config.at("model_type").get<std::string>();
  for (const Family& family : families()) {
    for (std::string_view known : family.model_types) {
      if (known == type) return family;
    }
  }
  throw internal_error("no family for the preset's model_type " + type);
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

Preset find_preset(std::string_view name, std::string_view norm) {
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const Row& each) { return each.name == name; });
  if (row == std::end(kRows)) {
    std::string known;
    for (const std::string& each : preset_names()) known += (known.empty() ? "" : ", ") + each;
    throw usage_error("family preset", "one of " + known, std::string(name));
  }
  nlohmann::json config = nlohmann::json::parse(row->config);
  const Family& family = family_of(config);
  if (!norm.empty()) {
    if (family.name != "palm") {
      throw usage_error("--norm", "a family whose sources disagree about it (palm)",
                        std::string(name));
    }
    config["norm"] = norm;
  }
  ConfigReader reader(config, "preset " + std::string(name));
  const auto has_tensor = [](std::string_view tensor) {
    return tensor == "bert.pooler.dense.weight";
  };
  Preset preset{.name = std::string(name),
                .family = std::string(family.name),
                .source = std::string(row->source),
                .note = std::string(note_of(family.name)),
                .spec = family.read_config(reader, has_tensor)};
  reader.finish({});
  return preset;
}

}  // namespace mainstem
