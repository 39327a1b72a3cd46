// The original Transformer (Vaswani et al., arXiv:1706.03762) as torch.nn has it: the state dict
// of a module that holds nn.Transformer, nn.TransformerEncoder and nn.TransformerDecoder, or lists
// of their layers. The config.json beside it is written by hand; docs/torch_transformer.md lists
// its keys. Source of the rules: torch 2.13 nn/modules/transformer.py and activation.py.

#include <array>
#include <cmath>

#include "mainstem/error.h"
#include "models/activation_names.h"
#include "models/decoder_reader.h"

namespace mainstem {
namespace {

/// A module of the user's and where it is unless "names" says another place: in a model of both
/// stacks (as nn.Transformer calls them), and in an encoder alone.
struct ModuleWord {
  const char* key;
  const char* in_transformer;
  const char* in_encoder;
};
constexpr std::array kModules = {
    ModuleWord{"encoder_layers", "transformer.encoder.layers", "encoder.layers"},
    ModuleWord{"encoder_norm", "transformer.encoder.norm", "encoder.norm"},
    ModuleWord{"decoder_layers", "transformer.decoder.layers", "decoder.layers"},
    ModuleWord{"decoder_norm", "transformer.decoder.norm", "decoder.norm"},
    ModuleWord{"encoder_embedding", "embedding", "embedding"},
    ModuleWord{"decoder_embedding", "embedding", "embedding"},
    ModuleWord{"encoder_positions", "positions", "positions"},
    ModuleWord{"decoder_positions", "positions", "positions"},
    ModuleWord{"head", "head", "head"},
};

int64_t decoder_layers(ConfigReader& config) { return config.int_or("num_decoder_layers", 0); }

ModuleNames read_names(ConfigReader& config) {
  const bool both = decoder_layers(config) > 0;
  ModuleNames names;
  const nlohmann::json* given = config.get_object("names");
  for (const ModuleWord& word : kModules) {
    names["{" + std::string(word.key) + "}"] = both ? word.in_transformer : word.in_encoder;
  }
  if (given == nullptr) return names;
  for (const auto& [key, module] : given->items()) {
    const auto slot = names.find("{" + key + "}");
    if (slot == names.end() || !module.is_string()) {
      std::string known;
      for (const ModuleWord& word : kModules)
        known += (known.empty() ? "" : ", ") + std::string(word.key);
      config.fail("names", "an object of texts with any of the keys " + known);
    }
    slot->second = module.get<std::string>();
    // A slot inside a name would be filled again.
    if (slot->second.find('{') != std::string::npos) config.fail("names", "names without a brace");
  }
  return names;
}

PositionKind read_positions(ConfigReader& config) {
  const std::string text = config.string_or("positions", "sinusoidal");
  for (const PositionKind kind :
       {PositionKind::kNone, PositionKind::kLearned, PositionKind::kSinusoidalInterleaved,
        PositionKind::kSinusoidalHalves}) {
    if (name(kind) == text) return kind;
  }
  config.fail("positions", "sinusoidal, sinusoidal-halves, learned or none");
}

/// What the layers of both stacks have in common: the arguments of nn.TransformerEncoderLayer.
BlockSpec read_block(ConfigReader& config) {
  BlockSpec block;
  block.width = config.need_int("d_model");
  const int64_t heads = config.need_int("nhead");
  if (heads < 1 || block.width < 1 || block.width % heads != 0) {
    config.fail("nhead", "a divisor of d_model");
  }
  const bool bias = config.bool_or("bias", true);
  block.norm = {
      .kind = NormKind::kLayer, .eps = config.number_or("layer_norm_eps", 1e-5), .bias = bias};
  block.placement =
      config.bool_or("norm_first", false) ? NormPlacement::kPre : NormPlacement::kPost;
  AttentionSpec& attention = block.attention;
  attention.heads = attention.kv_heads = heads;
  attention.head_width = block.width / heads;
  attention.mask = MaskKind::kFull;
  attention.score_scale = 1 / std::sqrt(static_cast<double>(attention.head_width));
  set_attention_bias(attention, bias);
  block.mlp = {.hidden = config.int_or("dim_feedforward", 2048),
               .gated = false,
               .activation = read_activation(config, "activation", "relu"),
               .up_bias = bias,
               .down_bias = bias};
  return block;
}

StackSpec read_stack(ConfigReader& config, const BlockSpec& block, int64_t layers) {
  StackSpec stack;
  stack.width = stack.embed_width = block.width;
  if (config.bool_or("scale_embedding", false)) {
    stack.embed_scale = std::sqrt(static_cast<double>(block.width));
  }
  stack.positions = read_positions(config);
  if (stack.positions == PositionKind::kLearned) stack.position_rows = config.need_int("max_len");
  stack.blocks.assign(static_cast<size_t>(layers), block);
  return stack;
}

int64_t read_layers(ConfigReader& config, std::string_view key, int64_t fallback) {
  const int64_t layers = config.int_or(key, fallback);
  if (layers < 1 || layers > 4096) config.fail(key, "1 to 4096");
  return layers;
}

void read_own_head(ConfigReader& config, HeadSpec& head) {
  const std::string kind = config.string_or("head_kind", "own");
  if (kind != "own" && kind != "tied" && kind != "none") {
    config.fail("head_kind", "own, tied or none");
  }
  if (kind == "none") head.kind = HeadKind::kNone;
  head.tied = kind == "tied";
  head.bias = config.bool_or("head_bias", kind == "own");
}

bool shares_table(ConfigReader& config) {
  const ModuleNames names = read_names(config);
  return names.at("{encoder_embedding}") == names.at("{decoder_embedding}");
}

ModelSpec read_config(ConfigReader& config, const HasTensor& /*has_tensor*/) {
  const int64_t decoders = decoder_layers(config);
  const int64_t encoders = read_layers(config, "num_encoder_layers", 0);
  if (decoders < 0 || decoders > 4096) config.fail("num_decoder_layers", "0 to 4096");
  const BlockSpec block = read_block(config);
  ModelSpec spec;
  spec.vocab_size = config.need_int("vocab_size");
  spec.context_length = config.int_or("max_len", 0);
  spec.stack = read_stack(config, block, encoders);
  // nn.Transformer gives both stacks a norm at their end, nn.TransformerEncoder has none of its
  // own.
  if (config.bool_or("encoder_final_norm", decoders > 0)) spec.stack.final_norm = block.norm;
  read_own_head(config, spec.head);
  config.ignore({"dropout", "batch_first"});
  if (decoders == 0) {
    if (config.bool_or("causal", false)) {
      for (BlockSpec& each : spec.stack.blocks) each.attention.mask = MaskKind::kCausal;
    }
    config.ignore({"decoder_final_norm"});
    return spec;
  }
  if (config.bool_or("causal", true) != true) {
    config.fail("causal", "true (a decoder's tokens never see later ones)");
  }
  spec.encoder = std::move(spec.stack);
  BlockSpec decoder = block;
  decoder.attention.mask = MaskKind::kCausal;
  decoder.cross_attention = block.attention;
  spec.stack = read_stack(config, decoder, decoders);
  if (config.bool_or("decoder_final_norm", true)) spec.stack.final_norm = block.norm;
  spec.shared_token_table = shares_table(config);
  return spec;
}

/// The rows of one stack, whose own names start with `own` and whose layers are `layers`.
void add_layers(std::vector<WeightRow>& rows, const std::string& own, const std::string& layers,
                bool decoder) {
  const std::string block = own + "blocks.{N}.";
  const std::string layer = layers + ".{N}.";
  constexpr Layout kQkv{.rows = RowLayout::kQkv};
  for (const char* part : {"q", "k", "v"}) {
    rows.push_back({block + part, layer + "self_attn.in_proj_{S}", {}, kQkv});
    if (decoder) {
      rows.push_back({block + "cross_" + part, layer + "multihead_attn.in_proj_{S}", {}, kQkv});
    }
  }
  rows.push_back({block + "attn_proj", layer + "self_attn.out_proj"});
  rows.push_back({block + "mlp_pre", layer + "linear1"});
  rows.push_back({block + "mlp_proj", layer + "linear2"});
  const std::string last_norm = decoder ? "norm3" : "norm2";
  for (const char* place : {"norm", "post_norm"}) {
    rows.push_back({block + "attn_" + place, layer + "norm1"});
    rows.push_back({block + "mlp_" + place, layer + last_norm});
    if (decoder) rows.push_back({block + "cross_attn_" + place, layer + "norm2"});
  }
  if (decoder) rows.push_back({block + "cross_attn_proj", layer + "multihead_attn.out_proj"});
}

std::vector<WeightRow> all_rows() {
  std::vector<WeightRow> rows = {
      {"token_embed", "{encoder_embedding}"},
      {"encoder.token_embed", "{encoder_embedding}"},
      {"decoder.token_embed", "{decoder_embedding}"},
      {"pos_embed", "{encoder_positions}"},
      {"encoder.pos_embed", "{encoder_positions}"},
      {"decoder.pos_embed", "{decoder_positions}"},
      {"final_norm", "{encoder_norm}"},
      {"encoder.final_norm", "{encoder_norm}"},
      {"decoder.final_norm", "{decoder_norm}"},
      {"head", "{head}"},
      {"decoder.head", "{head}"},
  };
  add_layers(rows, "", "{encoder_layers}", false);
  add_layers(rows, "encoder.", "{encoder_layers}", false);
  add_layers(rows, "decoder.", "{decoder_layers}", true);
  return rows;
}

}  // namespace

Family torch_transformer_family() {
  return {
      .name = "torch_transformer",
      .model_types = {"torch_transformer"},
      .read_config = read_config,
      .read_names = read_names,
      .rows = all_rows(),
      // The table of sines that many modules register as a buffer.
      .ignored_tensors = {"*.pe", "pe"},
  };
}

}  // namespace mainstem
