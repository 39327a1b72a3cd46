"""A model, its steps and its tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from . import _core, sites, spec
from ._core import Tokenizer
from .arrays import id_lists
from .errors import UsageError, usage_error
from .sites import Site
from .trace import Trace

Compute = Literal["fast", "f32", "f64"]


@dataclass(frozen=True)
class Check:
    """One of the known failure modes, looked for on a model."""

    id: str
    status: Literal["ok", "failed", "not applicable"]
    detail: str


@dataclass(frozen=True)
class Generation:
    """What a model made of a prompt."""

    prompt_ids: list[int]
    ids: list[int]
    """Without the end token."""
    text: str | None
    """None where the model's files hold no tokenizer."""
    stop: Literal["length", "eos", "stop"]

    def __str__(self) -> str:
        return self.text if self.text is not None else ",".join(map(str, self.ids))


def load(path: str | os.PathLike[str], *, allow_unknown_keys: Iterable[str] = ()) -> Model:
    """A model as its files describe it: a folder with config.json and safetensors, or a .gguf file.

    Weights stay in the mapped file. Keys of config.json that nobody knows are an error unless they are
    named in `allow_unknown_keys`.

    Raises BadInputError: an unknown architecture, a key that is not known, a weight that is missing, left
    over or of the wrong shape.
    """
    return Model(_core.Model.load(os.fspath(path), list(allow_unknown_keys)))


class Model:
    """Made by load(). Any method may be called from any thread; each runs without Python's lock."""

    def __init__(self, core: _core.Model):
        self._core = core
        self._sites = sites.from_table(core.sites())

    @property
    def family(self) -> str:
        """ "llama", "gemma3", … """
        return self._core.family

    @property
    def path(self) -> str:
        return self._core.path

    @property
    def files(self) -> list[str]:
        """Every file of the model."""
        return self._core.files

    @property
    def notes(self) -> list[str]:
        """What about the files is worth telling: which rules were chosen, odd values."""
        return self._core.notes

    @property
    def parameters(self) -> int:
        """How many numbers the weights have; a tied table counts once."""
        return self._core.parameters

    @property
    def weight_bytes(self) -> int:
        return self._core.weight_bytes

    @property
    def spec(self) -> spec.ModelSpec:
        return spec.model_from(self._core.spec())

    @property
    def sites(self) -> list[Site]:
        """Every named step, in firing order."""
        return list(self._sites)

    @property
    def tokenizer(self) -> Tokenizer | None:
        """None where the model's files hold none."""
        return self._core.tokenizer

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of a text. UsageError where the model's files hold no tokenizer."""
        return self._needed_tokenizer().encode(text, add_special=add_special, parse_special=parse_special)

    def decode(self, ids: Any, *, skip_special: bool = True) -> str:
        """The text of token ids (a list, or a numpy or torch array [T])."""
        return self._needed_tokenizer().decode(id_lists(ids)[0][0], skip_special=skip_special)

    def forward(self, ids: Any, *, decoder_ids: Any = None, compute: Compute = "f32", threads: int = 0) -> np.ndarray:
        """Logits [T,V] of one sequence, or [B,T,V] of several (of a model without a head the last stream
        value, [T,D]).

        `ids` is a text, a list of ids or a numpy or torch array; several sequences of different lengths
        are padded on the left, and rows of padding mean nothing. `compute`: "f32" (quantised weights
        expanded exactly), "f64" (double), "fast" (inputs of products with quantised weights rounded to
        8 bits). `threads`: 0 for all that this process may use.
        """
        sequences, encoder, is_batch = self._inputs(ids, decoder_ids)
        ((_, rows),) = self._core.trace(sequences, encoder, [self._core.output_site()], compute, threads, "")
        return rows if is_batch else rows[0]

    def trace(
        self,
        ids: Any,
        sites: str | Iterable[str] = "*",
        *,
        decoder_ids: Any = None,
        compute: Compute = "f32",
        threads: int = 0,
        mistake: str | None = None,
    ) -> Trace:
        """The values of named steps of one pass: site → numpy array [B,T,…], in firing order.

        `sites` are names or globs, a text with commas or a list: "blocks.0.*", "blocks.{0,2}.q_rot,logits".
        `mistake` is a known mistake made on purpose, "rope.pairing" or "rope.pairing@3" for one block
        (known_mistakes() lists them). For the rest see forward().
        """
        chosen = _select(self._sites, sites)
        sequences, encoder, _ = self._inputs(ids, decoder_ids)
        values = self._core.trace(sequences, encoder, _once(chosen), compute, threads, mistake or "")
        return _trace(chosen, values, sequences)

    def generate(
        self,
        prompt: Any,
        max_tokens: int = 128,
        *,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repeat_penalty: float = 1.0,
        seed: int = 0,
        ignore_eos: bool = False,
        decoder_ids: Any = None,
        compute: Compute = "fast",
        threads: int = 0,
    ) -> Generation:
        """Tokens behind a prompt (a text or ids); greedy without a temperature. An encoder-decoder reads the
        prompt with its encoder."""
        sequences, encoder, is_batch = self._inputs(prompt, decoder_ids, "prompt")
        if is_batch and len(sequences) != 1:
            raise usage_error("prompt", "one sequence", len(sequences))
        made, stop = self._core.generate(
            sequences[0], encoder[0] if encoder else [], max_tokens, temperature, top_k, top_p, min_p,
            repeat_penalty, seed, ignore_eos, compute, threads,
        )
        text = self.tokenizer.decode(made, skip_special=False) if self.tokenizer else None
        return Generation(encoder[0] if encoder else sequences[0], made, text, stop)

    def check(self, *, mistake: str | None = None, threads: int = 0) -> list[Check]:
        """The known failure modes of a transformer as checks on this model."""
        return [Check(*each) for each in self._core.check(threads, mistake or "")]

    def __repr__(self) -> str:
        return f"<mainstem.Model {self.family}, {self.parameters:,} parameters, {self.path}>"

    def _needed_tokenizer(self) -> Tokenizer:
        tokenizer = self._core.tokenizer
        if tokenizer is None:
            raise UsageError(f"tokenizer: expected one in the model's files, got none; in {self.path}; use token ids")
        return tokenizer

    def _ids(self, ids: Any, what: str) -> tuple[list[list[int]], bool]:
        return id_lists(ids, self.encode, what)

    def _inputs(self, ids: Any, decoder_ids: Any, what: str = "ids") -> tuple[list[list[int]], list[list[int]], bool]:
        """Tokens of the only stack or the decoder, tokens of the encoder, and whether it is a batch."""
        sequences, is_batch = self._ids(ids, what)
        encodes = any(site.name.startswith("encoder.") for site in self._sites)
        if not encodes:
            if decoder_ids is not None:
                raise usage_error("decoder_ids", "an encoder-decoder", self.family)
            return sequences, [], is_batch
        if decoder_ids is None:
            if self._core.decoder_start_id is None:
                raise usage_error("decoder_ids", "ids, since the model's files name no start token", "none")
            return [[self._core.decoder_start_id]] * len(sequences), sequences, is_batch
        decoder, _ = self._ids(decoder_ids, "decoder_ids")
        if len(decoder) != len(sequences):
            raise usage_error("decoder_ids", f"{len(sequences)} sequences", len(decoder))
        return decoder, sequences, is_batch


# Inside the class `sites` is a parameter.
_select = sites.select


def _once(chosen: Sequence[Site]) -> list[str]:
    """The earliest name of each chosen site's value."""
    return [site.same_as or site.name for site in chosen]


def _trace(chosen: list[Site], values: list[tuple[str, np.ndarray]], sequences: list[list[int]] | None) -> Trace:
    by_name = dict(values)
    arrays = {site.name: by_name[site.same_as or site.name] for site in chosen}
    if sequences is None:
        return Trace(chosen, arrays, None, None)
    length = max(map(len, sequences))
    tokens = np.zeros((len(sequences), length), np.int64)
    key_mask = np.zeros_like(tokens)
    for row, sequence in enumerate(sequences):
        tokens[row, length - len(sequence) :] = sequence
        key_mask[row, length - len(sequence) :] = 1
    return Trace(chosen, arrays, tokens, key_mask)
