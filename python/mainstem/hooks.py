"""check(): a running PyTorch module beside a model of Mainstem's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .arrays import is_torch
from .diagnose import Dtype, NameMap, doctor, expect_model, name_in
from .errors import usage_error
from .model import Model
from .report import DoctorReport

if TYPE_CHECKING:
    import torch

# (module, ids), and the decoder's ids of an encoder-decoder.
Forward = Callable[..., Any]


class _Recording:
    """Values by name, as hooks deliver them. Each is copied at once, since code may go on to change it."""

    def __init__(self) -> None:
        self.values: dict[str, torch.Tensor] = {}
        self._more: set[str] = set()

    def add(self, name: str, value: Any) -> None:
        if not is_torch(value) or not value.is_floating_point():
            return
        # What a module that is called several times means, its name does not say.
        if name in self.values or name in self._more:
            self._more.add(name)
            self.values.pop(name, None)
            return
        self.values[name] = value.detach().to("cpu", copy=True)

    def add_output(self, name: str, output: Any) -> None:
        if isinstance(output, (tuple, list)):
            if output:
                self.add(name, output[0])
            if len(output) > 1:
                self.add(f"{name}.outputs.1", output[1])
            return
        self.add(name, output)


def _first_input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if args:
        return args[0]
    return next((kwargs[key] for key in ("hidden_states", "input", "x", "input_ids") if key in kwargs), None)


@contextlib.contextmanager
def _hooked(module: torch.nn.Module, recording: _Recording) -> Iterator[None]:
    """Every submodule's first input, as PATH.input, and output, as PATH."""

    def before(path: str) -> Callable[..., None]:
        return lambda _, args, kwargs: recording.add(f"{path}.input", _first_input(args, kwargs))

    def after(path: str) -> Callable[..., None]:
        return lambda _, args, output: recording.add_output(path, output)

    handles = []
    try:
        for path, child in module.named_modules():
            # Tables of sines and cosines are no steps.
            if path and "RotaryEmbedding" not in type(child).__name__:
                handles.append(child.register_forward_pre_hook(before(path), with_kwargs=True))
                handles.append(child.register_forward_hook(after(path)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _attention_inputs(model: Model) -> tuple[str, str]:
    """What q and k are called where attention reads them: the last of q, q_norm and q_rot."""

    def last(letter: str) -> str:
        names = [site.name.rpartition(".")[2] for site in model.sites if ".cross_" not in site.name]
        return next(name for name in reversed(names) if name in (letter, f"{letter}_norm", f"{letter}_rot"))

    return last("q"), last("k")


@contextlib.contextmanager
def _watched_attention(module: torch.nn.Module, model: Model, recording: _Recording) -> Iterator[None]:
    """Where transformers calls one of its attention functions: queries and keys as they reach it, and the
    pattern where the function gives it. Does nothing for modules that are not transformers'."""
    if not hasattr(module, "config"):
        yield
        return
    try:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    except ImportError:
        yield
        return
    kind = type(ALL_ATTENTION_FUNCTIONS)
    original = getattr(kind, "get_interface", None)
    encodes = any(site.name.startswith("encoder.") for site in model.sites)
    if original is None or encodes:
        yield
        return
    q_name, k_name = _attention_inputs(model)

    def get_interface(self: Any, *args: Any, **kwargs: Any) -> Any:
        function = original(self, *args, **kwargs)

        def watched(attention: Any, query: Any, key: Any, *rest: Any, **more: Any) -> Any:
            output = function(attention, query, key, *rest, **more)
            layer = getattr(attention, "layer_idx", None)
            if layer is not None:
                recording.add(f"blocks.{layer}.{q_name}", query)
                recording.add(f"blocks.{layer}.{k_name}", key)
                if len(output) > 1 and is_torch(output[1]) and output[1].ndim == 4:
                    recording.add(f"blocks.{layer}.pattern", output[1])
            return output

        return watched

    kind.get_interface = get_interface
    try:
        yield
    finally:
        kind.get_interface = original


def _run(module: torch.nn.Module, ids: torch.Tensor, *decoder_ids: torch.Tensor) -> Any:
    if not hasattr(module, "config"):
        return module(ids, *decoder_ids)
    named = {"decoder_input_ids": decoder_ids[0]} if decoder_ids else {}
    return module(input_ids=ids, use_cache=False, **named)


def _add_result(recording: _Recording, result: Any) -> None:
    logits = getattr(result, "logits", None)
    if is_torch(logits):
        recording.add("logits", logits)
    elif is_torch(result) and result.ndim == 3:
        recording.add("output", result)


def record(
    module: torch.nn.Module, model: Model, ids: Any, *, decoder_ids: Any = None, forward: Forward | None = None
) -> dict[str, Any]:
    """What a PyTorch module computes from `ids`, as a dump: the output of every submodule under its path, its
    first input under "PATH.input", the ids as "tokens", and the logits of a model of transformers. The module
    runs once, without gradients, in the mode it is in; values are copied to main memory as they are made, in
    their own type. A module that is called several times in the pass is left out.

    The encoder of an encoder-decoder reads `ids`, its decoder `decoder_ids` (by default the model's start
    token); they are "encoder.tokens" and "decoder.tokens".

    `forward(module, ids)` runs the module where `module(ids)` does not; with an encoder, `forward(module, ids,
    decoder_ids)`.
    """
    import torch

    expect_model(model)
    if not isinstance(module, torch.nn.Module):
        raise usage_error("module", "a torch.nn.Module", type(module).__name__)
    sequences, encoder, _ = model._inputs(ids, decoder_ids)
    read = {"encoder.tokens": encoder, "decoder.tokens": sequences} if encoder else {"tokens": sequences}
    for rows in read.values():
        if len({len(row) for row in rows}) != 1:
            raise usage_error("ids", "sequences of one length", "several lengths")
    parameter = next(module.parameters(), None)
    device = parameter.device if parameter is not None else None
    tokens = {name: torch.tensor(rows, device=device) for name, rows in read.items()}
    recording = _Recording()
    with torch.no_grad(), _hooked(module, recording), _watched_attention(module, model, recording):
        result = (forward or _run)(module, *tokens.values())
    _add_result(recording, result)
    return recording.values | {name: ids.cpu() for name, ids in tokens.items()}


def check(
    module: torch.nn.Module,
    model: Model,
    ids: Any,
    *,
    decoder_ids: Any = None,
    map: NameMap = None,
    forward: Forward | None = None,
    dtype: Dtype | None = None,
    layers: tuple[int, int] | range | None = None,
    threads: int = 0,
) -> DoctorReport:
    """Runs a PyTorch module on `ids`, records what its submodules compute, and says which step is wrong in
    itself and why.

    `module` is a model of any family of transformers, or a class of your own; then `map` says which of its
    submodules are which steps: {"layers.*.attn.wq": "blocks.*.q", "layers.0.norm1.input":
    "blocks.0.resid_pre"}, and only what the map names is looked at. `decoder_ids` and `forward` are record()'s;
    the rest is doctor()'s.

    Raises ImportError without PyTorch.
    """
    dump = record(module, model, ids, decoder_ids=decoder_ids, forward=forward)
    if map is not None and not hasattr(module, "config"):
        # Names of one's own may mean something else elsewhere: "norm" is transformers' last one.
        wanted = name_in(map)
        dump = {name: value for name, value in dump.items() if wanted(name) or name.endswith("tokens")}
    return doctor(model, dump, map=map, dtype=dtype, layers=layers, threads=threads)
