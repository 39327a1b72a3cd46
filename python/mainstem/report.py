"""What diff() and doctor() find: plain objects with a text for terminals and a table for notebooks."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from . import _html, _text

StepVerdict = Literal["ok", "precision", "wrong", "inherited", "unknown"]


@dataclass(frozen=True)
class Step:
    """One value of the dump beside the reference's. Errors are relative: ‖y − y_ref‖₂ / ‖y_ref‖₂."""

    site: str
    name: str
    """As the dump calls it."""
    total: float | None
    """Against the reference's own run."""
    local: float | None
    """Against the reference step on the dump's own inputs."""
    envelope: float | None
    """The largest `local` of sound implementations in the dump's type."""
    ratio: float | None
    """local / envelope of all of it, or of its worst row."""
    verdict: StepVerdict
    from_: list[str]
    """Inputs taken from the dump ("from" in to_dict())."""
    covers: list[str]
    """Steps judged together with this one, because a value between is missing."""
    max_difference: float = 0.0
    max_index: list[int] = field(default_factory=list)
    cosine: float = 1.0
    ulps: float = 0.0
    per_token: list[float] = field(default_factory=list)
    per_head: list[float] = field(default_factory=list)
    first_inf: list[int] | None = None
    """Index of the first infinite element; None where there is none."""
    first_nan: list[int] | None = None

    @property
    def is_wrong(self) -> bool:
        """Wrong in itself: "wrong", or "precision" that nobody declared."""
        return self.verdict in ("wrong", "precision")


@dataclass(frozen=True)
class Logits:
    """How logits differ as predictions: means over the tokens."""

    kl: float
    """KL(reference ‖ dump) in nats"""
    top1: float
    top5: float
    smallest_margin: float


@dataclass(frozen=True)
class TriedCause:
    id: str
    what: str
    left: float


@dataclass(frozen=True)
class Cause:
    """Why steps are wrong."""

    id: str
    sites: list[str]
    layers: list[int]
    status: Literal["proved", "likely", "unknown"]
    """proved: with the mistake in it, the reference makes the dump's values but for round-off."""
    left: float
    """What the mistake leaves of the local error."""
    envelope: float
    local: float
    """The local error before."""
    parameters: dict[str, str]
    fix: str
    usual_place: str = ""
    known_fault: str = ""
    shape: str = ""
    """Of the error, where the cause is unknown."""
    tried: list[TriedCause] = field(default_factory=list)
    same_values: list[TriedCause] = field(default_factory=list)
    """Other mistakes that make the same values: this dump does not tell them from the one named."""
    total_if_fixed: float | None = None
    """What would be left of the last value's difference to the reference if only this were fixed."""


@dataclass(frozen=True, repr=False)
class DiffReport:
    """The first step that is wrong in itself, and every step compared. `print(report)` gives the text."""

    verdict: Literal["match", "divergent", "incomparable"]
    reason: str
    """Why a dump is incomparable."""
    first: Step | None
    """The earliest wrong step."""
    wrong: list[str]
    """Sites of the steps that are wrong in themselves."""
    steps: list[Step]
    unmapped: list[str]
    """Names in the dump that mean nothing here."""
    notes: list[str]
    arithmetic: Literal["f64", "f32", "bf16", "f16", "q8act"]
    """What the dump was computed in, as far as its values show."""
    logits: Logits | None

    @property
    def matches(self) -> bool:
        return self.verdict == "match"

    def __getitem__(self, site: str) -> Step:
        """The step of a site, "blocks.0.q_rot"."""
        for step in self.steps:
            if step.site == site:
                return step
        raise KeyError(site)

    def to_dict(self) -> dict[str, Any]:
        """What `mainstem diff --json` prints: only what JSON can hold (NaN is "nan")."""
        fields = dataclasses.asdict(self)
        for step in fields["steps"]:
            step["from"] = step.pop("from_")
        if self.first is not None:
            fields["first"] = {key: getattr(self.first, key) for key in ("site", "local", "envelope", "total")}
        plain: dict[str, Any] = _plain(fields)
        return plain

    def __str__(self) -> str:
        return "\n".join(_text.diff_lines(self, show_steps=True)) + "\n"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html.report(self, [])


@dataclass(frozen=True, repr=False)
class DoctorReport(DiffReport):
    """A DiffReport with the causes of the wrong steps, in the order of their first one."""

    causes: list[Cause]
    predicted_site: str
    """The last whole value of the dump, which the whole model with all causes in it is held to."""
    total_now: float | None
    """Its difference to the reference; None where there was nothing to run."""
    total_predicted: float | None
    """Its difference to the model with all causes in it."""

    def __str__(self) -> str:
        lines = _text.diff_lines(self, show_steps=False)
        for cause in self.causes:
            lines += ["", *_text.cause_lines(cause)]
        if self.total_predicted is not None:
            lines += ["", _text.prediction_text(self)]
        return "\n".join(lines) + "\n"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _html.report(self, self.causes)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _step(fields: dict[str, Any]) -> Step:
    return Step(**{**fields, "first_inf": fields["first_inf"] or None, "first_nan": fields["first_nan"] or None})


def _diff_fields(fields: dict[str, Any]) -> dict[str, Any]:
    steps = [_step(step) for step in fields["steps"]]
    return {
        **fields,
        "steps": steps,
        "first": None if fields["first"] is None else steps[fields["first"]],
        "logits": None if fields["logits"] is None else Logits(**fields["logits"]),
    }


def diff_report(fields: dict[str, Any]) -> DiffReport:
    return DiffReport(**_diff_fields(fields))


def doctor_report(fields: dict[str, Any]) -> DoctorReport:
    def tried(causes: list[dict[str, Any]]) -> list[TriedCause]:
        return [TriedCause(**each) for each in causes]

    causes = [
        Cause(**{**cause, "tried": tried(cause["tried"]), "same_values": tried(cause["same_values"])})
        for cause in fields["causes"]
    ]
    return DoctorReport(**{**_diff_fields(fields), "causes": causes})
