"""Mainstem: the transformer block as a program that is run, watched and compared.

    import mainstem as ms

    model = ms.load("SmolLM2-135M-Instruct.Q4_1.gguf")
    values = model.trace("The residual stream", sites="blocks.0.*")
    values["blocks.0.q_rot"]                       # a numpy array [B,T,H,E]
"""

from . import _core
from ._core import Tokenizer, known_families
from ._core import version as __version__
from .block import Block
from .diagnose import diff, doctor
from .errors import BadInputError, Error, InternalError, UsageError
from .hooks import check, record
from .model import Check, Generation, Model, load
from .report import Cause, DiffReport, DoctorReport, Logits, Step, TriedCause
from .sites import Site
from .spec import (
    AttentionSpec,
    BlockSpec,
    HeadSpec,
    MlpSpec,
    ModelSpec,
    NormSpec,
    QkNormSpec,
    RotaryScaling,
    RotarySpec,
    StackSpec,
)
from .trace import Trace, read_dump, save

__all__ = [
    "AttentionSpec",
    "BadInputError",
    "Block",
    "BlockSpec",
    "Cause",
    "Check",
    "DiffReport",
    "DoctorReport",
    "Error",
    "Generation",
    "HeadSpec",
    "InternalError",
    "Logits",
    "MlpSpec",
    "Model",
    "ModelSpec",
    "NormSpec",
    "QkNormSpec",
    "RotaryScaling",
    "RotarySpec",
    "Site",
    "StackSpec",
    "Step",
    "Tokenizer",
    "Trace",
    "TriedCause",
    "UsageError",
    "__version__",
    "check",
    "diff",
    "doctor",
    "known_families",
    "known_mistakes",
    "load",
    "read_dump",
    "record",
    "save",
]


def known_mistakes() -> dict[str, str]:
    """Every mistake that can be made on purpose: id → what the wrong code does."""
    return dict(_core.known_mistakes())
