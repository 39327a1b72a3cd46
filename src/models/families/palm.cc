// PaLM (Chowdhery et al., arXiv:2204.02311 §2): attention and MLP side by side through one norm,
// one key and value head, SwiGLU, no biases. No files were published; the names and the order in
// the fused matrix are those of the public PyTorch version by lucidrains. The paper writes
// LayerNorm without bias, "norm": "rms" in the config gives RMSNorm instead.

#include "models/decoder_reader.h"

namespace mainstem {
namespace {

ModelSpec read_config(ConfigReader& config, const HasTensor&) {
  Decoder decoder = read_decoder(config, {.width_key = "dim",
                                          .hidden_key = "ff_dim",
                                          .blocks_key = "depth",
                                          .heads_key = "heads",
                                          .kv_heads_key = "",
                                          .head_width_key = "dim_head",
                                          .context_key = "max_seq_len",
                                          .vocab_key = "num_tokens",
                                          .vocab = 256000,
                                          .width = 4096,
                                          .hidden = 0,
                                          .blocks = 32,
                                          .heads = 16,
                                          .context = 2048,
                                          .kv_heads = 1,
                                          .head_width = 256});
  BlockSpec& block = decoder.block;
  const std::string norm = config.string_or("norm", "layer");
  if (norm != "layer" && norm != "rms") config.fail("norm", "layer or rms");
  block.norm = {.kind = norm == "rms" ? NormKind::kRms : NormKind::kLayer,
                .eps = config.number_or("norm_eps", 1e-5)};
  block.residual = ResidualForm::kParallelSharedNorm;
  const int64_t multiple = config.int_or("ff_mult", 4);
  if (multiple < 1 || multiple > 1024) config.fail("ff_mult", "1 to 1024");
  if (block.mlp.hidden == 0) block.mlp.hidden = multiple * decoder.width;
  RotarySpec rotary;
  rotary.width = block.attention.head_width;
  rotary.base = config.number_or("rope_theta", 10000);
  block.attention.rotary = rotary;
  decoder.head.tied = true;
  decoder.head.logit_scale = config.number_or("logit_scale", 1);
  return decoder_spec(decoder);
}

}  // namespace

Family palm_family() {
  constexpr Layout kFused{.rows = RowLayout::kQkvValueGate};
  constexpr auto kName = "{N+1}.fn.fused_attn_ff_proj";
  return {
      .name = "palm",
      .model_types = {"palm"},
      .read_config = read_config,
      .rows =
          {
              {"token_embed", "0", ""},
              {"blocks.{N}.attn_norm.weight", "{N+1}.fn.norm.gamma", ""},
              {"blocks.{N}.q", kName, "", kFused},
              {"blocks.{N}.k", kName, "", kFused},
              {"blocks.{N}.v", kName, "", kFused},
              {"blocks.{N}.mlp_gate", kName, "", kFused},
              {"blocks.{N}.mlp_value", kName, "", kFused},
              {"blocks.{N}.attn_proj", "{N+1}.fn.attn_out", ""},
              {"blocks.{N}.mlp_proj", "{N+1}.fn.ff_out.1", ""},
              {"final_norm.weight", "{L+1}.gamma", ""},
          },
      .ignored_tensors = {"*.beta", "*.rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
