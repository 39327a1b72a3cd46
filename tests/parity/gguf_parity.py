#!/usr/bin/env python3
"""Tiny random models of every family in their GGUF form, compared at every step.

    python tests/parity/gguf_parity.py --mainstem build/dev/src/mainstem [CASE...]

The models are those of tests/generators/tiny, the files what tests/generators/gguf_families.py makes of them.
For each: every step of `trace` in float32 and in double against transformers, and from a file in parts. Where
llama-cpp-python is there, its logits too (for BERT the last stream), from the same file.

GGUF says less than config.json. What it cannot say is changed in the case before both sides see it (CHANGES).
Words are float32 in GGUF, so numbers are such that float32 holds them; ROUNDED names the cases where one is
computed and does not fit. llama.cpp has its own view of some models (UNLIKE); a case with one more change
is run for it instead. Exit code 1 if anything differs.

Needs torch==2.13.0, transformers==5.24.0, gguf==0.19.0, safetensors==0.8.0; uses llama-cpp-python==0.3.36.
"""

import argparse
import dataclasses
import pathlib
import tempfile

import numpy as np
import torch
import transformers

from steps import BOUNDS, Mainstem, Tally
from gguf_families import FORMS, write_gguf
from tiny.cases import CASES, FULL, LLAMA3, LONGROPE, SLIDING, TOKENS, Case, rope

try:
    import llama_cpp
except ImportError:
    llama_cpp = None

EPS = 3 / 1024
EXACT_LONGROPE = LONGROPE | dict(short_factor=[1.0, 1.25, 2.0])
CHANGES = {
    "llama_gelu": dict(hidden_act="silu"),
    "qwen2": dict(use_sliding_window=False),
    "gemma2": dict(query_pre_attn_scalar=6),
    "gemma3": dict(query_pre_attn_scalar=6),
    "gemma3_pattern": dict(query_pre_attn_scalar=6),
    "gpt2": dict(scale_attn_by_inverse_layer_idx=False),
    "gpt2_unscaled": dict(scale_attn_weights=True, activation_function="gelu_new"),
    "cohere": dict(logit_scale=0.3125),
    "cohere2": dict(logit_scale=0.3125),
    "phi": dict(qk_layernorm=False),
    "phi3_longrope": rope(700.0, **EXACT_LONGROPE),
    "granite": dict(residual_multiplier=0.3125, attention_multiplier=0.1875),
    "olmo": dict(attention_bias=False),
}
NO_FORM = {"falcon_rw"}  # ALiBi
FUSED = {"phi", "qwen2"}  # read with q, k and v in one matrix too
# rope_freqs; attn_factor; eps 1e-5
ROUNDED = {"llama": 1e-6, "llama_thirds": 1e-6, "phi3_longrope": 1e-6, "olmo": 1e-6}

# Where llama.cpp computes something else or refuses the file, and what to change so that it does not.
UNLIKE = {
    "gpt_neox_sequential": dict(attention_bias=True),  # its loader wants the biases
    "olmo2": dict(hidden_size=24),  # its loader takes H*E for D
    "falcon_11b": dict(bias=False),  # and here none
    "mistral": dict(sliding_window=None),  # it knows no windows in this arch
    "phi3": dict(sliding_window=None),  # switched off in its loader
    "olmo": dict(hidden_size=24),  # as OLMo 2
    "starcoder2": dict(sliding_window=None, hidden_size=24),  # as Mistral; as OLMo 2
    "cohere2": dict(hidden_size=24),  # as OLMo 2
    "cohere2_pattern": dict(hidden_size=24),
    "cohere": dict(use_qk_norm=False, hidden_size=24),  # looks for these norms from 64 blocks on; H*E as above
}
# llama.cpp's GELU is a table of halves: an error of 2^-11 on the way in and again on the way out, in each block.
GELU_BOUND = 2 * 2.0**-11


def changed(case, changes):
    return dataclasses.replace(case, changes=case.changes | changes)


def gguf_case(case):
    """The case with what GGUF can say."""
    eps = {key: EPS for key in case.changes if key.endswith(("_eps", "_epsilon"))}
    return changed(case, eps | CHANGES.get(case.name, {}))


def bound_of(case, compute):
    """Relative to the largest value; errors grow from block to block, and most cases have two."""
    blocks = case.make_config().num_hidden_layers
    bound = BOUNDS[compute] * max(blocks / 2, 1)
    return max(bound, ROUNDED.get(case.name, 0)) if compute == "f64" else bound


def has_form(case):
    return isinstance(case, Case) and case.name not in NO_FORM and case.config.model_type in FORMS


def uses_gelu(config):
    activation = [getattr(config, key, None) for key in ("hidden_act", "hidden_activation", "activation",
                                                         "activation_function")]
    return any("gelu" in (name or "") for name in activation)


def rival_values(path, tokens, embeds):
    """llama.cpp's logits or last stream, in float32 with a float32 cache."""
    llama = llama_cpp.Llama(str(path), n_ctx=len(tokens), n_batch=64, n_ubatch=64, n_threads=1, logits_all=True,
                            type_k=0, type_v=0, flash_attn=False, embedding=embeds,
                            pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, verbose=False)
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for at, token in enumerate(tokens):
        batch.token[at], batch.pos[at] = token, at
        batch.n_seq_id[at], batch.seq_id[at][0], batch.logits[at] = 1, 0, True
    failed = llama_cpp.llama_decode(llama.ctx, batch)
    llama_cpp.llama_batch_free(batch)
    if failed:
        raise RuntimeError(f"llama_decode gave {failed}")
    if embeds:
        pointer, width = llama_cpp.llama_get_embeddings(llama.ctx), llama.n_embd()
    else:
        pointer, width = llama_cpp.llama_get_logits(llama.ctx), llama.n_vocab()
    return np.ctypeslib.as_array(pointer, (len(tokens), width)).copy()


def check_rival(case, work, mainstem, tally):
    if case.name in UNLIKE:
        case = changed(case, UNLIKE[case.name])
    model = case.make_model()
    path = work / "rival.gguf"
    write_gguf(model, path)
    embeds = case.layout == "bert"
    site = f"blocks.{model.config.num_hidden_layers - 1}.resid_post" if embeds else "head,logits"
    got = mainstem.trace(path, TOKENS, "f32", sites=site)
    site = "logits" if "logits" in got else "head" if "head" in got else site
    blocks = model.config.num_hidden_layers
    bound = GELU_BOUND * blocks if uses_gelu(model.config) else bound_of(case, "f32")
    tally.compare(f"{case.name}, llama.cpp", {site: rival_values(path, TOKENS, embeds)[None]}, {site: got[site]}, bound)


def check(case, work, mainstem, tally):
    model = case.make_model()
    path = work / "model.gguf"
    write_gguf(model, path)
    if case.name in FUSED:
        write_gguf(model, work / "fused.gguf", fused=True)
        tally.equal(f"{case.name}, fused", mainstem.trace(path, TOKENS, "f32"),
                    mainstem.trace(work / "fused.gguf", TOKENS, "f32"))
    for compute in BOUNDS:
        record = case.record if compute == "f32" else case.record_in_double
        # A sequence shorter than the original context, too, where divisors go by that.
        for tokens in (TOKENS[:7], TOKENS) if case.name == "phi3_longrope" else (TOKENS,):
            got = mainstem.trace(path, tokens, compute)
            tally.compare(f"{case.name}, gguf, {compute}", record(model, tokens), got, bound_of(case, compute))
    write_gguf(model, work / "parts.gguf", tensors_per_part=7)
    parts = sorted(work.glob("parts-*.gguf"))
    if len(parts) < 2:
        tally.fail(f"{case.name}: no parts were written")
    tally.equal(f"{case.name}, parts", got, mainstem.trace(parts[-1], TOKENS, compute))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mainstem", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    tally = Tally()
    cases = [gguf_case(case) for case in CASES if has_form(case)]
    for case in cases:
        if arguments.cases and case.name not in arguments.cases:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            work = pathlib.Path(temporary)
            mainstem = Mainstem(arguments.mainstem, work)
            check(case, work, mainstem, tally)
            if llama_cpp:
                check_rival(case, work, mainstem, tally)
    tally.finish()


if __name__ == "__main__":
    main()
