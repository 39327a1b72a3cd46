#!/usr/bin/env python3
"""What transformers computes on two real models, in float32.

    python tests/generators/make_real.py --models FOLDER

FOLDER is what tools/fetch_model.py fills (.cache/models). Writes into tests/golden/real/:
  gemma3.json   Gemma 3 270M, GGUF Q4_K_M: weights dequantised by gguf-py through transformers' loader
  minilm.json   all-MiniLM-L6-v2, safetensors

gemma3.json, per prompt: ids (with <bos>), logits and stream at the last position, 32 greedy ids (end
tokens not treated specially). "embedding" is what enters block 0, already multiplied by sqrt(640); the
stream is taken after a block and before the final norm. layer0_english holds the first block's own
steps at the last position; q and k there are after their norms and after RoPE, not yet scaled. The
prompt "window" is longer than the window of 512 tokens; its nll is the mean negative log-likelihood of
all tokens but the first.

minilm.json, per sentence: layers_position0[0] is the embedding after its LayerNorm, [n] the output of
block n-1, each at [CLS]; embedding is the mean over all tokens, divided by its length.

Floats are the shortest decimals of their float32. On another processor the last digits may differ.
Needs torch==2.13.0, transformers==5.24.0, gguf==0.19.0, accelerate.
"""

import argparse
import hashlib
import json
import os
import pathlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, BertModel
from transformers.models.gemma3 import modeling_gemma3

GEMMA = "gemma-3-270m-q4_k_m.gguf"
MINILM = "all-MiniLM-L6-v2"
NEW_TOKENS = 32
LISTED = {"00_first": 0, "01_second": 1, "09_middle": 9, "17_last": 17}

LONG = (
    "The canal was dug by hand in 1794, when the owners of the wool mills wanted a cheaper way to send their cloth down to "
    "the port. It is eleven miles long and has nineteen locks, each of them wide enough for one narrow boat. For sixty years "
    "it made money; then the railway came, and the boats were left to rot along the towpath. Children learned to swim in the "
    "basin, herons fished from the broken gates, and the water slowly filled with reeds.\n\n"
    "In the spring of 1988 a group of neighbours decided to clear the first lock. They had no engine and no plan, only spades, "
    'ropes, and a borrowed horse. "We thought it would take a summer," one of them said later. It took four years. They pulled '
    "out bicycles, bed frames, a piano, and two hundred tons of mud. When the gates were hung again and the water rose for the "
    "first time, nobody spoke; then somebody laughed, and a dog jumped in.\n\n"
    "Today the canal carries walkers, anglers, and a few painted boats. The town council pays a keeper to mind the sluices, and "
    "every October the volunteers drain one lock, check its bricks, and replace whatever the frost has loosened. The work is "
    "slow, and it is never finished. If you ask the keeper why they go on, she points at the water and says that a thing which "
    "is looked after every year does not need to be rescued."
)
PROMPTS = {
    "english": "The river begins as a thin stream in the hills, and by the time it reaches the town",
    "digits": "Order #4172: 3 x $19.99 + 7% tax = $64.17; pay by 2024-11-05, 09:30 (UTC+2). Total:",
    "code": "def mean(values):\n    total = 0.0\n    count = 0\n    for v in values:\n        if v is None:\n"
    "            continue\n        total += v  # skip the gaps\n        count += 1\n    return total /",
    "unicode": "Ça coûte 12 € à Zürich; 東京は今日も雨です。Привет, мир! 🌊🚣‍♀️ naïve café –",
    "spaces": "   three spaces before and two after  ",
    "long": LONG,
    "window": "\n\n".join([LONG, LONG, LONG]),
}
SENTENCES = [
    "The heron stands still in the shallow water.",
    "A grey wading bird waits motionless at the edge of the pond.",
    "Invoice 2024-117: 3 x $19.99 is due on 05/11 (see page 4)!",
    "Ça coûte 12 € à Zürich; naïve façade, 東京 and Привет.",
    "In the spring of 1988 a group of neighbours decided to clear the first lock. They had no engine and no plan, only spades, "
    "ropes, and a borrowed horse. It took four years, and they pulled out bicycles, bed frames, a piano, and two hundred tons of mud.",
]


def floats(values):
    return [float(str(value)) for value in np.asarray(values, dtype=np.float32)]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sample(vector):
    vector = vector.detach().float()
    return {
        "first_8": floats(vector[:8].numpy()),
        "l2": float(f"{vector.double().norm().item():.9g}"),
    }


class Hooks:
    """The outputs of modules at the last position."""

    def __init__(self):
        self.values, self.handles = {}, []

    def output(self, module, name):
        def hook(_, __, out):
            out = out[0] if isinstance(out, tuple) else out
            # q_norm and k_norm give [B, H, T, E]; everything else [B, T, ...].
            self.values[name] = out[0, -1] if out.dim() == 3 else out[0, :, -1]

        self.handles.append(module.register_forward_hook(hook))

    def remove(self):
        for handle in self.handles:
            handle.remove()


@torch.no_grad()
def greedy(model, ids):
    chosen, margins = [], []
    out = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
    while True:
        best = out.logits[0, -1].topk(2)
        chosen.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if len(chosen) == NEW_TOKENS:
            return {"ids": chosen, "min_margin": float(f"{min(margins):.3g}")}
        out = model(torch.tensor([chosen[-1:]]), past_key_values=out.past_key_values, use_cache=True)


@torch.no_grad()
def gemma_prompt(model, ids):
    hooks = Hooks()
    layers = model.model.layers
    for number, layer in enumerate(layers):
        hooks.output(layer, number)
    hooks.output(model.model.norm, "final_norm")
    hooks.output(model.model.embed_tokens, "embedding")
    logits = model(torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1]
    hooks.remove()
    values = hooks.values
    top = logits.topk(10)
    residual = {f"after_block_{name}": sample(values[at]) for name, at in LISTED.items()}
    residual["embedding"] = sample(values["embedding"])
    residual["final_norm"] = sample(values["final_norm"])
    return {
        "ids": ids,
        "top10_ids": top.indices.tolist(),
        "top10_values": floats(top.values.numpy()),
        "logsumexp": float(torch.logsumexp(logits.double(), 0)),
        "residual": residual,
        "l2_after_every_block": [
            float(f"{values[n].double().norm().item():.7g}") for n in range(len(layers))
        ],
        "greedy": greedy(model, ids),
    }


@torch.no_grad()
def mean_nll(model, ids):
    """A part of the positions at a time: all logits together would be a gigabyte."""
    tokens = torch.tensor(ids)
    hidden = model.model(tokens[None], use_cache=False).last_hidden_state[0, :-1]
    total = 0.0
    for rows, targets in zip(hidden.split(64), tokens[1:].split(64)):
        loss = torch.nn.functional.cross_entropy(model.lm_head(rows).double(), targets, reduction="sum")
        total += loss.item()
    return {"mean": total / len(hidden), "tokens": len(hidden)}


@torch.no_grad()
def gemma_first_block(model, ids):
    layer = model.model.layers[0]
    modules = ["input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
               "self_attn.o_proj", "post_attention_layernorm", "pre_feedforward_layernorm",
               "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "post_feedforward_layernorm"]
    hooks = Hooks()
    for name in modules:
        hooks.output(layer.get_submodule(name), name)
    plain, turned = modeling_gemma3.apply_rotary_pos_emb, []

    def rotary(q, k, *arguments, **keywords):
        turned.append(plain(q, k, *arguments, **keywords))
        return turned[-1]

    modeling_gemma3.apply_rotary_pos_emb = rotary
    out = model(torch.tensor([ids]), use_cache=False, output_attentions=True)
    modeling_gemma3.apply_rotary_pos_emb = plain
    hooks.remove()
    q, k = turned[0]
    return {
        "trace": {name: sample(hooks.values[name].flatten()) for name in modules},
        "q_rot_head0_last": floats(q[0, 0, -1].numpy()),
        "k_rot_head0_last": floats(k[0, 0, -1].numpy()),
        "pattern_head0_last": floats(out.attentions[0][0, 0, -1].numpy()),
    }


def gemma(folder):
    # A file of that name in the current directory would win over the folder.
    os.chdir(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=GEMMA)
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=GEMMA, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = {name: tokenizer(text)["input_ids"] for name, text in PROMPTS.items()}
    prompts = {}
    for name, text in PROMPTS.items():
        prompts[name] = {"text": text, **gemma_prompt(model, ids[name])}
        if name == "window":
            prompts[name]["nll"] = mean_nll(model, ids[name])
        print(name, len(ids[name]), prompts[name]["greedy"], flush=True)
    return {
        "about": f"{GEMMA} in float32 by transformers {transformers.__version__} and torch "
        f"{torch.__version__} on weights dequantised by gguf-py",
        "sha256": sha256(folder / GEMMA),
        "prompts": prompts,
        "layer0_english": gemma_first_block(model, ids["english"]),
    }


@torch.no_grad()
def minilm(folder):
    folder = folder / MINILM
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").float().eval()
    sentences = []
    for text in SENTENCES:
        ids = tokenizer(text, padding=False, truncation=False)["input_ids"]
        out = model(torch.tensor([ids]), output_hidden_states=True)
        mean = out.last_hidden_state[0].mean(0)
        sentences.append({
            "text": text,
            "ids": ids,
            "layers_position0": [floats(h[0, 0, :8].numpy()) for h in out.hidden_states],
            "embedding": floats((mean / mean.norm()).numpy()),
        })
    return {
        "about": f"all-MiniLM-L6-v2 in float32 by transformers {transformers.__version__} and torch "
        f"{torch.__version__}",
        "sha256": sha256(folder / "model.safetensors"),
        "sentences": sentences,
    }


def text_of(value, indent=0):
    """JSON with one list of numbers on one line."""
    pad = " " * indent
    if isinstance(value, dict):
        rows = [f"{pad} {json.dumps(k)}: {text_of(v, indent + 1)}" for k, v in sorted(value.items())]
        return "{\n" + ",\n".join(rows) + f"\n{pad}}}"
    if isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        return "[\n" + ",\n".join(f"{pad} {text_of(v, indent + 1)}" for v in value) + f"\n{pad}]"
    return json.dumps(value, ensure_ascii=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--only", choices=["gemma3", "minilm"])
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--out", type=pathlib.Path, default=here.parent / "golden" / "real")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    models, out = arguments.models.resolve(), arguments.out.resolve()
    for name, make in {"minilm": minilm, "gemma3": gemma}.items():
        if arguments.only in (None, name):
            (out / f"{name}.json").write_text(text_of(make(models)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
