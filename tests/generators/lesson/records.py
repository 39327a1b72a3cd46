"""Writes golden files, and compares what is written with a second way to compute it."""

import json
import os

import numpy as np
import torch
from safetensors.numpy import save_file

SEED = 42
CHECKS = []  # (what was compared, error, bound) of every comparison, for the report at the end


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


def bits(name, got, want):
    """Equal bit for bit."""
    g = np.ascontiguousarray(got.detach().numpy() if torch.is_tensor(got) else got)
    w = np.ascontiguousarray(want)
    assert g.dtype == w.dtype and g.shape == w.shape and g.tobytes() == w.tobytes(), (name, np.abs(g - w).max())
    CHECKS.append((name + " (bit for bit)", 0.0, 0.0))
