"""diff() and doctor(): a dump beside a model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

from . import _core
from .arrays import id_lists, named_arrays
from .errors import usage_error
from .model import Model
from .report import DiffReport, DoctorReport, diff_report, doctor_report
from .trace import Trace

DumpLike = Union[str, "os.PathLike[str]", Mapping[str, Any]]
NameMap = Union[str, Mapping[str, str], None]
Dtype = Literal["f64", "f32", "bf16", "f16", "q8act"]


def _opened(dump: DumpLike) -> _core.Dump:
    if isinstance(dump, (str, os.PathLike)):
        return _core.Dump.open(os.fspath(dump))
    if isinstance(dump, Trace):
        dump = dump.values_once()
    if not isinstance(dump, Mapping):
        raise usage_error("dump", "a path or a dict of arrays by name", type(dump).__name__)
    return _core.Dump.from_arrays(named_arrays(dump), "dict")


def named_sites(names: NameMap) -> list[tuple[str, str]]:
    """Their name and the site, for each line of a map."""
    if names is None:
        return []
    if isinstance(names, str):
        return _core.parse_name_map(names)
    return [(str(theirs), str(site)) for theirs, site in names.items()]


def name_in(names: NameMap) -> Callable[[str], bool]:
    """Whether a name is one of their names, for a block where there is a `*`."""
    sites = named_sites(names)
    exact = {theirs for theirs, _ in sites}
    patterns = [
        re.compile(re.escape(theirs).replace(r"\*", r"\d+", 1))
        for theirs, site in sites
        if "*" in theirs and "*" in site
    ]
    return lambda name: name in exact or any(pattern.fullmatch(name) for pattern in patterns)


def expect_model(model: object) -> None:
    if not isinstance(model, Model):
        raise usage_error("model", "a Model, as load() gives it", type(model).__name__)


def _ids(ids: Any, model: Model | None, what: str) -> list[int]:
    if ids is None:
        return []
    sequences, _ = id_lists(ids, model.encode if model is not None else None, what)
    if len(sequences) != 1:
        raise usage_error(what, "one sequence; a batch comes with the dump's own tokens", f"{len(sequences)} of them")
    return sequences[0]


def _blocks(layers: tuple[int, int] | range | None) -> tuple[int, int] | None:
    if layers is None:
        return None
    if isinstance(layers, range) and layers.step == 1:
        return layers.start, layers.stop
    if isinstance(layers, (tuple, list)) and len(layers) == 2 and all(isinstance(each, int) for each in layers):
        return layers[0], layers[1]
    raise usage_error("layers", "(begin, end) or a range of blocks one after the other", layers)


def _options(
    model: Model | None,
    tokens: Any,
    decoder_tokens: Any,
    names: NameMap,
    dtype: Dtype | None,
    layers: tuple[int, int] | range | None,
    threads: int,
) -> dict[str, Any]:
    if dtype is not None and not isinstance(dtype, str):
        raise usage_error("dtype", "f64, f32, bf16, f16 or q8act", dtype)
    return {
        "tokens": _ids(tokens, model, "tokens"),
        "decoder_tokens": _ids(decoder_tokens, model, "decoder_tokens"),
        "names": named_sites(names),
        "dtype": dtype,
        "layers": _blocks(layers),
        "threads": threads,
    }


def diff(
    model: Model | DumpLike,
    dump: DumpLike,
    *,
    tokens: Any = None,
    decoder_tokens: Any = None,
    map: NameMap = None,
    dtype: Dtype | None = None,
    layers: tuple[int, int] | range | None = None,
    threads: int = 0,
) -> DiffReport:
    """Compares a dump with what the model makes of the same tokens, step by step, each on the dump's own
    values, and names the first step that is wrong in itself. Everything of the reference is in double.

    `dump` is a path (safetensors, npz, a folder of npy, .pt, llama.cpp's text, transformers' model debugger)
    or a dict of arrays by name (numpy, torch or any that speaks DLPack; float64, float32, float16, bfloat16).
    Names may be ours, module paths of transformers, hooks of TransformerLens or nodes of llama.cpp.

    `tokens`: a text or ids, where the dump holds none. `map`: their name → site for names that nobody else
    knows, as a dict or as the text of a --map file; a `*` in both stands for the number of a block, and one in
    the site alone for all blocks along the first axis of one array. `dtype`: what the dump's arithmetic is meant
    to be; else it is read from the values. `layers`: blocks to judge, half-open: (0, 4) or range(0, 4).

    With two dumps instead of a model, `diff(yours, reference)` compares them by their names: totals only.

    Raises BadInputError for a dump that cannot be read.
    """
    if not isinstance(model, Model):
        options = _options(None, tokens, decoder_tokens, map, dtype, layers, threads)
        return diff_report(_core.diff_dumps(_opened(model), _opened(dump), options))
    options = _options(model, tokens, decoder_tokens, map, dtype, layers, threads)
    return diff_report(_core.diff(model._core, _opened(dump), options))


def doctor(
    model: Model,
    dump: DumpLike,
    *,
    tokens: Any = None,
    decoder_tokens: Any = None,
    map: NameMap = None,
    dtype: Dtype | None = None,
    layers: tuple[int, int] | range | None = None,
    threads: int = 0,
) -> DoctorReport:
    """diff(), and then the cause of each wrong step: the known mistakes are replayed on the dump's own
    inputs, and one is proved when it makes the dump's values but for round-off. Arguments as of diff()."""
    expect_model(model)
    options = _options(model, tokens, decoder_tokens, map, dtype, layers, threads)
    return doctor_report(_core.doctor(model._core, _opened(dump), options))
