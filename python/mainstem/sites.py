"""The named steps of a program, and which of them a glob means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from . import _core
from .errors import usage_error

# Values that exist only where a pass continues a cache.
_ONLY_IN_CACHE = ("k_cache", "v_cache")


@dataclass(frozen=True)
class Site:
    """One named step: B batch, T query tokens, S key tokens, D width, H query heads, K key/value heads,
    E head width, F MLP hidden width, V vocabulary."""

    name: str
    shape: tuple[str | int, ...]
    """A letter where the size is known only in a pass (B, T, S), else the size."""
    dims: str
    """The letters of all dimensions: "BTHE"."""
    formula: str
    same_as: str | None = None
    """The earlier name of the same value, if there is one."""


def from_table(table: list[tuple[str, list[str], list[int], str, str]]) -> list[Site]:
    return [
        Site(
            name,
            tuple(size if size >= 0 else letter for letter, size in zip(letters, sizes)),
            "".join(letters),
            formula,
            first if first != name else None,
        )
        for name, letters, sizes, formula, first in table
    ]


def _split(text: str, opened: int = 0) -> Iterator[str]:
    """The parts of a list at the commas outside of braces."""
    part = ""
    for char in text:
        opened += (char == "{") - (char == "}")
        if char == "," and opened == 0:
            yield part
            part = ""
        else:
            part += char
    yield part


def _written_out(glob: str) -> Iterator[str]:
    """The globs that one with {a,b} stands for."""
    start = glob.find("{")
    if start < 0:
        yield glob
        return
    depth = 0
    for at in range(start, len(glob)):
        depth += (glob[at] == "{") - (glob[at] == "}")
        if depth == 0:
            for choice in _split(glob[start + 1 : at]):
                yield from _written_out(glob[:start] + choice + glob[at + 1 :])
            return
    raise usage_error("sites", "a } for every {", repr(glob))


def select(sites: list[Site], wanted: str | Iterable[str]) -> list[Site]:
    """The sites that any of the globs matches, in the order of the program."""
    if isinstance(wanted, str):
        wanted = _split(wanted)
    globs = [glob for each in wanted for glob in _written_out(each.strip())]
    if not globs or not all(globs):
        raise usage_error("sites", "names of steps or globs of them", repr(globs))
    there = [site for site in sites if site.name.rpartition(".")[2] not in _ONLY_IN_CACHE]
    for glob in globs:
        if not any(_core.glob_match(glob, site.name) for site in there):
            near = difflib.get_close_matches(glob, [site.name for site in there], 1)
            raise usage_error(
                "sites", f"steps of this model{f' (do you mean {near[0]}?)' if near else ''}", repr(glob)
            )
    return [site for site in there if any(_core.glob_match(glob, site.name) for glob in globs)]
