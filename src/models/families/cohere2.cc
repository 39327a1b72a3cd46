// Cohere2 (Command R7B): Command-R's block with a window on three of four blocks; the fourth sees
// everything and has no positions. Source of the rules: transformers 5.24 models/cohere2,
// llama.cpp arch "cohere2".

#include "models/activation_names.h"
#include "models/decoder_reader.h"
#include "models/rope_config.h"

namespace mainstem {
namespace {

constexpr int64_t kPattern = 4;

ModelSpec cohere2_spec(Decoder decoder, int64_t window, const std::vector<bool>& sliding) {
  BlockSpec& block = decoder.block;
  block.residual = ResidualForm::kParallelSharedNorm;
  block.norm.bias = false;
  block.attention.rotary->pairing = RotaryPairing::kInterleaved;
  ModelSpec spec = decoder_spec(decoder);
  for (size_t n = 0; n < sliding.size(); ++n) {
    AttentionSpec& attention = spec.stack.blocks[n].attention;
    if (sliding[n]) {
      set_window(attention, window);
    } else {
      attention.rotary.reset();
    }
  }
  return spec;
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.vocab = 256000,
                                          .width = 8192,
                                          .hidden = 22528,
                                          .blocks = 40,
                                          .heads = 64,
                                          .context = 8192});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "layer_norm_eps");
  set_attention_bias(block.attention, config.bool_or("attention_bias", false));
  block.attention.rotary =
      read_rotary(config, block.attention.head_width, {.base = 10000, .context = decoder.context});
  block.mlp.activation = read_activation(config, "hidden_act", "silu");
  read_head(config, decoder.head, true, has_tensor);
  decoder.head.logit_scale = config.number_or("logit_scale", 0.0625);
  const int64_t pattern = config.int_or("sliding_window_pattern", kPattern);
  if (pattern < 1) config.fail("sliding_window_pattern", "1 or more");
  config.ignore({"partial_rotary_factor", "_sliding_window_pattern", "cache_implementation",
                 "use_qk_norm", "use_embedding_sharing", "use_gated_activation",
                 "use_parallel_block", "use_parallel_embedding", "order_of_interleaved_layers",
                 "position_embedding_type", "rotary_pct"});
  return cohere2_spec(
      decoder, config.int_or("sliding_window", 4096),
      sliding_blocks(config, decoder.blocks, [&](int64_t n) { return (n + 1) % pattern != 0; }));
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(words);
  block.attention.rotary = read_rotary(words, block.attention.head_width, decoder.context);
  decoder.head.logit_scale = words.need_number("logit_scale");
  return cohere2_spec(decoder, words.need_int("attention.sliding_window"),
                      sliding_blocks(words, decoder.blocks, kPattern));
}

}  // namespace

Family cohere2_family() {
  return {
      .name = "cohere2",
      .model_types = {"cohere2"},
      .gguf_archs = {"cohere2"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows = llama_rows(),
      .prefixes = {"model.", ""},
      .ignored_tensors = {"*rotary_emb.inv_freq"},
  };
}

}  // namespace mainstem
