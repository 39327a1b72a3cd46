"""A block on its own, over weights that the caller owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from . import _core, sites
from .arrays import contiguous, viewed
from .errors import usage_error
from .model import Compute, _once, _trace
from .sites import Site
from .spec import BlockSpec, block_from
from .trace import Trace

if TYPE_CHECKING:
    import torch

_PREFIX = "blocks.0."


class Block:
    """One transformer block over numpy or torch tensors, which are viewed and not copied.

    `weights` maps names to arrays: "q.weight" [H·E,D], "attn_norm.weight" [D], …; `weight_shapes(spec)`
    lists them. A matrix is [out,in], row-major or a transposed view of that; types f32, f64, f16, bf16.
    The block keeps the arrays alive. A pass in "f64" reads row-major arrays as they then are; float32 passes pack a
    matrix once, when it is used first. A transposed matrix is the only thing that is copied.

    Raises BadInputError: a spec that cannot be, a weight that is missing or of the wrong shape.
    """

    def __init__(self, spec: BlockSpec, weights: Mapping[str, Any]):
        wanted = self.weight_shapes(spec)
        arrays = []
        for name, value in weights.items():
            short = name.removeprefix(_PREFIX)
            if short not in wanted:
                raise usage_error("weights", ", ".join(wanted), repr(name))
            named = viewed(name, value)
            arrays.append((_PREFIX + short, *named[1:]))
        self._adopt(_core.Block(spec.to_dict(), arrays))

    @classmethod
    def from_encoder_layer(cls, layer: torch.nn.TransformerEncoderLayer, *, causal: bool = False) -> Block:
        """The block that a torch.nn.TransformerEncoderLayer is, over its own parameters. causal: as it
        computes when it is called with a causal src_mask."""
        if getattr(layer, "activation_relu_or_gelu", 0) not in (1, 2):
            raise usage_error("activation", "relu or gelu", repr(layer.activation))
        state = [viewed(name, value) for name, value in layer.state_dict().items()]
        activation = "relu" if layer.activation_relu_or_gelu == 1 else "gelu-erf"
        core = _core.encoder_layer(
            state, layer.self_attn.num_heads, activation, layer.norm1.eps, layer.norm_first,
            layer.linear1.bias is not None, causal,
        )
        return cls._of(core)

    @classmethod
    def from_decoder_block(
        cls,
        state: Mapping[str, Any],
        *,
        width: int,
        heads: int,
        norm: Literal["rms", "layer"] = "rms",
        mlp: Literal["swiglu", "gelu", "gelu-erf"] = "swiglu",
    ) -> Block:
        """The decoder block that people write first in PyTorch, from nn.MultiheadAttention and two norms, by
        its state dict: "norm1.weight", "attn.in_proj_weight" [3D,D], "attn.out_proj.weight", …,
        "mlp.w.weight" [4D,D] and "mlp.w_out.weight" [D,2D] (swiglu) or "mlp.0.weight" and "mlp.2.weight"."""
        arrays = [viewed(name, value) for name, value in state.items()]
        return cls._of(_core.decoder_block(arrays, width, heads, norm, mlp))

    @classmethod
    def _of(cls, core: _core.Block) -> Block:
        block = cls.__new__(cls)
        block._adopt(core)
        return block

    def _adopt(self, core: _core.Block) -> None:
        self._core = core
        self.spec = block_from(core.spec())
        self._sites = [
            Site(site.name.removeprefix(_PREFIX), site.shape, site.dims, site.formula,
                 site.same_as and site.same_as.removeprefix(_PREFIX))
            for site in sites.from_table(self._core.sites())
        ]

    @staticmethod
    def weight_shapes(spec: BlockSpec) -> dict[str, tuple[int, ...]]:
        """What a block of this spec needs: name → shape."""
        return {name.removeprefix(_PREFIX): tuple(shape) for name, shape in _core.block_weights(spec.to_dict())}

    @property
    def sites(self) -> list[Site]:
        """Every named step, in firing order."""
        return list(self._sites)

    def forward(self, x: Any, *, compute: Compute | None = None, threads: int = 0) -> np.ndarray:
        """x [B,T,D] or [T,D] → y of the same shape; every sequence starts at position 0. Without
        `compute` float64 input is computed in double, any other in float32."""
        rows = getattr(x, "ndim", 0) == 2
        x = contiguous("x", x[None] if rows else x)
        ((_, y),) = self._core.trace(x, [self._core.output_site()], compute or _compute_of(x[1]), threads)
        return y[0] if rows else y

    __call__ = forward

    def trace(
        self, x: Any, sites: str | Iterable[str] = "*", *, compute: Compute | None = None, threads: int = 0
    ) -> Trace:
        """The values of named steps of a pass over x [B,T,D] or [T,D]: "q", "scores", "resid_post", …"""
        chosen = _select(self._sites, sites)
        x = contiguous("x", x[None] if getattr(x, "ndim", 0) == 2 else x)
        values = self._core.trace(x, [_PREFIX + name for name in _once(chosen)], compute or _compute_of(x[1]), threads)
        return _trace(chosen, [(name.removeprefix(_PREFIX), array) for name, array in values], None)

    def __repr__(self) -> str:
        return f"<mainstem.Block of width {self.spec.width}, {len(self._sites)} steps>"


_select = sites.select


def _compute_of(x: Any) -> Compute:
    return "f64" if str(x.dtype).endswith("float64") else "f32"
