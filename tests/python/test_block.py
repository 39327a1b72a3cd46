"""Blocks over arrays that Python owns."""

import dataclasses

import numpy as np
import pytest

import mainstem as ms
from mainstem import _core


def plain_block(spec, weights, x):
    """The same block in numpy, in double: pre-norm, half-split rotary, causal, SwiGLU."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    heads, width = spec.attention.heads, spec.attention.head_width
    batch, tokens, _ = x.shape

    def norm(v, weight):
        return v / np.sqrt(np.mean(v * v, -1, keepdims=True) + spec.norm.eps) * weight

    def split(v):
        return v.reshape(batch, tokens, heads, width).transpose(0, 2, 1, 3)

    def turn(v):
        half = width // 2
        angles = np.arange(tokens)[:, None] * spec.attention.rotary.base ** (-2 * np.arange(half) / width)
        a, b = v[..., :half], v[..., half:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles), b * np.cos(angles) + a * np.sin(angles)], -1)

    x = x.astype(np.float64)
    n = norm(x, w["attn_norm.weight"])
    q, k, v = (split(n @ w[f"{name}.weight"].T) for name in "qkv")
    scores = turn(q) @ turn(k).transpose(0, 1, 3, 2) / np.sqrt(width)
    scores[..., np.triu(np.ones((tokens, tokens), bool), 1)] = -np.inf
    pattern = np.exp(scores - scores.max(-1, keepdims=True))
    pattern /= pattern.sum(-1, keepdims=True)
    mixed = (pattern @ v).transpose(0, 2, 1, 3).reshape(batch, tokens, heads * width)
    x = x + mixed @ w["attn_proj.weight"].T
    n = norm(x, w["mlp_norm.weight"])
    gate = n @ w["mlp_gate.weight"].T
    return x + (gate / (1 + np.exp(-gate)) * (n @ w["mlp_value.weight"].T)) @ w["mlp_proj.weight"].T


@pytest.fixture
def x():
    return np.random.default_rng(6).standard_normal((2, 5, 8)).astype(np.float32)


def test_a_block_equals_numpy(block_spec, block_weights, x):
    block = ms.Block(block_spec, block_weights)
    want = plain_block(block_spec, block_weights, x)
    double = block.forward(x.astype(np.float64))
    assert double.dtype == np.float64 and double.shape == x.shape
    assert np.abs(double - want).max() <= 1e-13 * np.abs(want).max()
    single = block(x)
    assert single.dtype == np.float32
    assert np.abs(single - want).max() <= 1e-5 * np.abs(want).max()
    assert (block(x[0]) == single[0]).all() and block(x[0]).shape == (5, 8)


def test_weights_are_viewed(block_spec, block_weights, x):
    block = ms.Block(block_spec, block_weights)
    before = block.forward(x, compute="f64")
    block_weights["mlp_proj.weight"] *= 0  # in place: the block sees it
    after = block.forward(x, compute="f64")
    assert not np.array_equal(before, after)
    assert (after == block.trace(x, "resid_mid", compute="f64")["resid_mid"]).all()


def test_weights_stay_alive_with_the_block(block_spec, block_weights, x):
    want = ms.Block(block_spec, block_weights)(x)
    block = ms.Block(block_spec, {name: value.copy() for name, value in block_weights.items()})
    filler = [np.full(value.shape, 7, value.dtype) for value in block_weights.values() for _ in range(20)]
    assert (block(x) == want).all() and filler


def test_transposed_matrices_are_laid_out_anew(block_spec, block_weights, x):
    turned = {name: np.asfortranarray(value) for name, value in block_weights.items()}
    assert not turned["mlp_gate.weight"].flags.c_contiguous
    block = ms.Block(block_spec, turned)
    assert (block(x) == ms.Block(block_spec, block_weights)(x)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_weights_of_other_types(block_spec, block_weights, x, dtype):
    stored = {name: value.astype(dtype) for name, value in block_weights.items()}
    same = {name: value.astype(np.float64) for name, value in stored.items()}
    got = ms.Block(block_spec, stored).forward(x, compute="f64")
    assert (got == ms.Block(block_spec, same).forward(x, compute="f64")).all()


def test_read_only_weights(block_spec, block_weights, x):
    want = ms.Block(block_spec, block_weights)(x)
    for value in block_weights.values():
        value.flags.writeable = False
    assert (ms.Block(block_spec, block_weights)(x) == want).all()


def test_full_names_and_traces(block_spec, block_weights, x):
    block = ms.Block(block_spec, {f"blocks.0.{name}": value for name, value in block_weights.items()})
    trace = block.trace(x, "q*,pattern,resid_post")
    assert list(trace) == ["q", "q_rot", "pattern", "resid_post"]
    assert trace["pattern"].shape == (2, 2, 5, 5) and trace["resid_post"].dtype == np.float32
    want = block(x)  # a pass that shows its pattern rounds it
    assert np.abs(trace["resid_post"] - want).max() <= 1e-5 * np.abs(want).max()
    assert [site.name for site in block.sites][0] == "resid_pre"


def test_the_classes_have_the_librarys_fields(block_spec):
    held = _core.normalised_block_spec(block_spec.to_dict())
    assert held == block_spec.to_dict()

    def same_fields(kind, fields):
        assert {each.name for each in dataclasses.fields(kind)} == set(fields)

    same_fields(ms.BlockSpec, held)
    same_fields(ms.AttentionSpec, held["attention"])
    same_fields(ms.RotarySpec, held["attention"]["rotary"])
    same_fields(ms.RotaryScaling, held["attention"]["rotary"]["scaling"])
    same_fields(ms.MlpSpec, held["mlp"])
    same_fields(ms.NormSpec, held["norm"])


def test_defaults_that_follow_from_others():
    attention = ms.AttentionSpec(heads=6, head_width=16)
    assert attention.kv_heads == 6 and attention.score_scale == 0.25


def replaced(spec, **changes):
    return dataclasses.replace(spec, **changes)


def test_wrong_blocks(block_spec, block_weights, x):
    def expect(kind, text, spec=block_spec, **weights):
        with pytest.raises(kind, match=text):
            ms.Block(spec, {**block_weights, **weights})

    expect(ms.UsageError, "placement: expected pre, post", replaced(block_spec, placement="middle"))
    expect(ms.UsageError, "width: expected a number", replaced(block_spec, width="8"))
    expect(ms.Error, "kv heads: expected a divisor", replaced(block_spec, attention=ms.AttentionSpec(3, 4, kv_heads=2)))
    expect(ms.BadInputError, "q.weight", **{"q.weight": np.zeros((8, 7), np.float32)})
    expect(ms.UsageError, "'w1'.*|weights: expected", w1=np.zeros(3, np.float32))
    expect(ms.BadInputError, "contiguous", **{"q.weight": np.zeros((8, 16), np.float32)[:, ::2]})
    expect(ms.UsageError, "numpy array, a torch tensor", **{"q.weight": [1, 2]})
    expect(ms.UsageError, "array of numbers", **{"q.weight": np.array([["a"]])})
    missing = {name: value for name, value in block_weights.items() if name != "k.weight"}
    with pytest.raises(ms.BadInputError, match="k.weight"):
        ms.Block(block_spec, missing)
    block = ms.Block(block_spec, block_weights)
    with pytest.raises(ms.UsageError, match="D = 8"):
        block(x[..., :7])
