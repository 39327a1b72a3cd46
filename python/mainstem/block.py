"""A block on its own, over weights that the caller owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _core, sites
from .arrays import contiguous, viewed
from .errors import usage_error
from .model import Compute, _once, _trace
from .sites import Site
from .spec import BlockSpec
from .trace import Trace

_PREFIX = "blocks.0."


class Block:
    """One transformer block over numpy or torch tensors, which are viewed and not copied.

    `weights` maps names to arrays: "q.weight" [H·E,D], "attn_norm.weight" [D], …; `weight_shapes(spec)`
    lists them. A matrix is [out,in], row-major or a transposed view of that; types f32, f64, f16, bf16.
    The block keeps the arrays alive. Changes of an array show in "f64"; float32 passes pack a matrix once,
    when it is used first.

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
        self.spec = spec
        self._core = _core.Block(spec.to_dict(), arrays)
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
