"""Reports as HTML for notebooks: no scripts, no outside files, every text escaped."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from . import _text

if TYPE_CHECKING:
    from .report import Cause, DiffReport

# Readable on a light and on a dark page.
_COLOURS = {
    "ok": "rgba(46,160,67,.18)",
    "wrong": "rgba(248,81,73,.28)",
    "precision": "rgba(219,109,40,.28)",
    "inherited": "rgba(128,128,128,.14)",
    "unknown": "transparent",
    "proved": "rgba(46,160,67,.28)",
    "likely": "rgba(219,169,40,.28)",
}


def _cells(tag: str, texts: list[str]) -> str:
    align = ["left", "right", "right", "right", "right", "left"]
    return "".join(f'<{tag} style="text-align:{side}">{html.escape(text)}</{tag}>' for text, side in zip(texts, align))


def _badge(word: str) -> str:
    colour = _COLOURS.get(word, "transparent")
    return f'<span style="background:{colour};padding:1px 6px;border-radius:4px">{html.escape(word)}</span>'


def _steps(report: DiffReport) -> str:
    rows = []
    for step in report.steps:
        weight = "bold" if report.first is not None and step.site == report.first.site else "normal"
        rows.append(
            f'<tr style="background:{_COLOURS[step.verdict]};font-weight:{weight}" title="{html.escape(step.name)}">'
            f"{_cells('td', list(_text.step_row(step)))}</tr>"
        )
    head = _cells("th", ["step", "total", "local", "envelope", "ratio", "verdict"])
    opened = "" if report.verdict == "match" else " open"
    return (
        f"<details{opened}><summary>{len(report.steps)} steps</summary>"
        '<div style="max-height:30em;overflow:auto"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _cause(cause: Cause) -> str:
    rows = "".join(
        f'<tr><th style="text-align:left;vertical-align:top">{html.escape(label)}</th>'
        f'<td style="text-align:left">{html.escape(text)}</td></tr>'
        for label, text in _text.cause_rows(cause)
    )
    return f"<p><b><code>{html.escape(cause.id)}</code></b> {_badge(cause.status)}</p><table>{rows}</table>"


def report(report: DiffReport, causes: list[Cause]) -> str:
    parts = [f"<p><b>{html.escape(_text.headline(report))}</b></p>"]
    if report.first is not None:
        parts.append(f"<p>{html.escape(_text.first_line(report.first))}</p>")
    parts += [_cause(cause) for cause in causes]
    if report.steps:
        parts.append(_steps(report))
    parts += [f"<p>note: {html.escape(note)}</p>" for note in report.notes]
    if report.unmapped:
        names = ", ".join(f"<code>{html.escape(name)}</code>" for name in report.unmapped)
        parts.append(
            f"<details><summary>{len(report.unmapped)} names that mean nothing here</summary><p>{names}</p></details>"
        )
    return f'<div class="mainstem-report">{"".join(parts)}</div>'
