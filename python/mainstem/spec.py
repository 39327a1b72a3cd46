"""What a block and a model are. The classes have the fields of <mainstem/spec.h> under their own names;
words stand for its enums."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

Activation = Literal["relu", "relu2", "gelu-erf", "gelu-tanh", "silu", "quick-gelu"]


@dataclass
class NormSpec:
    """A norm. layer: (x - mean) / sqrt(var + eps); rms: x / sqrt(mean(x²) + eps)."""

    kind: Literal["layer", "rms"] = "rms"
    eps: float = 1e-5
    weight_offset: float = 0.0
    """The weight used is offset + w (Gemma: 1)."""
    weight: bool = True
    bias: bool = False


@dataclass
class RotaryScaling:
    kind: Literal["none", "linear", "dynamic", "yarn", "llama3", "longrope", "divisors"] = "none"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    short_divisors: list[float] = field(default_factory=list)
    long_divisors: list[float] = field(default_factory=list)


@dataclass
class RotarySpec:
    """Rotary positions: pair j turns by position · base^(-2j/width)."""

    width: int
    """Channels of each head that turn, from channel 0; even."""
    pairing: Literal["half-split", "interleaved"] = "half-split"
    base: float = 10000.0
    scaling: RotaryScaling = field(default_factory=RotaryScaling)


@dataclass
class QkNormSpec:
    norm: NormSpec
    scope: Literal["per-head", "whole"] = "per-head"
    weight_per_head: bool = False
    after_rotary: bool = False


@dataclass
class AttentionSpec:
    heads: int
    """H"""
    head_width: int
    """E"""
    kv_heads: int | None = None
    """K, divides H; None: H."""
    q_bias: bool = False
    k_bias: bool = False
    v_bias: bool = False
    output_bias: bool = False
    output_projection: bool = True
    qk_norm: QkNormSpec | None = None
    rotary: RotarySpec | None = None
    alibi_slopes: list[float] = field(default_factory=list)
    mask: Literal["causal", "full", "window"] = "causal"
    window: int = 0
    """mask="window" only."""
    score_scale: float | None = None
    """Multiplies q·k; None: 1/√E."""
    soft_cap: float = 0.0
    """0: none; else cap · tanh(score / cap), before the mask."""

    def __post_init__(self) -> None:
        if self.kv_heads is None:
            self.kv_heads = self.heads
        if self.score_scale is None:
            self.score_scale = self.head_width**-0.5 if self.head_width > 0 else 0.0


@dataclass
class MlpSpec:
    hidden: int
    """F"""
    gated: bool = True
    """act(gate) · value, with two up projections; else act(x W)."""
    activation: Activation = "silu"
    combined: bool = False
    """gated: gate and value lie in one matrix [2F,D], gate rows first."""
    up_bias: bool = False
    down_bias: bool = False


@dataclass
class BlockSpec:
    """One transformer block.

    >>> BlockSpec(width=8, attention=AttentionSpec(heads=2, head_width=4), mlp=MlpSpec(hidden=16)).placement
    'pre'
    """

    width: int
    """D"""
    attention: AttentionSpec
    mlp: MlpSpec
    norm: NormSpec = field(default_factory=NormSpec)
    placement: Literal["pre", "post", "sandwich", "output-only"] = "pre"
    residual: Literal["sequential", "parallel", "parallel-shared"] = "sequential"
    residual_multiplier: float = 1.0
    cross_attention: AttentionSpec | None = None

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclass
class StackSpec:
    width: int
    embed_width: int
    blocks: list[BlockSpec]
    embed_scale: float = 1.0
    positions: Literal["none", "learned", "sinusoidal", "sinusoidal-halves"] = "none"
    position_rows: int = 0
    position_offset: int = 0
    token_types: int = 0
    embed_norm: NormSpec | None = None
    final_norm: NormSpec | None = None


@dataclass
class HeadSpec:
    kind: Literal["none", "linear", "masked-language"] = "linear"
    tied: bool = False
    bias: bool = False
    projection_width: int = 0
    activation: Activation = "gelu-erf"
    norm: NormSpec = field(default_factory=NormSpec)
    logit_scale: float = 1.0
    logit_cap: float = 0.0
    pooler: bool = False


@dataclass
class ModelSpec:
    """A whole model. `stack` is the only stack, or the decoder."""

    vocab_size: int
    context_length: int
    stack: StackSpec
    head: HeadSpec
    encoder: StackSpec | None = None
    shared_token_table: bool = False

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __repr__(self) -> str:
        stacks = [(" encoder", self.encoder), ("", self.stack)]
        words = [f"{len(stack.blocks)}{name} blocks of width {stack.width}" for name, stack in stacks if stack]
        return f"ModelSpec({', '.join(words)}, vocabulary {self.vocab_size})"


def _maybe(make: Any, fields: dict[str, Any] | None) -> Any:
    return None if fields is None else make(fields)


def _attention(fields: dict[str, Any]) -> AttentionSpec:
    rotary, qk_norm = fields["rotary"], fields["qk_norm"]
    if rotary is not None:
        rotary = RotarySpec(**{**rotary, "scaling": RotaryScaling(**rotary["scaling"])})
    if qk_norm is not None:
        qk_norm = QkNormSpec(**{**qk_norm, "norm": NormSpec(**qk_norm["norm"])})
    return AttentionSpec(**{**fields, "rotary": rotary, "qk_norm": qk_norm})


def block_from(fields: dict[str, Any]) -> BlockSpec:
    """The spec of what to_dict() gives."""
    return BlockSpec(**{
        **fields,
        "norm": NormSpec(**fields["norm"]),
        "attention": _attention(fields["attention"]),
        "cross_attention": _maybe(_attention, fields["cross_attention"]),
        "mlp": MlpSpec(**fields["mlp"]),
    })


def _stack(fields: dict[str, Any]) -> StackSpec:
    def norm(each: dict[str, Any]) -> NormSpec:
        return NormSpec(**each)

    return StackSpec(**{
        **fields,
        "embed_norm": _maybe(norm, fields["embed_norm"]),
        "final_norm": _maybe(norm, fields["final_norm"]),
        "blocks": [block_from(block) for block in fields["blocks"]],
    })


def model_from(fields: dict[str, Any]) -> ModelSpec:
    head = HeadSpec(**{**fields["head"], "norm": NormSpec(**fields["head"]["norm"])})
    return ModelSpec(**{
        **fields,
        "stack": _stack(fields["stack"]),
        "encoder": _maybe(_stack, fields["encoder"]),
        "head": head,
    })
