"""Tiny models beside those of tests/mutations: what single reports need."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mutations"))

import torch
import transformers as hf

import models
from models import EVEN, FULL, GEMMA, GROUPED, LAYER, LAYERNORM, RMS, SLIDING, Tiny, rope

LONGROPE = dict(rope_type="longrope", short_factor=[1.0, 1.2, 1.5, 2.0], long_factor=[1.5, 3.0, 5.0, 7.0],
                original_max_position_embeddings=64)


class LargeStream(Tiny):
    """No sub-layer's output passes float16's 65504; a sum of the stream does."""

    def make_model(self):
        model = super().make_model()
        with torch.no_grad():
            model.model.embed_tokens.weight.mul_(32768)  # a power of two: bfloat16 holds it
            for block in model.model.layers:
                block.post_attention_layernorm.weight.mul_(16384)
                block.post_feedforward_layernorm.weight.mul_(16384)
            model.tie_weights()
        return model


class LargeScores(Tiny):
    """Scores many times the soft cap."""

    def make_model(self):
        model = super().make_model()
        with torch.no_grad():
            for block in model.model.layers:
                block.self_attn.q_proj.weight.mul_(8)
        return model


def gemma2(kind, name, scalar):
    return kind(name, "gemma2", hf.Gemma2Config, GEMMA | rope(700.0) | dict(
        sliding_window=5, query_pre_attn_scalar=scalar, attn_logit_softcapping=3.0, final_logit_softcapping=0.3),
        wiring="sandwich", norm="offset")


MORE = [
    Tiny("llama1", "llama", hf.LlamaConfig, GROUPED | dict(rms_norm_eps=1e-6) | rope(700.0)),
    # KE is a multiple of H: a matrix of k that is taken for one of H heads passes every shape check.
    Tiny("llama_wide_keys", "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0) | dict(
        num_attention_heads=8, head_dim=16)),
    Tiny("llama_dynamic", "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0, rope_type="dynamic", factor=2.0)),
    # The text is longer than the original context.
    Tiny("llama_dynamic_short", "llama", hf.LlamaConfig, GROUPED | RMS | rope(
        700.0, rope_type="dynamic", factor=2.0) | dict(max_position_embeddings=16)),
    Tiny("phi3_longrope", "phi3", hf.Phi3Config, EVEN | RMS | rope(700.0, **LONGROPE) | dict(
        max_position_embeddings=256, original_max_position_embeddings=64), fused="self_attn.qkv_proj"),
    # The exception among its sizes: scores go by D/H, not by E.
    gemma2(Tiny, "gemma2_27b", 8),
    # Every size but one has scores by E.
    gemma2(Tiny, "gemma2_9b", 10),
    # A soft cap of scores in the config, which transformers keeps and never applies.
    Tiny("gemma3_capped", "gemma3", hf.Gemma3TextConfig, GEMMA | dict(
        sliding_window=5, query_pre_attn_scalar=13, attn_logit_softcapping=3.0,
        layer_types=[SLIDING, SLIDING, FULL, SLIDING], rope_parameters={
            FULL: dict(rope_type="linear", rope_theta=700.0, factor=4.0),
            SLIDING: dict(rope_type="default", rope_theta=90.0)}), wiring="sandwich", norm="offset"),
    LargeStream("gemma3_large", "gemma3", hf.Gemma3TextConfig, GEMMA | dict(
        sliding_window=5, query_pre_attn_scalar=13, layer_types=[SLIDING, SLIDING, FULL, SLIDING], rope_parameters={
            FULL: dict(rope_type="default", rope_theta=700.0), SLIDING: dict(rope_type="default", rope_theta=90.0)}),
        wiring="sandwich", norm="offset"),
    gemma2(LargeScores, "gemma2_large_scores", 13),
    # TransformerLens knows it without norms of q and k only.
    Tiny("cohere_plain", "cohere", hf.CohereConfig, GROUPED | LAYER | rope(700.0) | dict(logit_scale=0.3),
         wiring="parallel", norm="plain", norm2=""),
    Tiny("falcon_groups", "falcon_groups", hf.FalconConfig, dict(
        vocab_size=models.VOCABULARY, hidden_size=48, ffn_hidden_size=52, num_hidden_layers=4, num_attention_heads=6,
        num_kv_heads=2, new_decoder_architecture=True, max_position_embeddings=64, **models.NO_IDS) | rope(700.0),
        wiring="parallel2", norm1="ln_attn", norm2="ln_mlp", final="ln_f", fused="self_attention.query_key_value",
        own_attention=True, **LAYERNORM),
    # ALiBi by transformers' own eager attention.
    Tiny("falcon_rw_eager", "falcon_sequential", hf.FalconConfig, dict(
        vocab_size=models.VOCABULARY, hidden_size=48, ffn_hidden_size=52, num_hidden_layers=4, num_attention_heads=6,
        max_position_embeddings=64, alibi=True, parallel_attn=False, multi_query=False, bias=True, **models.NO_IDS),
        final="ln_f", fused="self_attention.query_key_value", own_attention=True, **LAYERNORM),
]
models.BY_NAME.update({tiny.name: tiny for tiny in MORE})


def tiny(name):
    return models.BY_NAME[name]
