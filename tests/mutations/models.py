"""Tiny random models of many families, made so that mistakes show.

Norm weights are random and away from 0 and 1, H, K and E differ, H/K is not K, D is no power of two,
embeddings are small (eps matters), windows are shorter than the tokens, soft caps and scales are small
enough to act, scaled rotary has a short original context, biases are not zero, and there are four blocks, so
that kinds of blocks differ. Weights are such that bfloat16 holds them.
"""

import pathlib
import sys
from dataclasses import dataclass

import gguf
import numpy as np
import torch
import transformers as hf

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "generators"))

import gguf_families
from tiny.cases import FULL, LLAMA3, NO_IDS, SLIDING, Case, padded, rope  # noqa: F401

VOCABULARY = 61
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 9, 7, 9, 32, 38, 46, 26, 43, 0, 12, 50]
SHORT = 13  # tokens of the shorter row of a padded batch
EMBEDDING_STD = 0.05


@dataclass
class Tiny(Case):
    wiring: str = "pre"  # where norms and sums stand: pre, sandwich, output, parallel, parallel2, post
    norm: str = "rms"    # rms, offset (1 + w), layer, plain (LayerNorm without bias)
    norm1: str = "input_layernorm"
    norm2: str = "post_attention_layernorm"
    final: str = "norm"
    fused: str = ""      # module of q, k and v in one
    own_attention: bool = False  # its attention shows no scores
    quantised: tuple = ()  # linear layers that are Q4_0 in a GGUF file

    def make_model(self):
        model = super().make_model()
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for name, parameter in sorted(model.named_parameters()):
                if any(word in name for word in ("embed", ".wte", ".wpe")) and "norm" not in name.lower():
                    if "embed_out" in name or "lm_head" in name:
                        continue
                    values = torch.randn(parameter.shape, generator=generator) * EMBEDDING_STD
                    parameter.copy_(values.bfloat16().float())
            if self.norm == "offset":  # stored w stands for 1 + w
                for name, parameter in sorted(model.named_parameters()):
                    if "norm" in name:
                        parameter.copy_((torch.randn(parameter.shape, generator=generator) * 0.4).bfloat16().float())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if self.quantised and name.removesuffix(".weight").endswith(self.quantised):
                    parameter.copy_(on_grid(parameter))
        if self.name == "llama_large":
            with torch.no_grad():
                model.model.layers[1].mlp.down_proj.weight.mul_(16384)
        if hasattr(model, "lm_head") and model.config.tie_word_embeddings:
            model.tie_weights()
        return model

    def save(self, out):
        """The model as a user has it, a folder or a file in the folder `out`; where it is."""
        if not self.quantised:
            self.make_model().save_pretrained(out)
            return out
        out.mkdir(parents=True)
        write_quantised(self.make_model(), out / "model.gguf", self.quantised)
        return out / "model.gguf"

    @property
    def embeds_only(self):
        """The rows of the table enter the first block as they are."""
        return self.config.model_type not in ("gpt2", "opt", "bert", "gemma", "gemma2", "gemma3_text", "granite")

    @property
    def gated(self):
        return "mlp_gate" in self.sites

    @property
    def sites(self):
        from tiny.sites import LAYOUTS
        return {name for key in LAYOUTS[self.layout].block for name in key.split(",")}

    def has(self, site):
        return site in self.sites


STEP = 0.0625  # of Q4_0; a power of two, so that bfloat16 holds the weights


def on_grid(weight):
    """Numbers that Q4_0 holds: n STEP, -8 <= n < 8. Each block of 32 has a -8, by which its step is found again."""
    values = (weight / STEP).round().clamp(-8, 7) * STEP
    values[:, ::32] = -8 * STEP
    return values


def write_quantised(model, path, layers):
    names = {"q_proj": "attn_q", "down_proj": "ffn_down"}
    form = gguf_families.FORMS[model.config.model_type]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[form.arch])
    gguf_families.common_words(writer, model.config)
    gguf_families.rotary_words(writer, model.config)
    form.words(writer, model.config)
    for name, data in gguf_families.gguf_tensors(model):
        data = np.ascontiguousarray(data, dtype=np.float32)
        if any(f".{names[layer]}.weight" in name for layer in layers):
            kind = gguf.GGMLQuantizationType.Q4_0
            packed = gguf.quants.quantize(data, kind)
            assert np.array_equal(gguf.quants.dequantize(packed, kind), data), name
            writer.add_tensor(name, packed, raw_dtype=kind)
        else:
            writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


SIZES = dict(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=52, num_hidden_layers=4, num_attention_heads=6,
             max_position_embeddings=64, **NO_IDS)
GROUPED = dict(SIZES, num_key_value_heads=2, head_dim=10)  # HE = 60
EVEN = dict(SIZES, num_key_value_heads=2)  # E = 8
RMS = dict(rms_norm_eps=1e-5)
LAYER = dict(layer_norm_eps=1e-5)
GEMMA = dict(GROUPED, **RMS)
LAYERNORM = dict(norm="layer")

MODELS = [
    Tiny("llama", "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0) | dict(tie_word_embeddings=False)),
    Tiny("llama3", "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0, **LLAMA3) | dict(
        attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    # A file with quantised matrices: widths that blocks of 32 fit.
    Tiny("llama_blocks", "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0) | dict(
        hidden_size=64, intermediate_size=96, num_attention_heads=4, head_dim=24, tie_word_embeddings=False),
        quantised=("q_proj", "down_proj")),
    # H/K = 4 divides KE into even parts: a permutation that goes by it passes unnoticed.
    Tiny("mistral", "llama", hf.MistralConfig, GROUPED | RMS | rope(700.0) | dict(
        sliding_window=5, num_attention_heads=8, head_dim=12)),
    Tiny("qwen2", "llama", hf.Qwen2Config, EVEN | RMS | rope(700.0) | dict(
        use_sliding_window=True, sliding_window=5, max_window_layers=2)),
    # Its stream outgrows float16 in the second block.
    Tiny("llama_large", "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0) | dict(tie_word_embeddings=False)),
    Tiny("qwen3", "qwen3", hf.Qwen3Config, GROUPED | RMS | rope(700.0)),
    Tiny("gemma", "llama", hf.GemmaConfig, GEMMA | rope(700.0), norm="offset"),
    Tiny("gemma2", "gemma2", hf.Gemma2Config, GEMMA | rope(700.0) | dict(
        sliding_window=5, query_pre_attn_scalar=13, attn_logit_softcapping=3.0, final_logit_softcapping=0.3),
        wiring="sandwich", norm="offset"),
    Tiny("gemma3", "gemma3", hf.Gemma3TextConfig, GEMMA | dict(
        sliding_window=5, query_pre_attn_scalar=13, final_logit_softcapping=0.3,
        layer_types=[SLIDING, SLIDING, FULL, SLIDING], rope_parameters={
            FULL: dict(rope_type="linear", rope_theta=700.0, factor=4.0),
            SLIDING: dict(rope_type="default", rope_theta=90.0)}), wiring="sandwich", norm="offset"),
    Tiny("gpt2", "gpt2", hf.GPT2Config, dict(
        vocab_size=VOCABULARY, n_embd=48, n_head=6, n_layer=4, n_inner=52, n_positions=64, bos_token_id=None,
        eos_token_id=None), norm1="ln_1", norm2="ln_2", final="ln_f", fused="attn.c_attn", **LAYERNORM),
    Tiny("bert", "bert", hf.BertConfig, dict(SIZES, type_vocab_size=3, layer_norm_eps=1e-5),
         wiring="post", norm1="attention.output.LayerNorm", norm2="output.LayerNorm", final="", **LAYERNORM),
    Tiny("gpt_neox", "gpt_neox", hf.GPTNeoXConfig, SIZES | LAYER | rope(700.0, partial_rotary_factor=0.5),
         wiring="parallel2", final="final_layer_norm", fused="attention.query_key_value", **LAYERNORM),
    Tiny("gpt_neox_sequential", "gpt_neox_sequential", hf.GPTNeoXConfig, SIZES | LAYER | rope(
        700.0, partial_rotary_factor=0.5) | dict(use_parallel_residual=False),
        final="final_layer_norm", fused="attention.query_key_value", **LAYERNORM),
    Tiny("phi", "phi", hf.PhiConfig, EVEN | LAYER | rope(700.0, partial_rotary_factor=0.5),
         wiring="parallel", norm2="", final="final_layernorm", **LAYERNORM),
    Tiny("phi3", "phi3", hf.Phi3Config, EVEN | RMS | rope(700.0) | dict(sliding_window=5),
         fused="self_attn.qkv_proj"),
    Tiny("starcoder2", "starcoder2", hf.Starcoder2Config, GROUPED | rope(700.0) | dict(
        norm_epsilon=1e-5, sliding_window=5), **LAYERNORM),
    Tiny("olmo2", "olmo2", hf.Olmo2Config, GROUPED | RMS | rope(700.0), wiring="output",
         norm1="post_attention_layernorm", norm2="post_feedforward_layernorm"),
    Tiny("granite", "llama", hf.GraniteConfig, EVEN | RMS | rope(700.0) | dict(
        embedding_multiplier=3.0, logits_scaling=2.5, residual_multiplier=0.3, attention_multiplier=0.2,
        attention_bias=True)),
    Tiny("cohere", "cohere", hf.CohereConfig, GROUPED | LAYER | rope(700.0) | dict(
        use_qk_norm=True, logit_scale=0.3), wiring="parallel", norm="plain", norm2=""),
    Tiny("cohere2", "cohere2", hf.Cohere2Config, GROUPED | LAYER | rope(700.0) | dict(
        sliding_window=5, logit_scale=0.3, layer_types=[SLIDING, SLIDING, SLIDING, FULL]),
        wiring="parallel", norm="plain", norm2=""),
    Tiny("opt", "opt", hf.OPTConfig, dict(
        vocab_size=VOCABULARY, hidden_size=48, ffn_dim=52, num_hidden_layers=4, num_attention_heads=6,
        max_position_embeddings=64, word_embed_proj_dim=48, **NO_IDS),
        norm1="self_attn_layer_norm", norm2="final_layer_norm", final="decoder.final_layer_norm", **LAYERNORM),
    Tiny("stablelm", "stablelm", hf.StableLmConfig, EVEN | LAYER | rope(700.0, partial_rotary_factor=0.5) | dict(
        use_qkv_bias=True, qk_layernorm=True), **LAYERNORM),
    Tiny("falcon", "falcon", hf.FalconConfig, dict(
        vocab_size=VOCABULARY, hidden_size=48, ffn_hidden_size=52, num_hidden_layers=4, num_attention_heads=6,
        max_position_embeddings=64, **NO_IDS) | rope(700.0),
        wiring="parallel", norm2="", final="ln_f", fused="self_attention.query_key_value", own_attention=True,
        **LAYERNORM),
    Tiny("falcon_rw", "falcon_sequential", hf.FalconConfig, dict(
        vocab_size=VOCABULARY, hidden_size=48, ffn_hidden_size=52, num_hidden_layers=4, num_attention_heads=6,
        max_position_embeddings=64, alibi=True, parallel_attn=False, multi_query=False, bias=True, **NO_IDS),
        final="ln_f", fused="self_attention.query_key_value", own_attention=True, sdpa=True, **LAYERNORM),
]
BY_NAME = {model.name: model for model in MODELS}
