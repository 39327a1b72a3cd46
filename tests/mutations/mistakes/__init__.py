"""The table of mistakes: each is a function that changes a Patient in some of its blocks."""

import importlib
from dataclasses import dataclass

import models  # noqa: F401  (puts the generators on the path)

MODULES = ("norms", "rotary", "attention", "mlp", "stream", "ends", "weights", "precision", "others")
TABLE = []


@dataclass
class Mistake:
    name: str
    cause: str       # of the contract, or unknown
    site: object     # the first wrong step, or a function of the family that gives it
    apply: object    # (patient, layers)
    on: object       # (tiny) -> bool
    where: object    # (patient) -> blocks in which it can be made; None: outside of them
    at_once: bool    # in all of those blocks or in none (what a config says)
    report: str      # of the public list of bugs
    also: tuple      # causes that say the same
    dtypes: tuple
    dumps: tuple     # kinds of dumps; empty: any
    padded: bool

    def fits(self, tiny):
        # The model whose numbers outgrow float16 is there for that alone.
        return bool(self.on(tiny)) and (tiny.name == "llama_large") == (self.cause == "precision.overflow")

    def first(self, tiny, layers):
        name = self.site(tiny) if callable(self.site) else self.site
        return name if name in OUTSIDE or name.startswith("blocks.") else f"blocks.{min(layers)}.{name}"


OUTSIDE = {"token_embed", "pos_embed", "type_embed", "embed_sum", "embed", "final_norm", "head_proj", "head_act",
           "head_norm", "head", "logits"}


def every(patient):
    return list(patient.layers)


def mistake(cause, site, on=lambda tiny: True, where=every, at_once=False, report="", also=(),
            dtypes=("f32", "bf16", "f16"), dumps=(), padded=False, name=""):
    def note(function):
        TABLE.append(Mistake(name or function.__name__, cause, site, function, on, where, at_once, report, tuple(also),
                             tuple(dtypes), tuple(dumps), padded))
        return function
    return note


def load():
    """All of them."""
    for name in MODULES:
        importlib.import_module(f"mistakes.{name}")
    names = [each.name for each in TABLE]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    return TABLE
