#!/usr/bin/env python3
"""Tiny random Llamas from transformers, compared with `mainstem trace` at every step.

    python tests/parity/llama_parity.py --mainstem build/dev/src/mainstem

Their numbers are unlike any released model's (H, K and E all different from each other, H*E other than D, eps
large, every norm weight its own, biases), so that a default used by mistake shows. Each model is read
twice: from config.json with safetensors, and from a GGUF file written here with gguf-py, where the rows
of q and k are permuted as llama.cpp's converter permutes them. Both must give the same q and k.

Bounds, relative to the largest value of the tensor: 2e-5 in float32; in double 1e-5, since
transformers keeps float32 inside its norms, its softmax and its rotary tables (the double path is
held to 1e-12 by the oracle under tests/oracle). A value that has several names is compared under its
first one, the only one a trace keeps. Exit code 1 if any step differs.

Needs torch==2.13.0, transformers==5.24.0, gguf==0.19.0, safetensors==0.8.0.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 58, 0, 17, 17, 40, 33, 2, 8, 60, 61]
BOUNDS = {"f32": 2e-5, "f64": 1e-5}

SHAPE = dict(
    vocab_size=62,
    hidden_size=48,
    intermediate_size=52,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=10,
    rms_norm_eps=3e-3,
    max_position_embeddings=64,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=700.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=32,
)
YARN = dict(
    rope_type="yarn", rope_theta=900.0, factor=4.0, original_max_position_embeddings=16
)
CASES = {
    "llama3 scaling, all biases": dict(
        rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True, tie_word_embeddings=False
    ),
    "yarn, tied head": dict(rope_parameters=YARN, tie_word_embeddings=True),
    "linear scaling, one kv head, GELU": dict(
        rope_parameters=dict(rope_type="linear", rope_theta=333.0, factor=3.0),
        num_key_value_heads=1,
        hidden_act="gelu",
        tie_word_embeddings=False,
    ),
    "no scaling, as many kv heads as heads": dict(
        rope_parameters=dict(rope_type="default", rope_theta=50.0),
        num_key_value_heads=6,
        head_dim=8,
        tie_word_embeddings=False,
    ),
}


def make_model(name, changes):
    torch.manual_seed(sum(name.encode()))
    config = LlamaConfig(**{**SHAPE, **changes})
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("norm.weight"):
                parameter.copy_(torch.rand_like(parameter) * 1.5 + 0.25)
            else:
                parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.5))
    return model


def record(model):
    """The value of every site of a pass over TOKENS, by its name."""
    config = model.config
    values, handles = {}, []

    def keep(name, heads=None, of_input=False):
        def hook(_, inputs, output):
            value = inputs[0] if of_input else output
            value = value[0] if isinstance(value, tuple) else value
            if heads:
                value = value.unflatten(-1, (heads, -1))
            values[name] = value.detach().double().numpy()

        return hook

    def at(module, *arguments, **keywords):
        handles.append(module.register_forward_hook(keep(*arguments, **keywords)))

    at(model.model.embed_tokens, "token_embed")
    at(model.model.norm, "final_norm")
    at(model.lm_head, "head")
    for number, layer in enumerate(model.model.layers):
        block = f"blocks.{number}."
        heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
        at(layer.input_layernorm, block + "attn_norm")
        at(layer.self_attn.q_proj, block + "q", heads)
        at(layer.self_attn.k_proj, block + "k", kv_heads)
        at(layer.self_attn.v_proj, block + "v", kv_heads)
        at(layer.self_attn.o_proj, block + "attn_mix", heads, of_input=True)
        at(layer.self_attn.o_proj, block + "attn_proj")
        at(layer.post_attention_layernorm, block + "resid_mid", of_input=True)
        at(layer.post_attention_layernorm, block + "mlp_norm")
        at(layer.mlp.gate_proj, block + "mlp_gate")
        at(layer.mlp.up_proj, block + "mlp_value")
        at(layer.mlp.act_fn, block + "mlp_act")
        at(layer.mlp.down_proj, block + "mlp_hidden", of_input=True)
        at(layer.mlp.down_proj, block + "mlp_proj")
        at(layer, block + "resid_post")

    # What no module holds: the turned q and k.
    original, turned = modeling_llama.apply_rotary_pos_emb, []

    def rotary(q, k, *arguments, **keywords):
        turned.append(original(q, k, *arguments, **keywords))
        return turned[-1]

    modeling_llama.apply_rotary_pos_emb = rotary
    with torch.no_grad():
        output = model(torch.tensor([TOKENS]), output_attentions=True, use_cache=False)
    modeling_llama.apply_rotary_pos_emb = original
    for handle in handles:
        handle.remove()
    for number, (q, k) in enumerate(turned):
        block = f"blocks.{number}."
        values[block + "q_rot"] = q.transpose(1, 2).double().numpy()
        values[block + "k_rot"] = k.transpose(1, 2).double().numpy()
        wide = k.repeat_interleave(config.num_attention_heads // config.num_key_value_heads, 1)
        scores = (q.double() @ wide.double().transpose(-1, -2)) * config.head_dim**-0.5
        values[block + "scores"] = scores.numpy()
        values[block + "pattern"] = output.attentions[number].double().numpy()
    return values


GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def permuted(rows, heads):
    """llama.cpp's converter: row s*E/2 + j of a head becomes row 2j + s."""
    shape = rows.shape
    return rows.reshape(heads, 2, -1, *shape[1:]).swapaxes(1, 2).reshape(shape)


def write_gguf(model, path):
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "llama3":
        even = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
        plain = 1 / rope["rope_theta"] ** (even / config.head_dim)
        scaled = model.model.rotary_emb.inv_freq.double()
        writer.add_tensor("rope_freqs.weight", (plain / scaled).float().numpy())
    for name, parameter in model.named_parameters():
        stem, suffix = name.rsplit(".", 1)
        data = parameter.detach().float().numpy()
        if stem.endswith("q_proj"):
            data = permuted(data, config.num_attention_heads)
        if stem.endswith("k_proj"):
            data = permuted(data, config.num_key_value_heads)
        if stem.startswith("model.layers."):
            _, _, number, rest = stem.split(".", 3)
            stem = f"blk.{number}.{GGUF_NAMES[rest]}"
        else:
            stem = GGUF_NAMES[stem]
        writer.add_tensor(f"{stem}.{suffix}", np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def compare(name, reference, got, bound, causal_only=("scores",)):
    """The number of steps outside the bound; the worst one is printed."""
    worst, worst_site, wrong = 0.0, "-", 0
    for site, expected in reference.items():
        if site not in got:
            print(f"{name}: {site} is missing")
            wrong += 1
            continue
        value = got[site].astype(np.float64)
        if value.shape != expected.shape:
            print(f"{name}: {site} has the shape {value.shape}, not {expected.shape}")
            wrong += 1
            continue
        difference = np.abs(value - expected)
        if site.endswith(causal_only):
            difference = difference[..., np.tri(expected.shape[-1], dtype=bool)]
            expected = expected[..., np.tri(expected.shape[-1], dtype=bool)]
        error = difference.max() / np.abs(expected).max()
        if not error <= bound:
            print(f"{name}: {site} differs by {error:.2e}")
            wrong += 1
        if not error <= worst:
            worst, worst_site = error, site
    for site in sorted(set(got) - set(reference) - {"tokens"}):
        print(f"{name}: {site} has nothing to be compared with")
        wrong += 1
    print(f"{name}: {len(reference)} steps, worst {worst:.1e} at {worst_site} (bound {bound:.0e})")
    return wrong


def traced(mainstem, model, compute, folder):
    out = folder / "trace.safetensors"
    tokens = ",".join(map(str, TOKENS))
    command = [mainstem, "trace", model, "--tokens", tokens, "--compute", compute, "--out", out]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"mainstem trace ended with {run.returncode}: {run.stderr}")
    return load_file(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mainstem", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    wrong = 0
    for name, changes in CASES.items():
        model = make_model(name, changes)
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            model.save_pretrained(folder / "model")
            files = {"safetensors": folder / "model"}
            if changes["rope_parameters"]["rope_type"] != "yarn" and "hidden_act" not in changes:
                write_gguf(model, folder / "model.gguf")
                files["gguf"] = folder / "model.gguf"
            for compute, bound in BOUNDS.items():
                reference = record(model.float() if compute == "f32" else model.double())
                for kind, path in files.items():
                    got = traced(arguments.mainstem, path, compute, folder)
                    wrong += compare(f"{name}, {kind}, {compute}", reference, got, bound)
    print(f"{wrong} steps differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
