#!/usr/bin/env python3
"""A tiny random Llama from transformers, and what it computes at every step.

    python tests/generators/make_tiny_llama.py

writes tests/golden/tiny_llama/: config.json and model.safetensors (float32), other configs for the same
weights (linear.json, dynamic.json, yarn.json, tied.json), and golden.safetensors. Its numbers are unlike any
released model's: H=6, K=2, E=10 although D/H is 6, eps 3e-3, biases everywhere, every norm weight
its own, an original context so small that llama3 scaling keeps some pairs, slows some and blends
some.

Names in golden.safetensors: CASE.SITE in float64 and CASE.f32.SITE in float32. Cases:
  llama3            every site of one pass, and the logits of the float32 model
  llama3.padded     rows of a batch of two, the second with three tokens of padding before it
  linear, dynamic, yarn, tied   the logits and every q_rot
  dynamic.decode    logits of a prompt of six tokens and single steps after it
  score.tokens, score.N, score.N.begin   random tokens and [mean, count] of the negative
                    log-likelihoods in windows of N tokens; begin: token 1 before each window

The float64 values are good to 1e-14 (tiny/double.py).

Needs torch==2.13.0, transformers==5.24.0, safetensors==0.8.0. The same files come out of every run.
"""

import argparse
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

from tiny.double import in_double
from tiny.sites import LAYOUTS, Recorder, sizes_of

SEED = 20240131
TOKENS = [[3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46]]
PADDING = 3
PROMPT = 6
SCORED = 151
BEGIN = 1
WINDOWS = (128, 75, 50, 37, 2)  # the model's context; the last window is short, or one token

SIZES = dict(
    vocab_size=97,
    hidden_size=36,
    intermediate_size=44,
    num_hidden_layers=3,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=10,
    rms_norm_eps=3e-3,
    max_position_embeddings=128,
    attention_bias=True,
    mlp_bias=True,
    tie_word_embeddings=False,
    bos_token_id=1,
    eos_token_id=2,
)
ROPE = {
    "llama3": dict(rope_type="llama3", rope_theta=700.0, factor=6.0, low_freq_factor=1.5,
                   high_freq_factor=3.5, original_max_position_embeddings=60),
    "linear": dict(rope_type="linear", rope_theta=700.0, factor=2.5),
    "dynamic": dict(rope_type="dynamic", rope_theta=700.0, factor=2.5),
    "yarn": dict(rope_type="yarn", rope_theta=700.0, factor=4.0, beta_fast=3.0, beta_slow=0.8,
                 original_max_position_embeddings=20),
}


def config_of(case):
    sizes = dict(SIZES)
    if case == "tied":
        sizes["tie_word_embeddings"] = True
    if case == "dynamic":
        sizes["max_position_embeddings"] = 8  # shorter than the tokens, or nothing would change
    rope = dict(ROPE["llama3" if case == "tied" else case])
    config = LlamaConfig(**sizes, rope_parameters=rope)
    config.architectures = ["LlamaForCausalLM"]
    config._attn_implementation = "eager"
    return config


def random_weights():
    torch.manual_seed(SEED)
    model = LlamaForCausalLM(config_of("llama3"))
    weights = {}
    for name, parameter in sorted(model.state_dict().items()):
        if name.endswith("norm.weight"):
            values = torch.rand(parameter.shape) + 0.5
            values[::7] *= -1
        elif name.endswith("bias"):
            values = torch.randn(parameter.shape) * 0.3
        elif name == "model.embed_tokens.weight":
            values = torch.randn(parameter.shape)
        else:
            values = torch.randn(parameter.shape) * 1.5 / parameter.shape[-1] ** 0.5
        weights[name] = values.contiguous()
    return weights


def model_of(case, weights, dtype):
    model = LlamaForCausalLM(config_of(case)).to(dtype).eval()
    given = {name: values.to(dtype) for name, values in weights.items()}
    if case == "tied":
        del given["lm_head.weight"]
    missing, unexpected = model.load_state_dict(given, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    if case == "tied":
        model.tie_weights()
    return model


SECOND_NAMES = (".attn_out", ".mlp_out", "embed")


@torch.no_grad()
def record(model, input_ids, **more):
    sizes = sizes_of(model.config, input_ids.shape[1])
    with Recorder(model, LAYOUTS["llama"], sizes) as recorder:
        logits = model(input_ids=input_ids, **more).logits
    recorder.complete(input_ids)
    values = {site: value for site, value in recorder.values.items()
              if site == "token_embed" or not site.endswith(SECOND_NAMES)}
    return values | {"logits": logits}


def check_branches():
    """llama3 scaling must keep, blend and slow at least one pair each."""
    rope = ROPE["llama3"]
    context = rope["original_max_position_embeddings"]
    kinds = set()
    for pair in range(SIZES["head_dim"] // 2):
        wavelength = 2 * torch.pi * rope["rope_theta"] ** (2 * pair / SIZES["head_dim"])
        kinds.add(
            "keep" if wavelength < context / rope["high_freq_factor"]
            else "slow" if wavelength > context / rope["low_freq_factor"] else "blend")
    assert kinds == {"keep", "blend", "slow"}, kinds


@torch.no_grad()
def decode(model, tokens):
    out = model(input_ids=tokens[:, :PROMPT], use_cache=True)
    logits, cache = [out.logits], out.past_key_values
    for t in range(PROMPT, tokens.shape[1]):
        out = model(input_ids=tokens[:, t : t + 1], past_key_values=cache, use_cache=True)
        logits.append(out.logits)
        cache = out.past_key_values
    return torch.cat(logits, 1)


def window_losses(model, tokens, context, prefix):
    """Summed loss and number of predicted tokens, window after window, the prefix not predicted."""
    total, count = torch.zeros(()), 0
    own = context - len(prefix)
    for begin in range(0, len(tokens), own):
        window = torch.tensor([prefix + tokens[begin : begin + own]])
        first = max(len(prefix), 1)
        logits, targets = model(input_ids=window).logits[0, first - 1 : -1], window[0, first:]
        if len(targets) > 0:
            total += torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
            count += len(targets)
    return torch.stack([total / count, torch.tensor(float(count))])


def scores(weights):
    generator = torch.Generator().manual_seed(SEED)
    tokens = torch.randint(0, SIZES["vocab_size"], (SCORED,), generator=generator).tolist()
    model = model_of("llama3", weights, torch.float64)
    golden = {"score.tokens": torch.tensor([tokens])}
    for context in WINDOWS:
        golden[f"score.{context}"] = window_losses(model, tokens, context, [])
        golden[f"score.{context}.begin"] = window_losses(model, tokens, context, [BEGIN])
    return golden


def make(folder):
    check_branches()
    weights = random_weights()
    tokens = torch.tensor(TOKENS)
    golden = {"tokens": tokens}

    golden["llama3.f32.logits"] = record(model_of("llama3", weights, torch.float32), input_ids=tokens)["logits"]
    with in_double():
        model = model_of("llama3", weights, torch.float64)
        for site, value in record(model, input_ids=tokens).items():
            golden["llama3." + site] = value
        length = tokens.shape[1]
        short = tokens[:, : length - PADDING]
        row = torch.cat([torch.full((1, PADDING), 50), short], 1)
        both = torch.cat([tokens, row])
        mask = torch.ones_like(both)
        mask[1, :PADDING] = 0
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        padded = record(model, input_ids=both, attention_mask=mask, position_ids=positions)
        golden["llama3.padded.tokens"] = both
        for site in ("blocks.0.q_rot", "blocks.1.pattern", "blocks.2.resid_post", "logits"):
            golden["llama3.padded." + site] = padded[site]
        for case in ("linear", "dynamic", "yarn", "tied"):
            values = record(model_of(case, weights, torch.float64), input_ids=tokens)
            for site, value in values.items():
                if site == "logits" or site.endswith("q_rot"):
                    golden[f"{case}.{site}"] = value
        golden.update(scores(weights))
        golden["dynamic.decode.logits"] = decode(model_of("dynamic", weights, torch.float64), tokens)

    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    about = dict(seed=SEED, torch=torch.__version__, transformers=transformers.__version__)
    save_file(golden, folder / "golden.safetensors", metadata={"about": json.dumps(about)})
    for name in ("model", "golden"):
        (folder / f"{name}.safetensors").chmod(0o644)
    for case in ("llama3", "linear", "dynamic", "yarn", "tied"):
        config = config_of(case).to_diff_dict()
        config["dtype"] = "float32"
        name = "config.json" if case == "llama3" else case + ".json"
        (folder / name).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tiny_llama"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    make(parser.parse_args().out)
