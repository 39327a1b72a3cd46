// BERT: an encoder that norms after its sub-layers; token types and a norm on the embedding; the
// masked-language-model head where the class has one. Source of the rules: transformers 5.24
// models/bert, llama.cpp arch "bert" (whose files hold neither head nor pooler).

#include "models/activation_names.h"
#include "models/decoder_reader.h"

namespace mainstem {
namespace {

ModelSpec bert_spec(Decoder decoder, int64_t token_types) {
  BlockSpec& block = decoder.block;
  block.placement = NormPlacement::kPost;
  block.attention.mask = MaskKind::kFull;
  set_attention_bias(block.attention, true);
  block.mlp.gated = false;
  block.mlp.up_bias = block.mlp.down_bias = true;
  ModelSpec spec = decoder_spec(decoder);
  spec.stack.positions = PositionKind::kLearned;
  spec.stack.position_rows = decoder.context;
  spec.stack.token_types = token_types;
  spec.stack.embed_norm = block.norm;
  spec.stack.final_norm.reset();
  return spec;
}

/// A config that names no class says nothing of the head; then the file's own weights do.
bool has_mlm_head(ConfigReader& config, const HasTensor& has_tensor) {
  const auto classes = config.get_strings("architectures");
  if (classes.empty()) return has_tensor("cls.predictions.transform.dense.weight");
  return classes.front().ends_with("ForMaskedLM") || classes.front().ends_with("ForPreTraining");
}

ModelSpec read_config(ConfigReader& config, const HasTensor& has_tensor) {
  Decoder decoder = read_decoder(config, {.kv_heads_key = "",
                                          .head_width_key = "",
                                          .vocab = 30522,
                                          .width = 768,
                                          .hidden = 3072,
                                          .blocks = 12,
                                          .heads = 12,
                                          .context = 512});
  BlockSpec& block = decoder.block;
  block.norm = layer_norm(config, "layer_norm_eps", 1e-12);
  block.mlp.activation = read_activation(config, "hidden_act", "gelu");
  if (config.string_or("position_embedding_type", "absolute") != "absolute") {
    config.fail("position_embedding_type", "absolute");
  }
  if (config.bool_or("is_decoder", false)) config.fail("is_decoder", "false");
  HeadSpec& head = decoder.head;
  head.kind = has_mlm_head(config, has_tensor) ? HeadKind::kMaskedLanguage : HeadKind::kNone;
  head.tied =
      config.bool_or("tie_word_embeddings", true) && !has_tensor("cls.predictions.decoder.weight");
  head.bias = true;
  head.activation = block.mlp.activation;
  head.norm = block.norm;
  head.pooler = has_tensor("bert.pooler.dense.weight");
  config.ignore({"attention_probs_dropout_prob", "hidden_dropout_prob", "classifier_dropout",
                 "gradient_checkpointing", "directionality", "pooler_fc_size",
                 "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
                 "pooler_type", "embedding_size"});
  return bert_spec(decoder, config.int_or("type_vocab_size", 2));
}

ModelSpec read_gguf(GgufWords& words) {
  Decoder decoder = read_decoder(words);
  decoder.block.norm = layer_norm(words);
  decoder.block.mlp.activation = Activation::kGeluErf;
  decoder.head.kind = HeadKind::kNone;
  if (words.get_bool("attention.causal").value_or(false)) {
    words.fail("attention.causal", "false", "true");
  }
  const StoredTensor* types = words.find("token_types.weight");
  words.ignore({"pooling_type"});
  return bert_spec(decoder, types == nullptr || types->shape.empty() ? 0 : types->shape[0]);
}

}  // namespace

Family bert_family() {
  return {
      .name = "bert",
      .model_types = {"bert"},
      .gguf_archs = {"bert"},
      .read_config = read_config,
      .read_gguf = read_gguf,
      .rows =
          {
              {"token_embed", "bert.embeddings.word_embeddings", "token_embd"},
              {"pos_embed", "bert.embeddings.position_embeddings", "position_embd"},
              {"type_embed", "bert.embeddings.token_type_embeddings", "token_types"},
              {"embed_norm", "bert.embeddings.LayerNorm", "token_embd_norm"},
              {"blocks.{N}.q", "bert.encoder.layer.{N}.attention.self.query", "blk.{N}.attn_q"},
              {"blocks.{N}.k", "bert.encoder.layer.{N}.attention.self.key", "blk.{N}.attn_k"},
              {"blocks.{N}.v", "bert.encoder.layer.{N}.attention.self.value", "blk.{N}.attn_v"},
              {"blocks.{N}.attn_proj", "bert.encoder.layer.{N}.attention.output.dense",
               "blk.{N}.attn_output"},
              {"blocks.{N}.attn_post_norm", "bert.encoder.layer.{N}.attention.output.LayerNorm",
               "blk.{N}.attn_output_norm"},
              {"blocks.{N}.mlp_pre", "bert.encoder.layer.{N}.intermediate.dense", "blk.{N}.ffn_up"},
              {"blocks.{N}.mlp_proj", "bert.encoder.layer.{N}.output.dense", "blk.{N}.ffn_down"},
              {"blocks.{N}.mlp_post_norm", "bert.encoder.layer.{N}.output.LayerNorm",
               "blk.{N}.layer_output_norm"},
              {"head_proj", "cls.predictions.transform.dense", ""},
              {"head_norm", "cls.predictions.transform.LayerNorm", ""},
              {"head.weight", "cls.predictions.decoder.weight", ""},
              {"head.bias", "cls.predictions.bias|cls.predictions.decoder.bias", ""},
          },
      .prefixes = {"bert.", ""},
      .ignored_tensors = {"*embeddings.position_ids", "*pooler.dense.*", "cls.seq_relationship.*",
                          "cls.predictions.decoder.bias"},
  };
}

}  // namespace mainstem
