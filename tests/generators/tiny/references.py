"""PaLM and GPT-3 for the tests: plain PyTorch from the papers, since transformers has neither.

Names and order of the weights are those of the files that mainstem reads: for PaLM those of
lucidrains' public version (a list of layers, one matrix for q, k, v, the MLP's value and its gate),
for GPT-3 those of GPT-2.
"""

import json
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.functional import embedding, gelu, layer_norm, linear, silu

SIZES = dict(vocab=41, width=12, blocks=2, heads=4, head=6, hidden=14, context=24, eps=3e-3)


class Reference:
    layout, base_only, encoder, types, sdpa = "", False, False, False, False

    def make_model(self):
        """The weights; a "model" is a dict of tensors."""
        self.generator = torch.Generator().manual_seed(sum(self.name.encode()))
        return {name: value.bfloat16().float() for name, value in self.random_weights()}

    def matrix(self, rows, columns):
        return torch.randn(rows, columns, generator=self.generator) * 1.5 / columns**0.5

    def vector(self, count, low=None):
        if low is None:
            return torch.randn(count, generator=self.generator) * 0.3
        return torch.rand(count, generator=self.generator) + low

    def record(self, weights, tokens):
        values = {}
        self.run(weights, torch.tensor([tokens]), values)
        return {name: value.contiguous().numpy() for name, value in values.items()}

    def record_in_double(self, weights, tokens):
        return self.record({name: value.double() for name, value in weights.items()}, tokens)

    # What these are has no padding: each sequence of a batch on its own.
    def record_batch(self, weights, sequences):
        return [self.record(weights, tokens) for tokens in sequences]

    def record_batch_in_double(self, weights, sequences):
        return [self.record_in_double(weights, tokens) for tokens in sequences]

    def save(self, weights, folder):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self.config_words(), indent=2, sort_keys=True) + "\n")


def attend(at, values, q, k, v, scale, window=None):
    """[T,H,E] queries on [S,K,E] keys; a row sees itself and, with a window W, W-1 keys before it."""
    tokens, heads = q.shape[1], q.shape[2]
    wide = heads // k.shape[2]
    k, v = k.repeat_interleave(wide, 2), v.repeat_interleave(wide, 2)
    scores = torch.einsum("bthe,bshe->bhts", q, k) * scale
    distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None]
    hidden = (distance < 0) | (distance >= (window or tokens))
    values[at + "scores"] = scores
    values[at + "pattern"] = pattern = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    values[at + "attn_mix"] = torch.einsum("bhts,bshe->bthe", pattern, v)
    return values[at + "attn_mix"].flatten(2)


class Palm(Reference):
    """Chowdhery et al., arXiv:2204.02311 §2: y = x + MLP(norm(x)) + Attention(norm(x)), SwiGLU, one
    key and value head, rotary positions, no biases, one table for both ends."""

    def __init__(self, name, norm="layer", logit_scale=1.0, golden=True):
        self.name, self.norm_kind, self.logit_scale, self.golden = name, norm, logit_scale, golden

    def config_words(self):
        s = SIZES
        return dict(model_type="palm", num_tokens=s["vocab"], dim=s["width"], depth=s["blocks"], heads=s["heads"],
                    dim_head=s["head"], ff_dim=s["hidden"], max_seq_len=s["context"], norm=self.norm_kind,
                    norm_eps=s["eps"], logit_scale=self.logit_scale, rope_theta=700.0)

    def random_weights(self):
        s = SIZES
        inner = s["heads"] * s["head"]
        yield "0.weight", torch.randn(s["vocab"], s["width"], generator=self.generator)
        for n in range(1, s["blocks"] + 1):
            yield f"{n}.fn.norm.gamma", self.vector(s["width"], 0.5)
            yield f"{n}.fn.fused_attn_ff_proj.weight", self.matrix(inner + 2 * s["head"] + 2 * s["hidden"], s["width"])
            yield f"{n}.fn.attn_out.weight", self.matrix(s["width"], inner)
            yield f"{n}.fn.ff_out.1.weight", self.matrix(s["width"], s["hidden"])
        yield f"{s['blocks'] + 1}.gamma", self.vector(s["width"], 0.5)

    def norm(self, x, gamma):
        if self.norm_kind == "layer":
            x = x - x.mean(-1, keepdim=True)
        return gamma * x / (x.square().mean(-1, keepdim=True) + SIZES["eps"]).sqrt()

    def rotate(self, x):
        """Channel j turns with j + E/2 by p * 700^(-2j/E)."""
        half = x.shape[-1] // 2
        pairs = torch.arange(half, dtype=x.dtype)
        angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None, None] * 700.0 ** (-pairs / half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def run(self, weights, tokens, values):
        s = SIZES
        x = values["token_embed"] = values["embed"] = embedding(tokens, weights["0.weight"])
        for n in range(s["blocks"]):
            at, name = f"blocks.{n}.", f"{n + 1}.fn."
            values[at + "resid_pre"] = x
            y = values[at + "attn_norm"] = self.norm(x, weights[name + "norm.gamma"])
            fused = linear(y, weights[name + "fused_attn_ff_proj.weight"])
            q, k, v, value, gate = fused.split([s["heads"] * s["head"], s["head"], s["head"], s["hidden"], s["hidden"]], -1)
            q, k, v = (part.unflatten(-1, (-1, s["head"])) for part in (q, k, v))
            values.update({at + "q": q, at + "k": k, at + "v": v, at + "mlp_gate": gate, at + "mlp_value": value})
            q, k = values[at + "q_rot"], values[at + "k_rot"] = self.rotate(q), self.rotate(k)
            mix = attend(at, values, q, k, v, s["head"] ** -0.5)
            values[at + "attn_proj"] = values[at + "attn_out"] = linear(mix, weights[name + "attn_out.weight"])
            values[at + "mlp_act"] = silu(gate)
            values[at + "mlp_hidden"] = values[at + "mlp_act"] * value
            out = linear(values[at + "mlp_hidden"], weights[name + "ff_out.1.weight"])
            values[at + "mlp_proj"] = values[at + "mlp_out"] = out
            x = values[at + "resid_post"] = x + values[at + "attn_out"] + out
        values["final_norm"] = self.norm(x, weights[f"{s['blocks'] + 1}.gamma"])
        values["head"] = linear(values["final_norm"], weights["0.weight"])
        values["logits"] = values["head"] * self.logit_scale


class Gpt3(Reference):
    """Brown et al., arXiv:2005.14165 §2.1: GPT-2's block (Radford et al. 2019 §2.3), where every other
    one attends to a band. The width of the band was not published."""

    def __init__(self, name, band, golden=True):
        self.name, self.band, self.golden = name, band, golden

    def config_words(self):
        s = SIZES
        return dict(model_type="gpt3", vocab_size=s["vocab"], n_embd=s["width"], n_layer=s["blocks"],
                    n_head=s["heads"], n_inner=s["hidden"], n_positions=s["context"], layer_norm_epsilon=s["eps"],
                    band_width=self.band)

    def random_weights(self):
        s = SIZES
        d, f = s["width"], s["hidden"]
        yield "transformer.wte.weight", torch.randn(s["vocab"], d, generator=self.generator)
        yield "transformer.wpe.weight", torch.randn(s["context"], d, generator=self.generator)
        norms = [f"h.{n}.ln_{i}" for n in range(s["blocks"]) for i in (1, 2)] + ["ln_f"]
        for name in norms:
            yield f"transformer.{name}.weight", self.vector(d, 0.5)
            yield f"transformer.{name}.bias", self.vector(d)
        for n in range(s["blocks"]):
            for name, inputs, outputs in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, f),
                                          ("mlp.c_proj", f, d)):
                yield f"transformer.h.{n}.{name}.weight", self.matrix(outputs, inputs).T.contiguous()
                yield f"transformer.h.{n}.{name}.bias", self.vector(outputs)

    def run(self, weights, tokens, values):
        s = SIZES

        def norm(x, name):
            return layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], s["eps"])

        def conv(x, name):
            return x @ weights[name + ".weight"] + weights[name + ".bias"]

        values["token_embed"] = embedding(tokens, weights["transformer.wte.weight"])
        values["pos_embed"] = weights["transformer.wpe.weight"][None, : tokens.shape[1]]
        x = values["embed"] = values["token_embed"] + values["pos_embed"]
        for n in range(s["blocks"]):
            at, name = f"blocks.{n}.", f"transformer.h.{n}."
            values[at + "resid_pre"] = x
            values[at + "attn_norm"] = norm(x, name + "ln_1")
            q, k, v = (part.unflatten(-1, (s["heads"], -1))
                       for part in conv(values[at + "attn_norm"], name + "attn.c_attn").chunk(3, -1))
            values.update({at + "q": q, at + "k": k, at + "v": v})
            mix = attend(at, values, q, k, v, q.shape[-1] ** -0.5, self.band if n % 2 == 1 else None)
            values[at + "attn_proj"] = values[at + "attn_out"] = conv(mix, name + "attn.c_proj")
            x = values[at + "resid_mid"] = x + values[at + "attn_out"]
            values[at + "mlp_norm"] = norm(x, name + "ln_2")
            values[at + "mlp_pre"] = conv(values[at + "mlp_norm"], name + "mlp.c_fc")
            values[at + "mlp_act"] = values[at + "mlp_hidden"] = gelu(values[at + "mlp_pre"], approximate="tanh")
            values[at + "mlp_proj"] = values[at + "mlp_out"] = conv(values[at + "mlp_hidden"], name + "mlp.c_proj")
            x = values[at + "resid_post"] = x + values[at + "mlp_out"]
        values["final_norm"] = norm(x, "transformer.ln_f")
        values["head"] = values["logits"] = linear(values["final_norm"], weights["transformer.wte.weight"])
