"""Arrays and token ids as the extension takes them. torch is never imported here: a tensor is known by
what it can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .errors import UsageError, usage_error

Named = tuple[str, Any, "str | None"]


def is_torch(value: Any) -> bool:
    """Whether the value is a torch tensor (or a subclass of one)."""
    return any(each.__module__.startswith("torch") and each.__name__ == "Tensor" for each in type(value).__mro__)


def viewed(name: str, value: Any) -> Named:
    """(name, array, type) for the extension, without a copy. The type is None where the array's own
    says enough; numpy's bfloat16 (of ml_dtypes) travels as 16-bit integers."""
    if is_torch(value):
        if value.device.type != "cpu":
            raise usage_error(name, "a tensor in main memory", f"one on {value.device}")
        return name, value.detach(), None
    if isinstance(value, np.ndarray):
        if value.dtype.name == "bfloat16":
            return name, value.view(np.uint16), "bf16"
        if not value.dtype.isnative:
            raise usage_error(name, "numbers in this machine's byte order", value.dtype)
        if value.dtype.kind not in "biuf":
            raise usage_error(name, "an array of numbers", f"one of {value.dtype}")
        return name, value, None
    if hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        return name, value, None
    raise usage_error(name, "a numpy array, a torch tensor or another one that speaks DLPack", type(value).__name__)


def contiguous(name: str, value: Any) -> Named:
    """The same for values that are only read once: whatever lies elsewhere or has gaps is copied."""
    if is_torch(value):
        value = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    elif isinstance(value, (np.ndarray, np.generic, list, tuple, int, float)):
        value = np.asarray(value)
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        # ascontiguousarray makes a number an array of one.
        value = np.ascontiguousarray(value).reshape(value.shape)
    return viewed(name, value)


def named_arrays(values: Mapping[str, Any]) -> list[Named]:
    return [contiguous(str(name), value) for name, value in values.items()]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _id_list(ids: Iterable[Any], what: str) -> list[int]:
    ids = list(ids)
    for each in ids:
        if not _is_number(each):
            raise usage_error(what, "whole numbers", repr(each))
    if not ids:
        raise usage_error(what, "one token at least", "none")
    return [int(each) for each in ids]


def id_lists(ids: Any, encode: Any = None, what: str = "ids") -> tuple[list[list[int]], bool]:
    """Sequences of token ids, and whether they came as a batch. `ids` is one sequence or several: a
    text, lists, or a numpy or torch array [T] or [B,T] of whole numbers. Texts need `encode`."""
    if isinstance(ids, str):
        if encode is None:
            raise UsageError(f"{what}: expected token ids, got a text; the model's files hold no tokenizer")
        return [_id_list(encode(ids), what)], False
    if hasattr(ids, "tolist"):
        if getattr(ids, "ndim", 0) not in (1, 2):
            raise usage_error(what, "[T] or [B,T]", f"{getattr(ids, 'ndim', 0)} dimensions")
        ids = ids.tolist()
    if not isinstance(ids, Iterable):
        raise usage_error(what, "token ids", type(ids).__name__)
    # An array's own elements, and tensors without axes, are numbers as any other.
    ids = [each.item() if getattr(each, "ndim", None) == 0 else each for each in ids]
    if ids and (isinstance(ids[0], Iterable) or hasattr(ids[0], "tolist")):
        return [id_lists(each, encode, what)[0][0] for each in ids], True
    return [_id_list(ids, what)], False
