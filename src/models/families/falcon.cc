// Falcon: one key and value head for many queries (7B), groups of them with two norms (40B), or
// ALiBi and a sequential block (RW). Source of the rules: transformers 5.24 models/falcon,
// llama.cpp arch "falcon". With ALiBi the reference's eager attention adds the bias twice; here it
// is added once, as its sdpa attention does and as the models were trained.

#include <bit>
#include <cmath>

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

/// To 8 bits of mantissa, ties to even.
double to_bf16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000U;
  return std::bit_cast<float>(rounded);
}

/// Slopes of Press et al.: powers of 2^(-8/n) for the largest power of two n up to H, then every
/// other power of the next finer series; rounded to bf16, and times the score scale, since the
/// reference scales scores and bias together.
std::vector<double> alibi_slopes(int64_t heads, double scale) {
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  const auto add = [&](double base, int64_t power) {
    slopes.push_back(to_bf16(std::pow(base, static_cast<double>(power))) * scale);
  };
  const double base = std::exp2(-8.0 / static_cast<double>(whole));
  for (int64_t n = 1; n <= whole; ++n) add(base, n);
  for (int64_t n = 1; static_cast<int64_t>(slopes.size()) < heads; n += 2) add(std::sqrt(base), n);
  return slopes;
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.hidden_key = "ffn_hidden_size",
                                          .heads_key = "num_attention_heads",
                                          .kv_heads_key = "",
                                          .head_width_key = "",
                                          .vocab = 65024,
                                          .width = 4544,
                                          .hidden = 0,
                                          .blocks = 32,
                                          .heads = 71,
                                          .context = 2048});
  BlockSpec& block = decoder.block;
  AttentionSpec& attention = block.attention;
  if (block.mlp.hidden == 0) block.mlp.hidden = 4 * decoder.width;
  const bool grouped = config.bool_or("new_decoder_architecture", false);
  const bool multi_query = config.bool_or("multi_query", true);
  const int64_t kv_heads = config.int_or("num_kv_heads", attention.heads);
  attention.kv_heads = grouped || !multi_query ? kv_heads : 1;
  if (!grouped && !multi_query && kv_heads != attention.heads) {
    config.fail("num_kv_heads", "as many as heads, or multi_query");
  }
  block.norm = layer_norm(config, "layer_norm_epsilon");
  const bool bias = config.bool_or("bias", false);
  set_attention_bias(attention, bias);
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = bias;
  block.mlp.activation = read_activation(config, "activation", "gelu");
  const int64_t norms = config.int_or("num_ln_in_parallel_attn", grouped ? 2 : 1);
  const bool parallel = config.bool_or("parallel_attn", true);
  if (grouped) {
    block.residual = norms == 2 ? ResidualForm::kParallel : ResidualForm::kParallelSharedNorm;
  } else {
    block.residual = parallel ? ResidualForm::kParallelSharedNorm : ResidualForm::kSequential;
  }
  const RotarySpec rotary =
      read_rotary(config, attention.head_width, {.base = 10000, .context = decoder.context});
  if (config.bool_or("alibi", false)) {
    attention.alibi_slopes =
        alibi_slopes(attention.heads, 1 / std::sqrt(static_cast<double>(attention.head_width)));
  } else {
    attention.rotary = rotary;
  }
  read_head(config, decoder.head, true, has_tensor);
  config.ignore({"hidden_dropout", "apply_residual_connection_post_layernorm", "n_head", "n_layer",
                 "n_head_kv", "rotary", "gradient_checkpointing"});
  return decoder_spec(decoder);
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  // The 40B form is told by its second norm; the file has no word for it.
  block.residual = words.has("blk.0.attn_norm_2.weight") ? ResidualForm::kParallel
                                                         : ResidualForm::kParallelSharedNorm;
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  block.mlp.gated = false;
  block.mlp.activation = Activation::kGeluErf;
  words.ignore({"tensor_data_layout"});
  return decoder_spec(decoder);
}

}  // namespace

Family falcon_family() {
  constexpr Layout kPerGroup{.rows = RowLayout::kQkvPerGroup};
  constexpr Layout kQkv{.rows = RowLayout::kQkv};
  constexpr auto kFused = "transformer.h.{N}.self_attention.query_key_value";
  return {
      .name = "falcon",
      .model_types = {"falcon"},
      .gguf_archs = {"falcon"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows =
          {
              {"token_embed", "transformer.word_embeddings", "token_embd"},
              // With two norms the converter calls attention's attn_norm_2 and the MLP's attn_norm.
              {"blocks.{N}.attn_norm",
               "transformer.h.{N}.ln_attn|transformer.h.{N}.input_layernorm",
               "blk.{N}.attn_norm_2|blk.{N}.attn_norm"},
              {"blocks.{N}.q", kFused, "blk.{N}.attn_qkv", kPerGroup, kQkv},
              {"blocks.{N}.k", kFused, "blk.{N}.attn_qkv", kPerGroup, kQkv},
              {"blocks.{N}.v", kFused, "blk.{N}.attn_qkv", kPerGroup, kQkv},
              {"blocks.{N}.attn_proj", "transformer.h.{N}.self_attention.dense",
               "blk.{N}.attn_output"},
              {"blocks.{N}.mlp_norm",
               "transformer.h.{N}.ln_mlp|transformer.h.{N}.post_attention_layernorm",
               "blk.{N}.attn_norm"},
              {"blocks.{N}.mlp_pre", "transformer.h.{N}.mlp.dense_h_to_4h", "blk.{N}.ffn_up"},
              {"blocks.{N}.mlp_proj", "transformer.h.{N}.mlp.dense_4h_to_h", "blk.{N}.ffn_down"},
              {"final_norm", "transformer.ln_f", "output_norm"},
              {"head", "lm_head", "output"},
          },
      .prefixes = {"transformer.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
