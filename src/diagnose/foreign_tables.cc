// Names checked against transformers 5.24 (module paths and what hooks on them see), the hooks of
// TransformerLens 2 and the nodes of llama.cpp's graphs (llama-cpp-python 0.3.36).

#include "diagnose/foreign_tables.h"

#include <algorithm>
#include <array>

namespace mainstem {
namespace {

using enum Site;

constexpr SiteName kSharedModules[] = {{kTokenEmbed, "model.embed_tokens"},
                                       {kAttnNorm, "*.input_layernorm"},
                                       {kQ, "*.self_attn.q_proj"},
                                       {kK, "*.self_attn.k_proj"},
                                       {kV, "*.self_attn.v_proj"},
                                       {kQNorm, "*.self_attn.q_norm"},
                                       {kKNorm, "*.self_attn.k_norm"},
                                       {kAttnMix, "*.self_attn.o_proj.input"},
                                       {kAttnProj, "*.self_attn.o_proj"},
                                       {kResidMid, "*.post_attention_layernorm.input"},
                                       {kMlpNorm, "*.post_attention_layernorm"},
                                       {kMlpGate, "*.mlp.gate_proj"},
                                       {kMlpValue, "*.mlp.up_proj"},
                                       {kMlpPre, "*.mlp.up_proj"},
                                       {kMlpAct, "*.mlp.act_fn"},
                                       {kMlpHidden, "*.mlp.down_proj.input"},
                                       {kMlpProj, "*.mlp.down_proj"},
                                       {kResidPost, "*"},
                                       {kFinalNorm, "model.norm"},
                                       {kHead, "lm_head"}};
constexpr SiteName kSharedHooks[] = {{kTokenEmbed, "hook_embed"},
                                     {kPosEmbed, "hook_pos_embed"},
                                     {kResidPre, "*.hook_resid_pre"},
                                     {kQ, "*.attn.hook_q"},
                                     {kK, "*.attn.hook_k"},
                                     {kV, "*.attn.hook_v"},
                                     {kQRot, "*.attn.hook_rot_q"},
                                     {kKRot, "*.attn.hook_rot_k"},
                                     {kScores, "*.attn.hook_attn_scores"},
                                     {kPattern, "*.attn.hook_pattern"},
                                     {kAttnMix, "*.attn.hook_z"},
                                     {kAttnOut, "*.hook_attn_out"},
                                     {kResidMid, "*.hook_resid_mid"},
                                     {kMlpGate, "*.mlp.hook_pre"},
                                     {kMlpValue, "*.mlp.hook_pre_linear"},
                                     {kMlpPre, "*.mlp.hook_pre"},
                                     {kMlpHidden, "*.mlp.hook_post"},
                                     {kMlpOut, "*.hook_mlp_out"},
                                     {kResidPost, "*.hook_resid_post"}};
// kq is not scaled, and few architectures name the product with the output weights.
constexpr SiteName kSharedNodes[] = {{kTokenEmbed, "embd"},
                                     {kPosEmbed, "pos_embd"},
                                     {kAttnNorm, "attn_norm-%"},
                                     {kQ, "Qcur-%"},
                                     {kK, "Kcur-%"},
                                     {kV, "Vcur-%"},
                                     {kQNorm, "Qcur_normed-%"},
                                     {kKNorm, "Kcur_normed-%"},
                                     {kQRot, "Qcur-%"},
                                     {kKRot, "Kcur-%"},
                                     {kPattern, "kq_soft_max-%"},
                                     {kAttnMix, "kqv_out-%"},
                                     {kResidMid, "ffn_inp-%"},
                                     {kMlpNorm, "ffn_norm-%"},
                                     {kMlpGate, "ffn_gate-%"},
                                     {kMlpValue, "ffn_up-%"},
                                     {kMlpPre, "ffn_up-%"},
                                     {kMlpHidden, "ffn_swiglu-%"},
                                     {kMlpProj, "ffn_out-%"},
                                     {kResidPost, "l_out-%"},
                                     {kFinalNorm, "result_norm"},
                                     {kLogits, "result_output"}};
constexpr SiteName kSharedBridge[] = {
    {kTokenEmbed, "embed"},    {kPosEmbed, "pos_embed"},  {kAttnNorm, "*.ln1"},
    {kQ, "*.attn.q"},          {kK, "*.attn.k"},          {kV, "*.attn.v"},
    {kQNorm, "*.attn.q_norm"}, {kKNorm, "*.attn.k_norm"}, {kAttnProj, "*.attn.o"},
    {kMlpNorm, "*.ln2"},       {kMlpGate, "*.mlp.gate"},  {kMlpValue, "*.mlp.in"},
    {kMlpPre, "*.mlp.in"},     {kMlpProj, "*.mlp.out"},   {kResidPost, "*"},
    {kFinalNorm, "ln_final"},  {kHead, "unembed"}};
constexpr SiteName kSharedMoreHooks[] = {{kQNorm, "*.attn.hook_q_normed"},
                                         {kKNorm, "*.attn.hook_k_normed"},
                                         {kAttnProj, "*.attn.hook_out"},
                                         {kMlpNorm, "*.mlp.hook_in"},
                                         {kMlpProj, "*.mlp.hook_out"}};
// Older versions had the gated product and its parts as nodes, and joined the heads in one.
constexpr SiteName kSharedMoreNodes[] = {
    {kTokenEmbed, "inp_embd"},      {kPattern, "kq_soft_max_ext-%"}, {kAttnMix, "kqv-%"},
    {kAttnMix, "kqv_merged-%"},     {kAttnMix, "kqv_merged_cont-%"}, {kAttnProj, "kqv_out-%"},
    {kMlpAct, "ffn_silu-%"},        {kMlpAct, "ffn_gelu-%"},         {kMlpAct, "ffn_relu-%"},
    {kMlpPre, "ffn_up_b-%"},        {kMlpGate, "ffn_gate_b-%"},      {kMlpValue, "ffn_up_b-%"},
    {kMlpHidden, "ffn_gate_par-%"}, {kMlpHidden, "ffn_swiglu-%"},    {kMlpHidden, "ffn_geglu-%"},
    {kMlpProj, "ffn_down-%"}};
constexpr FamilyNames kShared = {.family = "",
                                 .hugging_face = kSharedModules,
                                 .transformer_lens = kSharedHooks,
                                 .ggml = kSharedNodes,
                                 .bridge = kSharedBridge,
                                 .more_hooks = kSharedMoreHooks,
                                 .more_nodes = kSharedMoreNodes};

constexpr SiteName kLlamaNodes[] = {{kAttnProj, "attn_out-%"}};

constexpr SiteName kGpt2Modules[] = {{kTokenEmbed, "transformer.wte"},
                                     {kPosEmbed, "transformer.wpe"},
                                     {kEmbed, "transformer.drop"},
                                     {kAttnNorm, "*.ln_1"},
                                     {kQ, ""},  // c_attn holds all three
                                     {kK, ""},
                                     {kV, ""},
                                     {kAttnMix, "*.attn.c_proj.input"},
                                     {kAttnProj, "*.attn.c_proj"},
                                     {kResidMid, "*.ln_2.input"},
                                     {kMlpNorm, "*.ln_2"},
                                     {kMlpPre, "*.mlp.c_fc"},
                                     {kMlpAct, "*.mlp.act"},
                                     {kMlpHidden, "*.mlp.c_proj.input"},
                                     {kMlpProj, "*.mlp.c_proj"},
                                     {kFinalNorm, "transformer.ln_f"}};
constexpr SiteName kGpt2Nodes[] = {{kEmbed, "inpL"}};

constexpr SiteName kBertModules[] = {{kTokenEmbed, "bert.embeddings.word_embeddings"},
                                     {kPosEmbed, "bert.embeddings.position_embeddings"},
                                     {kTypeEmbed, "bert.embeddings.token_type_embeddings"},
                                     {kEmbedSum, "bert.embeddings.LayerNorm.input"},
                                     {kEmbed, "bert.embeddings.LayerNorm"},
                                     {kQ, "*.attention.self.query"},
                                     {kK, "*.attention.self.key"},
                                     {kV, "*.attention.self.value"},
                                     {kAttnMix, "*.attention.output.dense.input"},
                                     {kAttnProj, "*.attention.output.dense"},
                                     {kAttnSum, "*.attention.output.LayerNorm.input"},
                                     {kResidMid, "*.attention.output.LayerNorm"},
                                     {kMlpPre, "*.intermediate.dense"},
                                     {kMlpAct, "*.intermediate.intermediate_act_fn"},
                                     {kMlpHidden, "*.output.dense.input"},
                                     {kMlpProj, "*.output.dense"},
                                     {kMlpSum, "*.output.LayerNorm.input"},
                                     {kResidPost, "*.output.LayerNorm"},
                                     {kHeadProj, "cls.predictions.transform.dense"},
                                     {kHeadAct, "cls.predictions.transform.transform_act_fn"},
                                     {kHeadNorm, "cls.predictions.transform.LayerNorm"},
                                     {kHead, "cls.predictions.decoder"}};
// The stream's hooks stand before the norms here.
constexpr SiteName kBertHooks[] = {{kTokenEmbed, ""},
                                   {kPosEmbed, ""},
                                   {kAttnSum, "*.hook_resid_mid"},
                                   {kResidMid, ""},
                                   {kMlpSum, "*.hook_resid_post"},
                                   {kResidPost, "*.hook_normalized_resid_post"}};
constexpr SiteName kBertBridge[] = {{kResidMid, "*.ln1"}, {kResidPost, "*.ln2"}};
// The bridge gives the hooks of pre-norm blocks to what stands in their place.
constexpr SiteName kBertMoreHooks[] = {{kResidMid, "*.hook_attn_out"},
                                       {kMlpSum, "*.hook_resid_mid"},
                                       {kResidPost, "*.hook_out"},
                                       {kPattern, "*.attn.hook_attn_scores"}};
constexpr SiteName kBertNodes[] = {{kPosEmbed, ""},
                                   {kEmbedSum, "inp_embd"},
                                   {kEmbed, "inp_norm-0"},
                                   {kAttnMix, "kqv_out-%#CONT"},
                                   {kAttnProj, "kqv_out-%#ADD"},
                                   {kResidPost, ""}};

// Gemma's modules and hooks see the embedding with its scale.
constexpr SiteName kGemmaModules[] = {{kTokenEmbed, ""}, {kEmbed, "model.embed_tokens"}};
constexpr SiteName kGemmaHooks[] = {{kTokenEmbed, ""}, {kEmbed, "hook_embed"}};
constexpr SiteName kGemmaBridge[] = {{kTokenEmbed, ""}, {kEmbed, "embed"}};
constexpr SiteName kGemma2Bridge[] = {
    {kTokenEmbed, ""}, {kEmbed, "embed"}, {kAttnOut, "*.ln1_post"}, {kMlpOut, "*.ln2_post"}};
constexpr SiteName kGemmaNodes[] = {
    {kEmbed, "inp_scaled"}, {kScores, "kq-%"}, {kResidMid, "sa_out-%"}};
constexpr SiteName kGemma2Modules[] = {{kTokenEmbed, ""},
                                       {kEmbed, "model.embed_tokens"},
                                       {kAttnOut, "*.post_attention_layernorm"},
                                       {kResidMid, "*.pre_feedforward_layernorm.input"},
                                       {kMlpNorm, "*.pre_feedforward_layernorm"},
                                       {kMlpOut, "*.post_feedforward_layernorm"}};
// ffn_post_norm has no number here and in OLMo 2.
constexpr SiteName kGemma2Nodes[] = {{kEmbed, "inp_scaled"},
                                     {kScores, "kq_scaled_2-%"},
                                     {kAttnOut, "attn_post_norm-%"},
                                     {kResidMid, "sa_out-%"}};
constexpr SiteName kGemma3Nodes[] = {{kEmbed, "inp_scaled"},
                                     {kScores, "kq-%"},
                                     {kAttnOut, "attn_post_norm-%"},
                                     {kResidMid, "sa_out-%"},
                                     {kMlpOut, "ffn_post_norm-%"}};

constexpr SiteName kOlmo2Modules[] = {{kMlpNorm, ""},
                                      {kAttnOut, "*.post_attention_layernorm"},
                                      {kResidMid, "*.mlp.gate_proj.input"},
                                      {kMlpOut, "*.post_feedforward_layernorm"}};
constexpr SiteName kOlmo2Bridge[] = {{kAttnOut, "*.ln1"}, {kMlpOut, "*.ln2"}};
constexpr SiteName kOlmo2Nodes[] = {{kAttnOut, "attn_post_norm-%"}};

constexpr SiteName kPhiModules[] = {{kQNorm, "*.self_attn.q_layernorm"},
                                    {kKNorm, "*.self_attn.k_layernorm"},
                                    {kAttnMix, "*.self_attn.dense.input"},
                                    {kAttnProj, "*.self_attn.dense"},
                                    {kMlpPre, "*.mlp.fc1"},
                                    {kMlpAct, "*.mlp.activation_fn"},
                                    {kMlpHidden, "*.mlp.fc2.input"},
                                    {kMlpProj, "*.mlp.fc2"},
                                    {kFinalNorm, "model.final_layernorm"}};
constexpr SiteName kPhiNodes[] = {{kQNorm, ""}, {kKNorm, ""}, {kScores, "kq-%"}};

constexpr SiteName kPhi3Modules[] = {
    {kQ, ""},  // qkv_proj holds all three, gate_up_proj both
    {kK, ""}, {kV, ""}, {kMlpGate, ""}, {kMlpValue, ""}, {kMlpAct, "*.mlp.activation_fn"}};
constexpr SiteName kPhi3Nodes[] = {{kMlpGate, ""}, {kMlpValue, ""}};

constexpr SiteName kNeoxModules[] = {{kTokenEmbed, "gpt_neox.embed_in"},
                                     {kQ, ""},  // query_key_value holds all three
                                     {kK, ""},
                                     {kV, ""},
                                     {kAttnMix, "*.attention.dense.input"},
                                     {kAttnProj, "*.attention.dense"},
                                     {kMlpPre, "*.mlp.dense_h_to_4h"},
                                     {kMlpAct, "*.mlp.act"},
                                     {kMlpHidden, "*.mlp.dense_4h_to_h.input"},
                                     {kMlpProj, "*.mlp.dense_4h_to_h"},
                                     {kFinalNorm, "gpt_neox.final_layer_norm"}};

constexpr SiteName kStarcoder2Modules[] = {{kMlpPre, "*.mlp.c_fc"},
                                           {kMlpAct, "*.mlp.act"},
                                           {kMlpHidden, "*.mlp.c_proj.input"},
                                           {kMlpProj, "*.mlp.c_proj"}};

constexpr SiteName kGptjModules[] = {{kTokenEmbed, "transformer.wte"},
                                     {kAttnNorm, "*.ln_1"},
                                     {kQ, "*.attn.q_proj"},
                                     {kK, "*.attn.k_proj"},
                                     {kV, "*.attn.v_proj"},
                                     {kAttnMix, "*.attn.out_proj.input"},
                                     {kAttnProj, "*.attn.out_proj"},
                                     {kMlpPre, "*.mlp.fc_in"},
                                     {kMlpAct, "*.mlp.act"},
                                     {kMlpHidden, "*.mlp.fc_out.input"},
                                     {kMlpProj, "*.mlp.fc_out"},
                                     {kFinalNorm, "transformer.ln_f"}};

// Their attention hands out the pattern in the place of the scores.
constexpr SiteName kPatternHooks[] = {{kPattern, "*.attn.hook_attn_scores"}};

constexpr SiteName kOptModules[] = {{kTokenEmbed, "model.decoder.embed_tokens"},
                                    {kPosEmbed, "model.decoder.embed_positions"},
                                    {kAttnNorm, "*.self_attn_layer_norm"},
                                    {kAttnMix, "*.self_attn.out_proj.input"},
                                    {kAttnProj, "*.self_attn.out_proj"},
                                    {kResidMid, "*.final_layer_norm.input"},
                                    {kMlpNorm, "*.final_layer_norm"},
                                    {kMlpPre, "*.fc1"},
                                    {kMlpAct, "*.activation_fn"},
                                    {kMlpHidden, "*.fc2.input"},
                                    {kMlpProj, "*.fc2"},
                                    {kFinalNorm, "model.decoder.final_layer_norm"},
                                    {kHeadProj, "model.decoder.project_out"}};
constexpr SiteName kOptPostNormModules[] = {{kAttnSum, "*.self_attn_layer_norm.input"},
                                            {kResidMid, "*.self_attn_layer_norm"},
                                            {kMlpSum, "*.final_layer_norm.input"},
                                            {kResidPost, "*.final_layer_norm"}};

constexpr SiteName kFalconModules[] = {{kTokenEmbed, "transformer.word_embeddings"},
                                       {kQ, ""},  // query_key_value holds all three
                                       {kK, ""},
                                       {kV, ""},
                                       {kAttnMix, "*.self_attention.dense.input"},
                                       {kAttnProj, "*.self_attention.dense"},
                                       {kMlpPre, "*.mlp.dense_h_to_4h"},
                                       {kMlpAct, "*.mlp.act"},
                                       {kMlpHidden, "*.mlp.dense_4h_to_h.input"},
                                       {kMlpProj, "*.mlp.dense_4h_to_h"},
                                       {kFinalNorm, "transformer.ln_f"}};
constexpr SiteName kFalconTwoNormsModules[] = {{kAttnNorm, "*.ln_attn"}, {kMlpNorm, "*.ln_mlp"}};
// Not a slip: llama.cpp's attn_norm is the norm of the MLP.
constexpr SiteName kFalconTwoNormsNodes[] = {{kAttnNorm, "attn_norm_2-%"},
                                             {kMlpNorm, "attn_norm-%"}};

constexpr SiteName kStablelmModules[] = {{kQNorm, "*.self_attn.q_layernorm"},
                                         {kKNorm, "*.self_attn.k_layernorm"}};
constexpr SiteName kStablelmNodes[] = {{kQNorm, "Qcur-%#MUL"}, {kKNorm, "Kcur-%#MUL"}};

constexpr SiteName kCohereNodes[] = {{kQNorm, ""}, {kKNorm, ""}};

constexpr SiteName kMarianModules[] = {{kTokenEmbed, "model.@.embed_tokens"},
                                       {kPosEmbed, "model.@.embed_positions"},
                                       {kAttnMix, "*.self_attn.out_proj.input"},
                                       {kAttnProj, "*.self_attn.out_proj"},
                                       {kAttnSum, "*.self_attn_layer_norm.input"},
                                       {kCrossResidPre, "*.self_attn_layer_norm"},
                                       {kCrossQ, "*.encoder_attn.q_proj"},
                                       {kCrossK, "*.encoder_attn.k_proj"},
                                       {kCrossV, "*.encoder_attn.v_proj"},
                                       {kCrossAttnMix, "*.encoder_attn.out_proj.input"},
                                       {kCrossAttnProj, "*.encoder_attn.out_proj"},
                                       {kCrossAttnSum, "*.encoder_attn_layer_norm.input"},
                                       {kResidMid, "*.encoder_attn_layer_norm"},
                                       {kMlpPre, "*.fc1"},
                                       {kMlpAct, "*.activation_fn"},
                                       {kMlpHidden, "*.fc2.input"},
                                       {kMlpProj, "*.fc2"},
                                       {kMlpSum, "*.final_layer_norm.input"},
                                       {kResidPost, "*.final_layer_norm"},
                                       {kHead, ""}};  // lm_head is without final_logits_bias
constexpr SiteName kMarianEncoderModules[] = {{kResidMid, "*.self_attn_layer_norm"}};

constexpr std::array kFamilies = {
    FamilyNames{.family = "llama", .ggml = kLlamaNodes},
    FamilyNames{.family = "mistral", .ggml = kLlamaNodes},  // the same architecture there
    FamilyNames{.family = "gpt2",
                .block = "transformer.h.%",
                .hugging_face = kGpt2Modules,
                .ggml = kGpt2Nodes,
                .fused_qkv = true},
    FamilyNames{.family = "gpt3",
                .block = "transformer.h.%",
                .hugging_face = kGpt2Modules,
                .ggml = kGpt2Nodes,
                .fused_qkv = true},
    FamilyNames{.family = "bert",
                .block = "bert.encoder.layer.%",
                .hugging_face = kBertModules,
                .transformer_lens = kBertHooks,
                .ggml = kBertNodes,
                .bridge = kBertBridge,
                .more_hooks = kBertMoreHooks},
    FamilyNames{.family = "gemma",
                .hugging_face = kGemmaModules,
                .transformer_lens = kGemmaHooks,
                .ggml = kGemmaNodes,
                .bridge = kGemmaBridge},
    FamilyNames{.family = "gemma2",
                .hugging_face = kGemma2Modules,
                .transformer_lens = kGemmaHooks,
                .ggml = kGemma2Nodes,
                .bridge = kGemma2Bridge},
    FamilyNames{.family = "gemma3",
                .hugging_face = kGemma2Modules,
                .transformer_lens = kGemmaHooks,
                .ggml = kGemma3Nodes,
                .bridge = kGemma2Bridge},
    FamilyNames{.family = "olmo2",
                .hugging_face = kOlmo2Modules,
                .ggml = kOlmo2Nodes,
                .bridge = kOlmo2Bridge},
    FamilyNames{.family = "phi", .hugging_face = kPhiModules, .ggml = kPhiNodes},
    FamilyNames{
        .family = "phi3", .hugging_face = kPhi3Modules, .ggml = kPhi3Nodes, .fused_qkv = true},
    FamilyNames{.family = "gpt_neox",
                .block = "gpt_neox.layers.%",
                .hugging_face = kNeoxModules,
                .fused_qkv = true},
    FamilyNames{
        .family = "starcoder2", .hugging_face = kStarcoder2Modules, .in_transformer_lens = false},
    FamilyNames{.family = "olmo", .in_transformer_lens = false},
    FamilyNames{.family = "gptj",
                .block = "transformer.h.%",
                .hugging_face = kGptjModules,
                .more_hooks = kPatternHooks,
                .in_ggml = false},
    FamilyNames{.family = "opt",
                .block = "model.decoder.layers.%",
                .hugging_face = kOptModules,
                .more_hooks = kPatternHooks,
                .in_ggml = false},
    FamilyNames{.family = "opt, post-norm", .hugging_face = kOptPostNormModules},
    FamilyNames{.family = "falcon",
                .block = "transformer.h.%",
                .hugging_face = kFalconModules,
                .fused_qkv = true},
    FamilyNames{.family = "falcon, two norms",
                .hugging_face = kFalconTwoNormsModules,
                .ggml = kFalconTwoNormsNodes},
    FamilyNames{.family = "stablelm", .hugging_face = kStablelmModules, .ggml = kStablelmNodes},
    FamilyNames{.family = "cohere", .ggml = kCohereNodes},
    FamilyNames{
        .family = "palm", .in_hugging_face = false, .in_transformer_lens = false, .in_ggml = false},
    FamilyNames{.family = "marian",
                .block = "model.@.layers.%",
                .hugging_face = kMarianModules,
                .in_transformer_lens = false,
                .in_ggml = false},
    FamilyNames{.family = "marian, encoder", .hugging_face = kMarianEncoderModules},
    FamilyNames{.family = "torch_transformer",
                .in_hugging_face = false,
                .in_transformer_lens = false,
                .in_ggml = false},
};

}  // namespace

const FamilyNames& shared_names() { return kShared; }

const FamilyNames* family_names(std::string_view family) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const FamilyNames& each) { return each.family == family; });
  return found == kFamilies.end() ? nullptr : found;
}

}  // namespace mainstem
