"""What the generator behind the lesson draws."""

import math
import os

import numpy as np
import torch
import torch.nn as nn

from lesson.records import CHECKS, SEED, bits, check, dump, jlist
from lesson.torch_random import Mt


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
