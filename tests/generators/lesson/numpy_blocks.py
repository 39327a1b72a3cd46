"""The second way to compute a block: numpy in float64."""

import math

import numpy as np


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
