"""Reports as text for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Cause, DiffReport, DoctorReport, Step


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def step_row(step: Step) -> tuple[str, ...]:
    ratio = "-" if step.ratio is None else f"{step.ratio:.2g}"
    return step.site, number(step.total), number(step.local), number(step.envelope), ratio, step.verdict


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if i in (0, last) else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def headline(report: DiffReport) -> str:
    if report.verdict == "incomparable":
        return f"incomparable: {report.reason}"
    counts: dict[str, int] = {}
    for step in report.steps:
        counts[step.verdict] = counts.get(step.verdict, 0) + 1
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"{report.verdict}: {len(report.steps)} steps compared as {report.arithmetic}, {parts}"


def first_line(step: Step) -> str:
    return (
        f"first wrong step: {step.site}  local {number(step.local)}  envelope {number(step.envelope)}  "
        f"total {number(step.total)}"
    )


_MOST_ROWS = 24


def diff_lines(report: DiffReport, show_steps: bool) -> list[str]:
    lines = [headline(report)]
    if report.logits is not None:
        logits = report.logits
        lines.append(f"logits: KL {logits.kl:.2e}, top-1 agrees {logits.top1:.1%}, top-5 {logits.top5:.1%}")
    if report.first is not None:
        lines.append(first_line(report.first))
        if report.first.covers:
            lines.append("  judged together with it: " + ", ".join(report.first.covers))
        if report.first.first_inf:
            lines.append(f"  first Inf at {report.first.first_inf}")
        if report.first.first_nan:
            lines.append(f"  first NaN at {report.first.first_nan}")
    telling = [step for step in report.steps if step.is_wrong or step.verdict == "unknown"]
    if show_steps and telling:
        lines += _table([("step", "total", "local", "envelope", "ratio", "verdict"), *map(step_row, telling[:_MOST_ROWS])])
        if len(telling) > _MOST_ROWS:
            lines.append(f"  … {len(telling) - _MOST_ROWS} more in .steps")
    lines += [f"note: {note}" for note in report.notes]
    if report.unmapped:
        shown = ", ".join(report.unmapped[:12])
        more = f" and {len(report.unmapped) - 12} more" if len(report.unmapped) > 12 else ""
        lines.append(f"names that mean nothing here: {shown}{more} (map= says what they are)")
    return lines


def layers_text(layers: list[int]) -> str:
    if not layers:
        return ""
    if len(layers) == 1:
        return f" (block {layers[0]})"
    if layers[-1] - layers[0] + 1 == len(layers):
        return f" (blocks {layers[0]} to {layers[-1]})"
    return f" (blocks {', '.join(map(str, layers))})"


def proof_text(cause: Cause) -> str:
    if cause.status == "unknown":
        return f"local error {number(cause.local)}, round-off {number(cause.envelope)}"
    return (
        f"with this mistake {number(cause.left)} of the local error {number(cause.local)} are left; "
        f"round-off {number(cause.envelope)}"
    )


def cause_rows(cause: Cause) -> list[tuple[str, str]]:
    """What there is to say about a cause: label, text."""
    rows = [("where", ", ".join(cause.sites) + layers_text(cause.layers))]
    rows += [(key, str(value)) for key, value in cause.parameters.items()]
    rows.append(("proof" if cause.status != "unknown" else "error", proof_text(cause)))
    if cause.shape:
        rows.append(("shape of the error", cause.shape))
    rows += [("or", f"{each.id} ({each.what}), which explains this dump as well") for each in cause.same_values]
    rows += [("tried", f"{each.id} ({each.what}) leaves {number(each.left)}") for each in cause.tried]
    if cause.total_if_fixed is not None:
        rows.append(("fixed alone", f"the last value would be {number(cause.total_if_fixed)} from the reference"))
    for label, text in (("known fault", cause.known_fault), ("usual place", cause.usual_place), ("fix", cause.fix)):
        if text:
            rows.append((label, text))
    return rows


def prediction_text(report: DoctorReport) -> str:
    what = "this mistake" if len(report.causes) == 1 else "these mistakes"
    return (
        f"check: the whole model with {what} in it makes your {report.predicted_site} but for "
        f"{number(report.total_predicted)}; the reference differs from it by {number(report.total_now)}."
    )


def cause_lines(cause: Cause) -> list[str]:
    head = cause.id if cause.status == cause.id else f"{cause.id}  {cause.status}"
    return [head, *(f"  {label}: {text}" for label, text in cause_rows(cause))]
