"""The lesson's decoder block: outputs, gradients, causality."""

import math
import os

import numpy as np
import torch

from lesson.numpy_blocks import np_block
from lesson.records import CHECKS, SEED, bits, check, dump, jf, jlist, same, save
from lesson.torch_blocks import DecoderBlock
from lesson.torch_random import Mt


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
