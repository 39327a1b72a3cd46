#!/usr/bin/env python3
"""Golden data for the lesson "Inside the Transformer Block": its worked example, its decoder
block, its exercises and the generator behind them.

    tests/generators/make_lesson.py --out tests/golden [--lesson LESSON.txt]

Writes DIR/lesson/*.safetensors and *.json; versions.json and worked_example.json are not kept
here. Made with torch 2.13.0 (CPU with AVX2), numpy 2.4.6, safetensors 0.8.0.
With --lesson, the code printed in the lesson text is executed as it stands and the
data is compared with it bit for bit. Every number is also recomputed a second way
(numpy float64, a separate mt19937 reader, finite differences); the script stops at
the first disagreement and prints what it compared.
"""

import argparse
import json
import math
import os
import platform
import re

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.numpy import save_file

SEED = 42
CHECKS = []


# ---------------------------------------------------------------- small helpers


def jf(x):
    """A float the JSON writer prints as the shortest decimal of its own precision."""
    if isinstance(x, np.float32) or (torch.is_tensor(x) and x.dtype == torch.float32):
        return float(str(np.float32(float(x))))
    return float(x)


def jlist(t):
    a = t.detach().numpy() if torch.is_tensor(t) else np.asarray(t)
    if a.ndim == 0:
        return jf(a[()]) if a.dtype.kind == "f" else int(a)
    if a.ndim == 1:
        if a.dtype.kind == "f":
            return [jf(v) for v in a]
        return [int(v) for v in a]
    return [jlist(v) for v in a]


def dig9(t):
    """Nested list rounded to nine significant digits (enough to restore a float32)."""
    a = t.detach().numpy() if torch.is_tensor(t) else np.asarray(t)
    if a.ndim == 0:
        return float(f"{float(a):.9g}")
    return [dig9(v) for v in a]


def dump(path, obj):
    def compact(o, ind=0):
        # one key a line, lists of numbers on one line: readable and small
        pad = " " * ind
        if isinstance(o, dict):
            if not o:
                return "{}"
            body = ",\n".join(
                f"{pad} {json.dumps(str(k), ensure_ascii=False)}: {compact(o[k], ind + 1)}" for k in sorted(o, key=str)
            )
            return "{\n" + body + "\n" + pad + "}"
        if isinstance(o, list) and any(isinstance(v, dict) for v in o):
            return "[\n" + ",\n".join(pad + " " + compact(v, ind + 1) for v in o) + "\n" + pad + "]"
        return json.dumps(o, ensure_ascii=False, sort_keys=True, allow_nan=False)

    with open(path, "w", encoding="utf-8") as f:
        f.write(compact(obj) + "\n")


def save(path, tensors, **meta):
    out = {}
    for k, v in tensors.items():
        a = v.detach().numpy() if torch.is_tensor(v) else np.asarray(v)
        out[k] = np.array(a, order="C", copy=True)
    # one metadata entry: with several, their order in the file would change from run to run
    save_file(out, path, metadata={"about": json.dumps({k: str(v) for k, v in meta.items()}, sort_keys=True)})
    os.chmod(path, 0o644)


def check(name, got, want, tol, rel=True):
    g = np.asarray(got.detach() if torch.is_tensor(got) else got, dtype=np.float64)
    w = np.asarray(want.detach() if torch.is_tensor(want) else want, dtype=np.float64)
    assert g.shape == w.shape, (name, g.shape, w.shape)
    err = float(np.max(np.abs(g - w))) if g.size else 0.0
    if rel:
        err /= max(1.0, float(np.max(np.abs(w)))) if w.size else 1.0
    CHECKS.append((name, err, tol))
    assert err <= tol, f"{name}: {err} > {tol}"
    return err


def same(name, a, b):
    a, b = a.detach().numpy(), b.detach().numpy()
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), name
    CHECKS.append((name + " (bit for bit)", 0.0, 0.0))


# ---------------------------------------------------------------- the lesson's module


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


class SwiGLU(nn.Module):
    def __init__(self, d, hidden_mult=4):
        super().__init__()
        self.w = nn.Linear(d, d * hidden_mult, bias=False)
        self.w_out = nn.Linear(d * hidden_mult // 2, d, bias=False)

    def forward(self, x):
        gate, val = self.w(x).chunk(2, dim=-1)
        return self.w_out(F.silu(gate) * val)


class DecoderBlock(nn.Module):
    def __init__(self, d, n_heads=4):
        super().__init__()
        self.norm1 = RMSNorm(d)
        self.attn = nn.MultiheadAttention(d, n_heads, batch_first=True)
        self.norm2 = RMSNorm(d)
        self.mlp = SwiGLU(d)

    def forward(self, x, attn_mask=None):
        h = self.norm1(x)
        if attn_mask is None:
            attn_mask = torch.zeros(h.size(1), h.size(1), device=x.device, dtype=x.dtype)
        a, _ = self.attn(h, h, h, attn_mask=attn_mask, need_weights=False, is_causal=True)
        x = x + a
        return x + self.mlp(self.norm2(x))


class Exercise3Block(DecoderBlock):
    """Exercise 3: LayerNorm for RMSNorm, a GELU MLP for SwiGLU; the forward pass is unchanged."""

    def __init__(self, d, n_heads=4, approximate="none"):
        nn.Module.__init__(self)
        self.norm1 = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, n_heads, batch_first=True)
        self.norm2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate=approximate), nn.Linear(4 * d, d))


# ---------------------------------------------------------------- second way: numpy float64


def np_rms(x, eps, w=1.0):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def np_ln(x, eps, w=1.0, b=0.0):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * w + b


def np_softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def np_silu(x):
    return x / (1.0 + np.exp(-x))


def np_gelu_erf(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def np_gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def np_mha(x, W, b, Wo, bo, H):
    """Causal multi-head attention from packed projections, one head at a time."""
    B, T, d = x.shape
    dh = d // H
    out = np.zeros_like(x)
    for bi in range(B):
        qkv = x[bi] @ W.T + b
        q, k, v = qkv[:, :d], qkv[:, d : 2 * d], qkv[:, 2 * d :]
        cat = np.zeros((T, d))
        for h in range(H):
            s = slice(h * dh, (h + 1) * dh)
            sc = q[:, s] @ k[:, s].T / math.sqrt(dh)
            sc[np.triu_indices(T, 1)] = -np.inf
            cat[:, s] = np_softmax(sc) @ v[:, s]
        out[bi] = cat @ Wo.T + bo
    return out


def np_block(sd, x, H, norm="rms", mlp="swiglu", gelu=np_gelu_erf):
    p = {k: v.astype(np.float64) for k, v in sd.items()}

    def nrm(i, z):
        if norm == "rms":
            return np_rms(z, 1e-6, p[f"norm{i}.weight"])
        return np_ln(z, 1e-5, p[f"norm{i}.weight"], p[f"norm{i}.bias"])

    h = x + np_mha(
        nrm(1, x), p["attn.in_proj_weight"], p["attn.in_proj_bias"], p["attn.out_proj.weight"], p["attn.out_proj.bias"], H
    )
    z = nrm(2, h)
    if mlp == "swiglu":
        z = z @ p["mlp.w.weight"].T
        n = z.shape[-1] // 2
        return h + (np_silu(z[..., :n]) * z[..., n:]) @ p["mlp.w_out.weight"].T
    z = gelu(z @ p["mlp.0.weight"].T + p["mlp.0.bias"])
    return h + z @ p["mlp.2.weight"].T + p["mlp.2.bias"]


# ---------------------------------------------------------------- second way: the generator


def fma(a, b, c):
    """float32 a*b+c with one rounding (a*b is exact in extended precision)."""
    L = np.longdouble
    return (np.asarray(a, L) * np.asarray(b, L) + np.asarray(c, L)).astype(np.float32)


def logf_vec(x):
    """The 8-wide float32 logarithm torch uses in randn (Cephes polynomial, fused multiply-adds)."""
    f = np.float32
    coef = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1)
    coef += (-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
    m, e = np.frexp(x)  # x = m * 2^e, m in [0.5, 1)
    m, e = m.astype(f), e.astype(f)
    low = m < f(0.7071067811865476)
    e = np.where(low, e - f(1), e).astype(f)
    x = ((m - f(1)) + np.where(low, m, f(0))).astype(f)
    z = x * x
    y = np.full_like(x, f(coef[0]))
    for c in coef[1:]:
        y = fma(y, x, f(c))
    y = fma(y * x, z, e * f(-2.12194440e-4))
    y = fma(z, f(-0.5), y)
    return fma(e, f(0.693359375), x + y)


def sincosf_vec(x):
    """The matching sine and cosine for x >= 0 (Cephes, three-part reduction by pi/4)."""
    f = np.float32
    q = (x * f(1.27323954473516)).astype(np.int32)
    q = (q + 1) & ~1
    y = q.astype(f)
    for part in (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8):
        x = fma(y, f(part), x)
    z = x * x
    c = fma(fma(f(2.443315711809948e-5), z, f(-1.388731625493765e-3)), z, f(4.166664568298827e-2))
    c = fma(c * z, z, -(z * f(0.5))) + f(1)
    s = fma(fma(f(-1.9515295891e-4), z, f(8.3321608736e-3)), z, f(-1.6666654611e-1))
    s = fma(s * z, x, x)
    even = (q & 2) == 0
    sin, cos = np.where(even, s, c), np.where(even, c, s)
    return np.where(q & 4, -sin, sin), np.where(((q - 2) & 4) == 0, -cos, cos)


class Mt:
    """mt19937 read the way torch's CPU generator reads it (raw words from numpy's mt19937)."""

    def __init__(self, seed):
        bg = np.random.MT19937()
        bg._legacy_seeding(seed & 0xFFFFFFFF)
        self.bg = bg
        self.cached = None  # the second value of the last scalar Box-Muller pair

    def u32(self):
        return int(self.bg.random_raw())

    def u64(self):
        hi = self.u32()
        return (hi << 32) | self.u32()

    def uf(self):  # float32 uniform: 24 low bits of one word
        return np.float32(self.u32() & 0xFFFFFF) * np.float32(2.0**-24)

    def ud(self):  # float64 uniform: 53 low bits of two words (first word is the high half)
        return (self.u64() & ((1 << 53) - 1)) * 2.0**-53

    def uniform(self, n, a, b):  # float32 tensor.uniform_(a, b): one fused multiply-add
        a, b = np.float32(a), np.float32(b)
        return np.array([fma(self.uf(), b - a, a) for _ in range(n)], dtype=np.float32)

    def normal1(self):  # scalar path, always computed in double, values kept in pairs
        if self.cached is not None:
            v, self.cached = self.cached, None
            return v
        u1, u2 = self.ud(), self.ud()
        r, th = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        self.cached = r * math.sin(th)
        return r * math.cos(th)

    @staticmethod
    def _pairs(u):  # 16 uniforms -> 16 normals, element j pairs with j + 8
        u1, u2 = 1 - u[:8], u[8:]
        if u.dtype == np.float32:
            r = np.sqrt(np.float32(-2) * logf_vec(u1))
            s, c = sincosf_vec(np.float32(2 * math.pi) * u2)
            return np.concatenate([r * c, r * s])
        r, th = np.sqrt(-2.0 * np.log(u1)), 2.0 * math.pi * u2
        return np.concatenate([r * np.cos(th), r * np.sin(th)])

    def randn(self, n, dt=np.float32, exact=False):
        """exact: the float32 uniforms, but log, sine and cosine in double."""
        draw = self.ud if dt == np.float64 else self.uf
        if n < 16:
            return np.array([self.normal1() for _ in range(n)]).astype(dt)
        wide = np.float64 if exact else dt
        u = np.array([draw() for _ in range(n)], dtype=dt).astype(wide)
        out = u.copy()
        for i in range(0, n - 15, 16):
            out[i : i + 16] = self._pairs(u[i : i + 16])
        if n % 16:  # the last 16 values are drawn anew
            out[n - 16 :] = self._pairs(np.array([draw() for _ in range(16)], dtype=dt).astype(wide))
        return out


def bits(name, got, want):
    """Equal bit for bit."""
    g = np.ascontiguousarray(got.detach().numpy() if torch.is_tensor(got) else got)
    w = np.ascontiguousarray(want)
    assert g.dtype == w.dtype and g.shape == w.shape and g.tobytes() == w.tobytes(), (name, np.abs(g - w).max())
    CHECKS.append((name + " (bit for bit)", 0.0, 0.0))


# ---------------------------------------------------------------- 1. the worked example


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


# ---------------------------------------------------------------- 2. the generator


def randn_json(out):
    sizes = [1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100]
    doc = {"randn_float32": {}, "randn_float64": {}, "seed": SEED}
    for n in sizes:
        torch.manual_seed(SEED)
        a = torch.randn(n)
        torch.manual_seed(SEED)
        b = torch.randn(n, dtype=torch.float64)
        doc["randn_float32"][f"{n:03d}"] = jlist(a)
        doc["randn_float64"][f"{n:03d}"] = jlist(b)
        bits(f"generator randn({n}) float32", a, Mt(SEED).randn(n))
        check(f"generator randn({n}) float64", b, Mt(SEED).randn(n, np.float64), 1e-15)

    mt = Mt(SEED)
    words = [mt.u32() for _ in range(16)]
    doc["mt19937_words"] = words  # raw 32-bit outputs for seed 42 (from numpy's mt19937)
    # the generator's state array holds the seeded, not yet twisted, words
    g = torch.Generator().manual_seed(SEED)
    r = torch.randint(0, 1 << 20, (16,), generator=g).tolist()
    assert r == [w % (1 << 20) for w in words], "raw words disagree"
    CHECKS.append(("mt19937 words against torch.randint (exact)", 0.0, 0.0))

    torch.manual_seed(SEED)
    u = torch.rand(10)
    mt = Mt(SEED)
    assert [float(v) for v in u] == [float(mt.uf()) for _ in range(10)]
    doc["rand_10_float32"] = jlist(u)
    torch.manual_seed(SEED)
    u = torch.rand(10, dtype=torch.float64)
    mt = Mt(SEED)
    assert u.tolist() == [mt.ud() for _ in range(10)]
    doc["rand_10_float64"] = jlist(u)
    torch.manual_seed(SEED)
    i = torch.randint(0, 1000, (10,))
    mt = Mt(SEED)
    assert i.tolist() == [mt.u32() % 1000 for _ in range(10)]
    doc["randint_0_1000_10"] = i.tolist()
    torch.manual_seed(SEED)
    p = torch.randperm(10)
    mt, q = Mt(SEED), list(range(10))
    for j in range(9):
        z = mt.u32() % (10 - j)
        q[j], q[j + z] = q[j + z], q[j]
    assert p.tolist() == q, (p.tolist(), q)
    doc["randperm_10"] = p.tolist()
    CHECKS.append(("rand, randint, randperm against the second reader (exact)", 0.0, 0.0))

    # one generator across calls: the scalar path keeps the second value of a pair
    torch.manual_seed(SEED)
    seq = [torch.randn(3), torch.rand(2), torch.randn(1), torch.randn(16), torch.randn(1), torch.randn(20), torch.randn(5)]
    mt = Mt(SEED)
    want = [mt.randn(3), [mt.uf(), mt.uf()], mt.randn(1), mt.randn(16), mt.randn(1), mt.randn(20), mt.randn(5)]
    for j, (a, b) in enumerate(zip(seq, want)):
        bits(f"generator sequence step {j}", a, np.array(b, dtype=np.float32))
    doc["sequence"] = {
        "calls": "randn(3), rand(2), randn(1), randn(16), randn(1), randn(20), randn(5), float32, one generator, no reseeding",
        "values": [jlist(a) for a in seq],
    }
    doc["other_seeds_randn_8_and_16"] = {}
    for s in (0, 1, 123456789, 2**32 - 1, 2**32 + 42, 2**63 + 5):
        torch.manual_seed(s)
        a = torch.randn(8)
        torch.manual_seed(s)
        b = torch.randn(16)
        bits(f"generator seed {s}", torch.cat([a, b]), np.concatenate([Mt(s).randn(8), Mt(s).randn(16)]))
        doc["other_seeds_randn_8_and_16"][str(s)] = [jlist(a), jlist(b)]

    # initialisers
    torch.manual_seed(SEED)
    k = torch.empty(4, 8)
    nn.init.kaiming_uniform_(k, a=math.sqrt(5))
    bound = 1 / math.sqrt(8)
    bits("kaiming_uniform_ a=sqrt 5", k, Mt(SEED).uniform(32, -bound, bound).reshape(4, 8))
    torch.manual_seed(SEED)
    k0 = torch.empty(4, 8)
    nn.init.kaiming_uniform_(k0)
    b0 = math.sqrt(2.0) * math.sqrt(3.0) / math.sqrt(8)
    bits("kaiming_uniform_ a=0", k0, Mt(SEED).uniform(32, -b0, b0).reshape(4, 8))
    torch.manual_seed(SEED)
    lin = nn.Linear(8, 4)
    mt = Mt(SEED)
    bits("Linear weight", lin.weight, mt.uniform(32, -bound, bound).reshape(4, 8))
    bits("Linear bias", lin.bias, mt.uniform(4, -bound, bound))
    torch.manual_seed(SEED)
    mha = nn.MultiheadAttention(8, 2)
    mt = Mt(SEED)
    bits("MultiheadAttention out_proj.weight", mha.out_proj.weight, mt.uniform(64, -bound, bound).reshape(8, 8))
    mt.uniform(8, -bound, bound)  # out_proj.bias: drawn, then set to 0
    xb = math.sqrt(3.0) * math.sqrt(2.0 / (8 + 24))
    bits("MultiheadAttention in_proj_weight", mha.in_proj_weight, mt.uniform(192, -xb, xb).reshape(24, 8))
    assert not mha.in_proj_bias.detach().any() and not mha.out_proj.bias.detach().any()
    torch.manual_seed(SEED)
    emb = nn.Embedding(5, 6)
    bits("Embedding weight", emb.weight.ravel(), Mt(SEED).randn(30))
    torch.manual_seed(SEED)
    xu = torch.empty(3, 5)
    nn.init.xavier_uniform_(xu)
    xb = math.sqrt(3.0) * math.sqrt(2.0 / 8)
    bits("xavier_uniform_", xu, Mt(SEED).uniform(15, -xb, xb).reshape(3, 5))
    doc["init"] = {
        "Embedding_5_6": {"weight": jlist(emb.weight)},
        "Linear_8_4": {"bias": jlist(lin.bias), "weight": jlist(lin.weight)},
        "MultiheadAttention_8_2": {k: jlist(v) for k, v in mha.state_dict().items()},
        "kaiming_uniform_4x8_a_0": jlist(k0),
        "kaiming_uniform_4x8_a_sqrt5": jlist(k),
        "xavier_uniform_3x5": jlist(xu),
    }
    doc["notes"] = {
        "MultiheadAttention": "draw order: out_proj.weight uniform(+-1/sqrt(E)), out_proj.bias (E words drawn, then set to 0), "
        "in_proj_weight [3E,E] xavier uniform(+-sqrt(6/(E+3E))); in_proj_bias is 0 and draws nothing",
        "float32_uniform": "one 32-bit word w per value: u = (w & 0xffffff) * 2^-24; uniform_(a,b) is then fma(u, b-a, a) in float32 "
        "(one rounding: with a rounded product half the values are off by one unit in the last place)",
        "float32_wide_path": "randn of 16 or more float32 values on a CPU with AVX2 (AVX-512 takes the same code): log, sin and cos are "
        "8-wide single-precision Cephes polynomials with fused multiply-adds; src/base/box_muller.cc does the same. "
        "Other builds (no AVX2, other processors) use the C library's functions and differ "
        "by up to 2e-6.",
        "float64_uniform": "two words per value, the first is the high half of a 64-bit number z: (z & (2^53-1)) * 2^-53",
        "kaiming_linear": "Linear: weight then bias, both uniform(+-1/sqrt(fan_in)) (kaiming_uniform_ with a=sqrt 5)",
        "randint": "word % range for ranges below 2^28",
        "randn_16_or_more": "n uniforms u (float32: one word each; float64: two); each whole group of 16: for j in 0..7 "
        "r = sqrt(-2 log(1-u[j])), t = 2 pi u[j+8], value[j] = r cos t, value[j+8] = r sin t; if n % 16 != 0 the LAST 16 "
        "values are then overwritten from 16 newly drawn uniforms by the same rule",
        "randn_below_16": "scalar, always in double and then rounded: u1, u2 float64 uniforms (in this order), "
        "r = sqrt(-2 log1p(-u2)), t = 2 pi u1; yields r cos t now and keeps r sin t for the next scalar normal "
        "(kept across calls, also across rand and large randn; manual_seed drops it)",
        "randperm": "for i in 0..n-2: z = word % (n-i); swap(r[i], r[i+z])",
        "seed": "only the low 32 bits of the seed are used: 2^32+42 gives the values of 42",
    }
    # how far the vectorised Box-Muller is from exact arithmetic
    worst, n_equal, total = 0.0, 0, 0
    for s in range(50):
        torch.manual_seed(s)
        a = torch.randn(1600)
        bits(f"generator randn(1600) seed {s}", a, Mt(s).randn(1600))
        b = Mt(s).randn(1600, exact=True)
        worst = max(worst, float(np.abs(a.numpy().astype(np.float64) - b).max()))
        n_equal += int((a.numpy() == b.astype(np.float32)).sum())
        total += 1600
    doc["float32_wide_path_against_exact_arithmetic"] = {
        "max_abs_diff": float(f"{worst:.3g}"),
        "note": "50 seeds (0..49) of 1600 values, against log, sin and cos in double from the same float32 uniforms",
        "share_equal_after_rounding": float(f"{n_equal / total:.4g}"),
    }
    dump(os.path.join(out, "randn.json"), doc)


# ---------------------------------------------------------------- 3. the block


def grads_of(block, X):
    X = X.clone().requires_grad_(True)
    block.zero_grad()
    loss = (block(X) ** 2).mean()
    loss.backward()
    return loss.detach(), X.grad, {k: p.grad for k, p in block.named_parameters()}


def fd_check(name, block, X, H, gX, gP, n=24, **kw):
    """Central differences through the numpy float64 block."""
    sd = {k: v.detach().double().numpy() for k, v in block.state_dict().items()}
    x0 = X.double().numpy()
    rng = np.random.default_rng(7)

    def loss(sd, x):
        return float((np_block(sd, x, H, **kw) ** 2).mean())

    worst = 0.0
    for _ in range(n):
        i = tuple(rng.integers(0, s) for s in x0.shape)
        h = 1e-5
        a, b = x0.copy(), x0.copy()
        a[i] += h
        b[i] -= h
        fd = (loss(sd, a) - loss(sd, b)) / (2 * h)
        worst = max(worst, abs(fd - float(gX[i])))
    for k in sd:
        for _ in range(4):
            i = tuple(rng.integers(0, s) for s in sd[k].shape)
            h = 1e-5
            a, b = dict(sd), dict(sd)
            a[k], b[k] = sd[k].copy(), sd[k].copy()
            a[k][i] += h
            b[k][i] -= h
            fd = (loss(a, x0) - loss(b, x0)) / (2 * h)
            worst = max(worst, abs(fd - float(gP[k][i])))
    CHECKS.append((f"{name} gradients against central differences", worst, 1e-8))
    assert worst < 1e-8, (name, worst)


def block_data(cls, d, H, xshape, np_kw, label, **ckw):
    torch.manual_seed(SEED)
    block = cls(d, n_heads=H, **ckw)
    X = torch.randn(*xshape)
    # the whole construction once more from the second reader, in the order torch draws
    mt, bd, xb = Mt(SEED), 1 / math.sqrt(d), math.sqrt(3.0) * math.sqrt(2.0 / (4 * d))
    want = {"attn.out_proj.weight": mt.uniform(d * d, -bd, bd)}
    mt.uniform(d, -bd, bd)
    want["attn.in_proj_weight"] = mt.uniform(3 * d * d, -xb, xb)
    for name in ("mlp.w.weight", "mlp.w_out.weight", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias"):
        if name in block.state_dict():
            fan = {"mlp.w_out.weight": 2 * d, "mlp.2.weight": 4 * d, "mlp.2.bias": 4 * d}.get(name, d)
            want[name] = mt.uniform(block.state_dict()[name].numel(), -1 / math.sqrt(fan), 1 / math.sqrt(fan))
    want["X"] = mt.randn(X.numel())
    for name, v in want.items():
        bits(f"generator {label} {name}", (X if name == "X" else block.state_dict()[name]).ravel(), v)
    res = {f"param.{k}": v for k, v in block.state_dict().items()}
    res["X"] = X
    outs = {}
    for tag, dt in (("", torch.float32), ("_f64", torch.float64)):
        b = cls(d, n_heads=H, **ckw)
        b.load_state_dict(block.state_dict())
        b = b.to(dt)
        x = X.to(dt)
        outs["out" + tag] = b(x).detach()
        loss, gx, gp = grads_of(b, x)
        outs["loss" + tag] = loss
        res["grad_X" + tag] = gx
        for k, g in gp.items():
            res[f"grad{tag}.{k}"] = g
        if dt == torch.float64:
            fd_check(label, b, x, H, gx, gp, **np_kw)
    res.update(outs)
    sd = {k: v.numpy() for k, v in block.state_dict().items()}
    check(f"{label} output float64 against numpy", outs["out_f64"], np_block(sd, X.double().numpy(), H, **np_kw), 1e-13)
    return block, X, res


def decoder_block(out, lesson_ns):
    block, X, res = block_data(DecoderBlock, 32, 4, (1, 4, 32), {}, "DecoderBlock d=32")
    Xc = X.clone()
    Xc[0, 2, :] = 999.0
    res["X_corrupt"] = Xc
    res["out_corrupt"] = block(Xc).detach()
    b64 = DecoderBlock(32, 4)
    b64.load_state_dict(block.state_dict())
    b64 = b64.double()
    res["out_corrupt_f64"] = b64(Xc.double()).detach()
    sd = {k: v.numpy() for k, v in block.state_dict().items()}
    check("corrupted output float64 against numpy", res["out_corrupt_f64"], np_block(sd, Xc.double().numpy(), 4), 1e-13)
    o, oc = res["out"], res["out_corrupt"]
    doc = {
        "causal": {
            "max_abs_diff_position": [float(f"{float((o[0, i] - oc[0, i]).abs().max()):.3g}") for i in range(4)],
            "note": "difference between out and out_corrupt at positions 0..3 (grad mode); 0 and 1 must not move",
        },
        "loss_float32": jf(res["loss"]),
        "loss_float64": jf(res["loss_f64"]),
        "loss_note": "(out**2).mean()",
        "seed": SEED,
        "shapes": {k: list(v.shape) for k, v in res.items()},
    }

    # how torch treats the mask arguments of this block
    block.eval()
    with torch.no_grad():
        e, ec = block(X), block(Xc)
        odd = block(X, attn_mask=torch.randn(4, 4, generator=torch.Generator().manual_seed(1)))
        h = block.norm1(X)
        z = torch.zeros(4, 4)
        nw = block.attn(h, h, h, attn_mask=z, need_weights=True, is_causal=True)[0]
        un = block.attn(h, h, h, need_weights=False)[0]
        ca = block.attn(h, h, h, attn_mask=z, need_weights=False, is_causal=True)[0]
    block.train()
    assert torch.equal(e, o) and torch.equal(ec, oc)
    doc["mask_facts"] = {
        "an_attn_mask_passed_to_the_block_changes_nothing": bool(torch.equal(odd, o)),
        "eval_mode_without_gradients_gives_the_same_bits": bool(torch.equal(e, o)),
        "max_abs_diff_need_weights_true_from_causal": float(f"{float((nw - ca).abs().max()):.6g}"),
        "max_abs_diff_need_weights_true_from_unmasked": float(f"{float((nw - un).abs().max()):.3g}"),
        "note": "nn.MultiheadAttention drops attn_mask when is_causal=True and need_weights=False, so the block ignores any mask "
        "handed to it and is always causal. With need_weights=True the same call uses the all-zero mask as it stands and is "
        "NOT causal (the lesson does not do that).",
    }

    # the large block of Test 1, and block2 as the lesson draws it (same generator, after Test 1)
    torch.manual_seed(SEED)
    big = DecoderBlock(d=256, n_heads=8)
    XB = torch.randn(2, 128, 256)
    OB = big(XB).detach()
    small = DecoderBlock(d=32, n_heads=4)
    XS = torch.randn(1, 4, 32)
    OS = small(XS).detach()
    if lesson_ns:
        same("lesson text Test 1 output", lesson_ns["out"], OB)
        same("lesson text Test 2 output", lesson_ns["out_base"], OS)
    sdb = {k: v.numpy() for k, v in big.state_dict().items()}
    big64 = DecoderBlock(256, 8)
    big64.load_state_dict(big.state_dict())
    OB64 = big64.double()(XB.double()).detach()
    check("DecoderBlock d=256 float64 against numpy", OB64, np_block(sdb, XB.double().numpy(), 8), 1e-13)
    check("DecoderBlock d=256 float32 against float64", OB, OB64, 2e-6)
    doc["d256"] = {
        "X": {"first_16": jlist(XB.ravel()[:16]), "sum": float(XB.double().sum()), "sum_of_squares": float((XB.double() ** 2).sum())},
        "float32": {
            "first_16": jlist(OB.ravel()[:16]),
            "last_16": jlist(OB.ravel()[-16:]),
            "sum": float(OB.double().sum()),
            "sum_of_squares": float((OB.double() ** 2).sum()),
        },
        "float64": {
            "first_16": jlist(OB64.ravel()[:16]),
            "last_16": jlist(OB64.ravel()[-16:]),
            "sum": float(OB64.sum()),
            "sum_of_squares": float((OB64**2).sum()),
        },
        "max_abs_diff_float32_float64": float(f"{float((OB.double() - OB64).abs().max()):.3g}"),
        "note": "torch.manual_seed(42); DecoderBlock(d=256, n_heads=8); X = randn(2,128,256). 'float32': the float32 output, summed "
        "in float64. 'float64': parameters and X widened to float64, block run in float64.",
        "parameters": {k: {"first_4": jlist(v.ravel()[:4]), "sum": float(v.double().sum())} for k, v in big.state_dict().items()},
    }
    doc["lesson_test2"] = {
        "X_base": {"first_16": jlist(XS.ravel()[:16])},
        "note": "block2 = DecoderBlock(d=32, n_heads=4) and X_base as the lesson's listing draws them: one manual_seed(42), after Test 1",
        "out_base_first_16": jlist(OS.ravel()[:16]),
        "out_base_sum": float(OS.double().sum()),
        "out_base_sum_of_squares": float((OS.double() ** 2).sum()),
    }
    save(os.path.join(out, "decoder_block.safetensors"), res, seed=SEED, d=32, n_heads=4, torch=torch.__version__)
    dump(os.path.join(out, "decoder_block.json"), doc)


# ---------------------------------------------------------------- 4. the exercises


def exercises(out):
    torch.manual_seed(0)
    x = torch.randn(2, 16, 512)
    w = torch.randn(512)
    mt = Mt(0)
    bits("generator exercise 1 x", x.ravel(), mt.randn(x.numel()))
    bits("generator exercise 1 weight", w, mt.randn(512))
    idx = np.sort(np.random.default_rng(1).choice(2 * 16 * 512, 64, replace=False))
    ex1 = {
        "draw_order": "torch.manual_seed(0); x = torch.randn(2,16,512); weight = torch.randn(512)",
        "eps_note": "nn.RMSNorm(512) has eps=None: it uses torch.finfo(x.dtype).eps (2^-23 for float32, 2^-52 for float64). "
        "The lesson's RMSNorm has 1e-6.",
        "index": [[int(i) // 8192, int(i) // 512 % 16, int(i) % 512] for i in idx],
        "outputs": {},
    }
    for tag, eps in (("eps_none", None), ("eps_1e-6", 1e-6)):
        for dt, dn in ((torch.float32, "float32"), (torch.float64, "float64")):
            m = nn.RMSNorm(512, eps=eps).to(dt)
            with torch.no_grad():
                m.weight.copy_(w.to(dt))
                y = m(x.to(dt)).ravel()
            e = eps if eps is not None else torch.finfo(dt).eps
            want = np_rms(x.double().numpy(), e, w.double().numpy()).ravel()
            check(f"exercise 1 {tag} {dn}", y, want, 3e-7 if dt == torch.float32 else 1e-14)
            ex1["outputs"][f"{tag}_{dn}"] = jlist(y[idx])
    # and the lesson's own class
    mine = RMSNorm(512)
    with torch.no_grad():
        mine.weight.copy_(w)
        y = mine(x)
        ref = nn.RMSNorm(512, eps=1e-6)
        ref.weight.copy_(w)
        r = ref(x)
    ex1["max_abs_diff_lesson_class_nn_RMSNorm_float32_eps_1e-6"] = float(f"{float((y - r).abs().max()):.3g}")
    save(os.path.join(out, "exercise1.safetensors"), {"x": x, "weight": w}, seed=0)

    m = SwiGLU(512)
    sh = {k: list(v.shape) for k, v in m.state_dict().items()}
    n = sum(p.numel() for p in m.parameters())
    assert n == 6 * 512 * 512 == 1572864
    gelu = nn.Sequential(nn.Linear(512, 2048, bias=False), nn.GELU(), nn.Linear(2048, 512, bias=False))
    ex2 = {
        "combined_projection_as_written": [512, 2048],
        "combined_projection_stored_by_nn_Linear": sh["w.weight"],
        "combined_projection_parameters": 4 * 512 * 512,
        "d": 512,
        "formula": "4*d*d + 2*d*d = 6*d*d",
        "gelu_mlp_total_without_bias": sum(p.numel() for p in gelu.parameters()),
        "gelu_mlp_total_with_bias": 8 * 512 * 512 + 5 * 512,
        "note": "equal expansion (4*d*d) but not equal totals: the GELU MLP's output projection is [4d,d], so 8*d*d in all",
        "output_projection_as_written": [1024, 512],
        "output_projection_stored_by_nn_Linear": sh["w_out.weight"],
        "output_projection_parameters": 2 * 512 * 512,
        "total": n,
    }

    kw_e = dict(norm="ln", mlp="gelu", gelu=np_gelu_erf)
    kw_t = dict(norm="ln", mlp="gelu", gelu=np_gelu_tanh)
    _, X, r = block_data(Exercise3Block, 32, 4, (1, 4, 32), kw_e, "exercise 3 erf", approximate="none")
    _, X2, t = block_data(Exercise3Block, 32, 4, (1, 4, 32), kw_t, "exercise 3 tanh", approximate="tanh")
    assert torch.equal(X, X2)
    for k, v in t.items():
        if k.startswith(("out", "loss")) or k.startswith("grad"):
            r["tanh." + k] = v
    save(os.path.join(out, "exercise3.safetensors"), r, seed=SEED, d=32, n_heads=4, torch=torch.__version__)
    ex3 = {
        "erf_loss_float64": jf(r["loss_f64"]),
        "erf_out_first_16_float32": jlist(r["out"].ravel()[:16]),
        "max_abs_diff_erf_tanh": float(f"{float((r['out_f64'] - r['tanh.out_f64']).abs().max()):.6g}"),
        "note": "torch.manual_seed(42); block (norm1, attn, norm2, mlp in this order: LayerNorm eps 1e-5; mlp = Linear(32,128), GELU, "
        "Linear(128,32), with biases); X = randn(1,4,32). Causal. Same parameters for both forms of GELU; names with the "
        "prefix 'tanh.' belong to GELU(approximate='tanh'). Gradients are of (out**2).mean().",
        "parameters": sum(v.numel() for k, v in r.items() if k.startswith("param.")),
        "shapes": {k: list(v.shape) for k, v in r.items()},
        "tanh_loss_float64": jf(r["tanh.loss_f64"]),
        "tanh_out_first_16_float32": jlist(r["tanh.out"].ravel()[:16]),
    }
    dump(os.path.join(out, "exercises.json"), {"exercise1": ex1, "exercise2": ex2, "exercise3": ex3})


# ---------------------------------------------------------------- the lesson's listing, executed


def run_lesson(path):
    text = open(path, encoding="utf-8").read()
    parts = re.findall(r"^import torch\nimport torch\.nn as nn\n.*?(?=^(?:Shape trace summary:|7\. Engineering))", text, re.S | re.M)
    assert len(parts) == 2, len(parts)
    a, b = {}, {}
    exec(compile(parts[0], "lesson-example", "exec"), a)  # the text is the lesson's published listing
    exec(compile(parts[1], "lesson-block", "exec"), b)
    return a, b


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True, help="the golden folder; DIR/lesson is written")
    ap.add_argument("--lesson", help="the lesson text, to compare with its own listings")
    args = ap.parse_args()
    torch.set_num_threads(1)
    out = os.path.join(args.out, "lesson")
    os.makedirs(out, exist_ok=True)
    a, b = run_lesson(args.lesson) if args.lesson else (None, None)
    worked_example(out, a)
    randn_json(out)
    decoder_block(out, b)
    exercises(out)
    dump(
        os.path.join(out, "versions.json"),
        {
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "threads": 1,
            "torch": torch.__version__,
        },
    )
    for name, err, tol in CHECKS:
        print(f"{err:10.3g} <= {tol:8.1g}  {name}")
    print(len(CHECKS), "checks passed")


if __name__ == "__main__":
    main()
