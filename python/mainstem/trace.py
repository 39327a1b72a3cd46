"""The values of one pass."""

from __future__ import annotations

import html
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _core
from .arrays import contiguous
from .errors import usage_error
from .sites import Site


class Trace(Mapping[str, np.ndarray]):
    """Site name → numpy array, in the order in which the steps fire. A value with two names is there
    under both, as one array. The arrays are the traced memory itself, not copies of it.

    `tokens` [B,T] are the ids; of a batch of sequences of different lengths the shorter ones are
    padded on the left, and `key_mask` [B,T] is 0 there.
    """

    def __init__(self, sites: list[Site], arrays: dict[str, np.ndarray], tokens: np.ndarray | None,
                 key_mask: np.ndarray | None):
        self._sites = {site.name: site for site in sites}
        self._arrays = arrays
        self.tokens = tokens
        self.key_mask = key_mask

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def sites(self) -> list[Site]:
        return list(self._sites.values())

    def values_once(self) -> dict[str, np.ndarray]:
        """Every value under its earliest name here only, with `tokens` (and of a padded batch
        `positions` and `key_mask`): a dump."""
        seen: set[int] = set()
        dump: dict[str, np.ndarray] = {}
        for name, array in self._arrays.items():
            if id(array) not in seen:
                dump[name] = array
                seen.add(id(array))
        if self.tokens is not None and not any(name.endswith("tokens") for name in dump):
            dump["tokens"] = self.tokens
        if self.key_mask is not None and not self.key_mask.all():
            dump["positions"] = np.maximum(np.cumsum(self.key_mask, axis=1) - 1, 0)
            dump["key_mask"] = self.key_mask
        return dump

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a dump: a name that ends in .safetensors or .npz."""
        save(path, self)

    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        rows = []
        for name, array in self._arrays.items():
            site = self._sites[name]
            shape = "[" + ",".join(str(size) for size in array.shape) + "]"
            if site.same_as in self._arrays:
                rows.append((name, shape, "", "", f"= {site.same_as}"))
                continue
            wide = array.astype(np.float64)
            with np.errstate(all="ignore"):
                rows.append((name, shape, f"{np.sqrt(np.mean(wide * wide)):.5g}",
                             f"{wide.min():.5g}", f"{wide.max():.5g}"))
        return rows

    def __repr__(self) -> str:
        rows = [("step", "shape", "rms", "min", "max"), *self._rows()]
        name, shape = (max(len(row[i]) for row in rows) for i in (0, 1))
        return "\n".join(
            f"{row[0]:{name}}  {row[1]:{shape}}  {row[2]:>10}  {row[3]:>10}  {row[4]:>10}".rstrip() for row in rows
        )

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        return ("<table><thead><tr><th>step</th><th>shape</th><th>rms</th><th>min</th><th>max</th></tr></thead>"
                f"<tbody>{cells}</tbody></table>")


def read_dump(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays of a dump by name: safetensors, npz, a folder of npy, .pt, transformers' model debugger.
    bfloat16 is widened to float32. Tensors of which only a part was printed are left out, and of several with
    one name the last is kept.

    Raises BadInputError. Nothing in a dump is ever executed."""
    return dict(_core.Dump.open(os.fspath(path)).read_all())


def save(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Writes arrays by name to a file that ends in .safetensors or .npz; bfloat16 stays bfloat16."""
    text = os.fspath(path)
    if not text.endswith((".safetensors", ".npz")):
        raise usage_error("path", "a name ending in .safetensors or .npz", repr(text))
    if isinstance(values, Trace):
        values = values.values_once()
    _core.save(text, [contiguous(str(name), value) for name, value in values.items()])
