"""The lesson's worked example and its variants."""

import math
import os

import numpy as np
import torch
import torch.nn.functional as F

from lesson.numpy_blocks import np_gelu_erf, np_gelu_tanh, np_ln, np_rms, np_silu, np_softmax
from lesson.records import SEED, bits, check, dig9, dump, same, save
from lesson.torch_random import Mt


def example(X, W_Q, W_K, W_V, W1, W2, norm, mlp, place="pre", causal=False):
    """One pass; returns the named tensors in order."""
    d = X.shape[-1]
    r = {}

    def attend(z):
        Q, K, V = z @ W_Q, z @ W_K, z @ W_V
        s = Q @ K.transpose(-2, -1) / (d**0.5)
        if causal:
            T = s.shape[-1]
            s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
        a = F.softmax(s, dim=-1)
        r.update(Q=Q, K=K, V=V, scores=s, attn_weights=a, attn_out=a @ V)
        return r["attn_out"]

    def feed(z):
        p = z @ W1
        if mlp == "swiglu":
            g, v = p.chunk(2, dim=-1)
            act = F.silu(g) * v
            r.update(x_proj=p, x_gate=g, x_val=v, x_swish=act)
        else:
            act = F.gelu(p, approximate=mlp)
            r.update(x_proj=p, x_act=act)
        r["mlp_out"] = act @ W2
        return r["mlp_out"]

    if place == "pre":
        r["X_norm"] = norm(X)
        r["X1"] = X + attend(r["X_norm"])
        r["X1_norm"] = norm(r["X1"])
        r["X2"] = r["X1"] + feed(r["X1_norm"])
    else:
        r["X1"] = norm(X + attend(X))
        r["X2"] = norm(r["X1"] + feed(r["X1"]))
    return r


def np_example(t, norm="rms", mlp="swiglu", place="pre", causal=False):
    """The same in numpy float64, written out separately."""
    X, WQ, WK, WV = (t[k].astype(np.float64)[0] if k == "X" else t[k].astype(np.float64) for k in ("X", "W_Q", "W_K", "W_V"))
    nrm = (lambda z: np_rms(z, 1e-6)) if norm == "rms" else (lambda z: np_ln(z, 1e-5))
    z = nrm(X) if place == "pre" else X
    s = (z @ WQ) @ (z @ WK).T / math.sqrt(8.0)
    if causal:
        s = np.where(np.tri(4) > 0, s, -np.inf)
    a = np_softmax(s)
    o = a @ (z @ WV)
    x1 = X + o
    if place == "post":
        x1 = nrm(x1)
        z = x1
    else:
        z = nrm(x1)
    if mlp == "swiglu":
        p = z @ t["W_swiglu"].astype(np.float64)
        m = (np_silu(p[:, :16]) * p[:, 16:]) @ t["W_mlp_out"].astype(np.float64)
    else:
        p = z @ t["W1_gelu"].astype(np.float64)
        m = (np_gelu_erf if mlp == "none" else np_gelu_tanh)(p) @ t["W2_gelu"].astype(np.float64)
    x2 = x1 + m
    if place == "post":
        x2 = nrm(x2)
    return {"attn_weights": a[None], "attn_out": o[None], "X1": x1[None], "mlp_out": m[None], "X2": x2[None]}


def rms_fn(eps):
    def f(x):
        g = torch.ones(x.shape[-1], dtype=x.dtype)
        return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps) * g

    return f


def ln_fn(eps):
    return lambda x: F.layer_norm(
        x, (x.shape[-1],), torch.ones(x.shape[-1], dtype=x.dtype), torch.zeros(x.shape[-1], dtype=x.dtype), eps
    )


ORDER = (
    "X W_Q W_K W_V X_norm Q K V scores attn_weights attn_out X1 X1_norm W_swiglu W_mlp_out "
    "x_proj x_gate x_val x_swish mlp_out X2"
).split()

VARIANTS = {
    "causal": "scores above the diagonal set to -inf before the softmax; otherwise the lesson's pre-norm RMSNorm SwiGLU block",
    "postnorm": "X1 = RMSNorm(X + Attention(X)); X2 = RMSNorm(X1 + SwiGLU(X1)); Attention and the MLP read the stream "
    "without a norm; gain 1, eps 1e-6; not causal",
    "postnorm_causal": "as postnorm, with the causal mask",
    "layernorm": "LayerNorm (gamma 1, beta 0, eps 1e-5, biased variance) where the lesson has RMSNorm; pre-norm, SwiGLU; not causal",
    "layernorm_causal": "as layernorm, with the causal mask",
    "gelu_erf": "MLP = gelu(X1_norm @ W1_gelu) @ W2_gelu, gelu(x) = x*(1+erf(x/sqrt 2))/2, no biases; pre-norm RMSNorm; not causal",
    "gelu_tanh": "as gelu_erf with the tanh form, 0.5*x*(1+tanh(sqrt(2/pi)*(x+0.044715*x^3)))",
    "gelu_tanh_causal": "as gelu_tanh, with the causal mask",
}


def variant_args(name):
    kw = dict(norm="rms", mlp="swiglu", place="pre", causal=name.endswith("causal"))
    if name.startswith("postnorm"):
        kw["place"] = "post"
    if name.startswith("layernorm"):
        kw["norm"] = "ln"
    if name.startswith("gelu_erf"):
        kw["mlp"] = "none"
    if name.startswith("gelu_tanh"):
        kw["mlp"] = "tanh"
    return kw


def worked_example(out, lesson_ns):
    torch.manual_seed(SEED)
    B, T, d = 1, 4, 8
    X = torch.randn(B, T, d)
    W_Q = torch.randn(d, d)
    W_K = torch.randn(d, d)
    W_V = torch.randn(d, d)
    W_swiglu = torch.randn(d, 32)
    W_mlp_out = torch.randn(16, d)
    W1_gelu = torch.randn(d, 32)
    W2_gelu = torch.randn(32, d)

    ins = dict(X=X, W_Q=W_Q, W_K=W_K, W_V=W_V, W_swiglu=W_swiglu, W_mlp_out=W_mlp_out, W1_gelu=W1_gelu, W2_gelu=W2_gelu)
    tens, stats, scale = {}, {}, {}

    def run(dt, norm, mlp, place, causal):
        i = {k: v.to(dt) for k, v in ins.items()}
        nf = rms_fn(1e-6) if norm == "rms" else ln_fn(1e-5)
        w = ("W_swiglu", "W_mlp_out") if mlp == "swiglu" else ("W1_gelu", "W2_gelu")
        return example(i["X"], i["W_Q"], i["W_K"], i["W_V"], i[w[0]], i[w[1]], nf, mlp, place, causal)

    base = {dt: run(dt, "rms", "swiglu", "pre", False) for dt in (torch.float32, torch.float64)}
    for k in ORDER:
        tens[k] = ins[k] if k in ins else base[torch.float32][k]
    for k in ("W1_gelu", "W2_gelu"):
        tens[k] = ins[k]
    for k in ORDER:
        if k not in ins:
            tens[k + "_f64"] = base[torch.float64][k]

    npin = {k: v.numpy() for k, v in ins.items()}
    for k, v in np_example(npin).items():
        check(f"example {k} float64 against numpy", base[torch.float64][k], v, 1e-13)

    for name in VARIANTS:
        kw = variant_args(name)
        r32, r64 = run(torch.float32, **kw), run(torch.float64, **kw)
        for k, v in np_example(npin, **kw).items():
            check(f"variant {name} {k} float64 against numpy", r64[k], v, 1e-13)
        for k in ("attn_weights", "attn_out", "X1", "mlp_out", "X2"):
            tens[f"{k}_{name}"] = r32[k]
            tens[f"{k}_{name}_f64"] = r64[k]

    for k in list(tens):
        if k + "_f64" in tens:
            a, b = tens[k].double(), tens[k + "_f64"]
            stats[k] = float(f"{float((a - b).abs().max()):.3g}")
            scale[k] = float(f"{float(b.abs().max()):.3g}")

    if lesson_ns:  # the lesson's own code, executed
        for k in ORDER:
            same(f"lesson text {k}", lesson_ns[k], tens[k])

    mt = Mt(SEED)  # the second reader draws the same inputs
    for k in ("X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out", "W1_gelu", "W2_gelu"):
        bits(f"generator {k}", ins[k].ravel(), mt.randn(ins[k].numel()))

    save(os.path.join(out, "worked_example.safetensors"), tens, seed=SEED, order=" ".join(ORDER), torch=torch.__version__)
    dump(
        os.path.join(out, "worked_example.json"),
        {
            "B": B,
            "T": T,
            "d": d,
            "digits": "values are rounded to 9 significant digits; every tensor in full precision is in worked_example.safetensors",
            "draw_order": ["X", "W_Q", "W_K", "W_V", "W_swiglu", "W_mlp_out", "W1_gelu", "W2_gelu"],
            "draw_order_note": "the first six are the lesson's; W1_gelu [8,32] and W2_gelu [32,8] are drawn after them under "
            "the same generator and only the gelu variants use them",
            "eps": 1e-6,
            "f64_note": "NAME_f64 is recomputed in float64 from the float32 inputs",
            "max_abs_diff_float32_float64": stats,
            "max_abs_value": scale,
            "order": ORDER,
            "seed": SEED,
            "shapes": {k: list(v.shape) for k, v in tens.items()},
            "values": {k: dig9(v) for k, v in tens.items()},
            "variants": VARIANTS,
        },
    )
    return tens
