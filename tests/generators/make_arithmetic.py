#!/usr/bin/env python3
"""Tiny models as PyTorch runs them in float32, bfloat16 and float16: what a sound implementation's
rounding looks like at every step.

    python tests/generators/make_arithmetic.py [--out FOLDER] [--large]

writes tests/golden/arithmetic/FAMILY/: config.json, model.safetensors (bfloat16, so that all runs
have the same weights) and, for each type, TYPE.safetensors with every site of an eager run and
TYPE.sdpa.safetensors with q, k, v and attn_mix of one with torch's own attention. Values are kept in
the run's own type. --large makes wider models with more blocks and tokens, for trying things out.

Needs torch==2.13.0, transformers==5.24.0, safetensors==0.8.0. The same files come out of every run on
one kind of processor; another may round a few last bits differently, as the tests allow.
"""

import argparse
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import (Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig,
                          GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM)

from tiny.sites import LAYOUTS, Recorder, sizes_of

SEED = 20240608
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def small(large):
    return dict(vocab_size=32, hidden_size=96 if large else 48, num_attention_heads=6, head_dim=8,
                num_hidden_layers=3 if large else 1, intermediate_size=120 if large else 40,
                bos_token_id=1, eos_token_id=2, max_position_embeddings=256, tie_word_embeddings=False)


def llama(large):
    sizes = small(large) | dict(num_key_value_heads=2, rms_norm_eps=1e-5)
    return LlamaForCausalLM, LlamaConfig(**sizes, rope_parameters=dict(rope_type="default", rope_theta=700.0))


def gemma2(large):
    sizes = small(large) | dict(num_key_value_heads=2, query_pre_attn_scalar=12, attn_logit_softcapping=3.0,
                                final_logit_softcapping=5.0, sliding_window=5)
    return Gemma2ForCausalLM, Gemma2Config(**sizes)


def gpt2(large):
    sizes = small(large)
    config = GPT2Config(vocab_size=32, n_embd=sizes["hidden_size"], n_head=6, n_layer=sizes["num_hidden_layers"],
                        n_inner=sizes["intermediate_size"], n_positions=64, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel, config


def gpt_neox(large):
    sizes = small(large)
    del sizes["head_dim"]
    return GPTNeoXForCausalLM, GPTNeoXConfig(**sizes, hidden_act="gelu", use_parallel_residual=True)


FAMILIES = {"llama": llama, "gemma2": gemma2, "gpt2": gpt2, "gpt_neox": gpt_neox}
COMMITTED = ("llama", "gpt2")


def weights_of(model):
    torch.manual_seed(SEED)
    weights = {}
    for name, parameter in sorted(model.state_dict().items()):
        if parameter.dim() == 1 and "bias" not in name:  # norms
            values = torch.rand(parameter.shape) + 0.5
        elif parameter.dim() == 1:
            values = torch.randn(parameter.shape) * 0.3
        elif "embed" in name or "wte" in name or "wpe" in name:
            values = torch.randn(parameter.shape)
        else:
            inputs = parameter.shape[0] if "c_" in name else parameter.shape[-1]
            values = torch.randn(parameter.shape) * 1.5 / inputs**0.5
        weights[name] = values.bfloat16().contiguous()
    return weights


@torch.no_grad()
def run(make, weights, family, dtype, attention, tokens):
    kind, config = make
    config._attn_implementation = attention
    model = kind(config).to(dtype).eval()
    missing, unexpected = model.load_state_dict({n: v.to(dtype) for n, v in weights.items()}, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    with Recorder(model, LAYOUTS[family], sizes_of(config, tokens.shape[1])) as recorder:
        logits = model(input_ids=tokens).logits
    recorder.complete(tokens)
    return recorder.values | {"logits": logits}


def make(folder, families, large):
    for family in families:
        kind, config = FAMILIES[family](large)
        config.architectures = [kind.__name__]
        config.dtype = "bfloat16"
        out = folder / family
        out.mkdir(parents=True, exist_ok=True)
        weights = weights_of(kind(config))
        tied = getattr(config, "tie_word_embeddings", False)
        if tied:
            weights.pop("lm_head.weight", None)
        save_file(weights, out / "model.safetensors")
        config.save_pretrained(out)
        torch.manual_seed(SEED)
        tokens = torch.randint(0, 32, (1, 60 if large else 6))
        for name, dtype in TYPES.items():
            values = run(FAMILIES[family](large), weights, family, dtype, "eager", tokens)
            second = (".attn_out", ".mlp_out") if family != "gemma2" else ()
            kept = {site: value.contiguous().clone() for site, value in values.items() if not site.endswith(second)}
            save_file(kept | {"tokens": tokens}, out / f"{name}.safetensors")
            if family == "gemma2":
                continue  # sdpa has no soft cap
            values = run(FAMILIES[family](large), weights, family, dtype, "sdpa", tokens)
            kept = {site: value.contiguous().clone() for site, value in values.items()
                    if site.endswith((".q", ".k", ".v", ".attn_mix"))}
            save_file(kept | {"tokens": tokens}, out / f"{name}.sdpa.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    root = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("--out", type=pathlib.Path, default=root / "golden" / "arithmetic")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--families", nargs="*", default=COMMITTED, choices=list(FAMILIES))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    make(arguments.out, arguments.families, arguments.large)


if __name__ == "__main__":
    main()
