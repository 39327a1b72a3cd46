"""The lesson's three exercises."""

import os

import numpy as np
import torch
import torch.nn as nn

from lesson.decoder_block import block_data
from lesson.numpy_blocks import np_gelu_erf, np_gelu_tanh, np_rms
from lesson.records import SEED, bits, check, dump, jf, jlist, save
from lesson.torch_blocks import Exercise3Block, RMSNorm, SwiGLU
from lesson.torch_random import Mt


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
