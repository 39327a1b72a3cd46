// Llama 1, 2, 3 and what uses the same block (SmolLM2, TinyLlama, …). Source of the rules:
// transformers 5.24 models/llama, and for GGUF llama.cpp's writer and loader of arch "llama".

#include <cmath>

#include "mainstem/error.h"
#include "models/activation_names.h"
#include "models/families/family.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

struct LlamaNumbers {
  int64_t vocab = 0, width = 0, hidden = 0, blocks = 0, context = 0;
  AttentionSpec attention;
  Activation activation = Activation::kSilu;
  double eps = 1e-6;
  bool mlp_bias = false;
  bool tied = false;
};

ModelSpec llama_spec(const LlamaNumbers& n) {
  BlockSpec block;
  block.width = n.width;
  block.norm = {.kind = NormKind::kRms, .eps = n.eps};
  block.attention = n.attention;
  block.attention.score_scale = 1 / std::sqrt(static_cast<double>(n.attention.head_width));
  block.mlp = {.hidden = n.hidden,
               .gated = true,
               .activation = n.activation,
               .up_bias = n.mlp_bias,
               .down_bias = n.mlp_bias};
  ModelSpec spec;
  spec.vocab_size = n.vocab;
  spec.context_length = n.context;
  spec.stack.width = spec.stack.embed_width = n.width;
  spec.stack.blocks.assign(static_cast<size_t>(n.blocks), block);
  spec.stack.final_norm = block.norm;
  spec.head.tied = n.tied;
  return spec;
}

int64_t checked_blocks(int64_t blocks) {
  if (blocks < 1 || blocks > 4096) {
    throw bad_input("number of blocks", "1 to 4096", std::to_string(blocks));
  }
  return blocks;
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  LlamaNumbers n;
  n.vocab = config.int_or("vocab_size", 32000);
  n.width = config.int_or("hidden_size", 4096);
  n.hidden = config.int_or("intermediate_size", 11008);
  n.blocks = checked_blocks(config.int_or("num_hidden_layers", 32));
  n.context = config.int_or("max_position_embeddings", 2048);
  n.eps = config.number_or("rms_norm_eps", 1e-6);
  n.activation = read_activation(config, "hidden_act", "silu");
  n.attention.heads = config.int_or("num_attention_heads", 32);
  n.attention.kv_heads = config.int_or("num_key_value_heads", n.attention.heads);
  if (n.attention.heads < 1) config.fail("num_attention_heads", "1 or more");
  const auto head_width = config.get_int("head_dim");
  if (!head_width && n.width % n.attention.heads != 0) {
    config.fail("hidden_size", "a multiple of the heads (or a head_dim)");
  }
  n.attention.head_width = head_width.value_or(n.width / n.attention.heads);
  const bool bias = config.bool_or("attention_bias", false);
  n.attention.q_bias = n.attention.k_bias = n.attention.v_bias = n.attention.output_bias = bias;
  n.mlp_bias = config.bool_or("mlp_bias", false);
  n.attention.rotary = read_rotary(config, n.attention.head_width, 10000, n.context);
  // A head in the file wins over the flag, as in the reference.
  n.tied = config.bool_or("tie_word_embeddings", false) && !has_tensor("lm_head.weight");
  config.ignore({"partial_rotary_factor", "rope_interleaved", "is_llama_config"});
  return llama_spec(n);
}

RotaryScaling gguf_scaling(const GgufFile& file, int64_t width, int64_t context) {
  RotaryScaling scaling;
  if (file.find("rope_freqs.weight") != nullptr) {
    scaling.kind = RotaryScalingKind::kDivisors;
    scaling.short_divisors = to_f64(file.view("rope_freqs.weight"));
    if (static_cast<int64_t>(scaling.short_divisors.size()) != width / 2) {
      throw bad_input("rope_freqs.weight", std::to_string(width / 2) + " divisors",
                      std::to_string(scaling.short_divisors.size()))
          .in(file.path());
    }
    return scaling;
  }
  const auto type = file.get_string("llama.rope.scaling.type");
  const double old_linear = file.get_float("llama.rope.scale_linear").value_or(1);
  scaling.factor = file.get_float("llama.rope.scaling.factor").value_or(old_linear);
  if (!type ? scaling.factor == 1 || scaling.factor == 0 : *type == "none") return {};
  if (!type || *type == "linear") {
    scaling.kind = RotaryScalingKind::kLinear;
    return scaling;
  }
  if (*type == "yarn") {
    scaling.kind = RotaryScalingKind::kYarn;
    scaling.original_context =
        file.get_int("llama.rope.scaling.original_context_length").value_or(context);
    return scaling;
  }
  throw bad_input("llama.rope.scaling.type", "none, linear or yarn", std::string(*type))
      .in(file.path());
}

ModelSpec read_gguf(const GgufFile& file) {
  LlamaNumbers n;
  const StoredTensor* table = file.find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    throw bad_input("token_embd.weight", "a matrix", table == nullptr ? "none" : "another rank")
        .in(file.path());
  }
  n.vocab = table->shape[0];
  n.width = file.need_int("llama.embedding_length");
  n.hidden = file.need_int("llama.feed_forward_length");
  n.blocks = checked_blocks(file.need_int("llama.block_count"));
  n.context = file.get_int("llama.context_length").value_or(0);
  n.eps = file.need_float("llama.attention.layer_norm_rms_epsilon");
  n.attention.heads = file.need_int("llama.attention.head_count");
  n.attention.kv_heads = file.get_int("llama.attention.head_count_kv").value_or(n.attention.heads);
  if (n.attention.heads < 1) {
    throw bad_input("llama.attention.head_count", "1 or more", std::to_string(n.attention.heads))
        .in(file.path());
  }
  const auto head_width = file.get_int("llama.attention.key_length");
  if (!head_width && n.width % n.attention.heads != 0) {
    throw bad_input("llama.embedding_length", "a multiple of the heads", std::to_string(n.width))
        .in(file.path());
  }
  n.attention.head_width = head_width.value_or(n.width / n.attention.heads);
  const auto value_width = file.get_int("llama.attention.value_length");
  if (value_width && *value_width != n.attention.head_width) {
    throw bad_input("llama.attention.value_length",
                    "the key length " + std::to_string(n.attention.head_width),
                    std::to_string(*value_width))
        .in(file.path());
  }
  if (file.get_int("llama.expert_count").value_or(0) > 0) {
    throw bad_input("llama.expert_count", "0 (mixtures of experts are not supported)",
                    std::to_string(*file.get_int("llama.expert_count")))
        .in(file.path());
  }
  const auto has = [&](const char* name) { return file.find(name) != nullptr; };
  n.attention.q_bias = has("blk.0.attn_q.bias");
  n.attention.k_bias = has("blk.0.attn_k.bias");
  n.attention.v_bias = has("blk.0.attn_v.bias");
  n.attention.output_bias = has("blk.0.attn_output.bias");
  n.mlp_bias = has("blk.0.ffn_gate.bias");
  n.tied = !has("output.weight");

  RotarySpec rotary;
  rotary.width = file.get_int("llama.rope.dimension_count").value_or(n.attention.head_width);
  rotary.base = file.get_float("llama.rope.freq_base").value_or(10000);
  rotary.scaling = gguf_scaling(file, rotary.width, n.context);
  n.attention.rotary = rotary;
  return llama_spec(n);
}

}  // namespace

const Family& llama_family() {
  static const Family family{
      .name = "llama",
      .model_types = {"llama"},
      .gguf_archs = {"llama"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows =
          {
              {"token_embed", "model.embed_tokens", "token_embd"},
              {"blocks.{N}.attn_norm", "model.layers.{N}.input_layernorm", "blk.{N}.attn_norm"},
              {"blocks.{N}.q", "model.layers.{N}.self_attn.q_proj", "blk.{N}.attn_q",
               RowOrder::kQueryPairs},
              {"blocks.{N}.k", "model.layers.{N}.self_attn.k_proj", "blk.{N}.attn_k",
               RowOrder::kKeyPairs},
              {"blocks.{N}.v", "model.layers.{N}.self_attn.v_proj", "blk.{N}.attn_v"},
              {"blocks.{N}.attn_proj", "model.layers.{N}.self_attn.o_proj", "blk.{N}.attn_output"},
              {"blocks.{N}.mlp_norm", "model.layers.{N}.post_attention_layernorm",
               "blk.{N}.ffn_norm"},
              {"blocks.{N}.mlp_gate", "model.layers.{N}.mlp.gate_proj", "blk.{N}.ffn_gate"},
              {"blocks.{N}.mlp_value", "model.layers.{N}.mlp.up_proj", "blk.{N}.ffn_up"},
              {"blocks.{N}.mlp_proj", "model.layers.{N}.mlp.down_proj", "blk.{N}.ffn_down"},
              {"final_norm", "model.norm", "output_norm"},
              {"head", "lm_head", "output"},
          },
      .base_prefix = "model.",
      .ignored_tensors = {"*rotary_emb.inv_freq", "rope_freqs.weight"},
      .ignored_gguf_keys = {"vocab_size", "expert_used_count"},
      .used_gguf_keys = {"context_length", "embedding_length", "block_count", "feed_forward_length",
                         "rope.dimension_count", "attention.head_count", "attention.head_count_kv",
                         "attention.layer_norm_rms_epsilon", "attention.key_length",
                         "attention.value_length", "rope.freq_base", "rope.scale_linear",
                         "rope.scaling.type", "rope.scaling.factor",
                         "rope.scaling.original_context_length", "rope.scaling.finetuned",
                         "expert_count"},
  };
  return family;
}

}  // namespace mainstem
