#!/usr/bin/env python3
"""Bugs that people reported, made again in tiny models, and what mainstem doctor says of each.

    python tests/public_cases/run.py --binary build/dev/src/mainstem [--case GLOB...] [--markdown FILE] [--keep FOLDER]

The first wrong step must be the one where the wrong code's values part from the right one's, the cause must be proved and
nothing else be. Rows of another kind say what must be said instead: no bug, no known cause, nothing to compare, files
that are refused. Exit code 1 if a case is not as it should be.
"""

import argparse
import fnmatch
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import torch
import transformers

import sizes
import table
import known_faults  # noqa: F401  (its rows, behind those of the table)
from rows import ROWS

TIMEOUT_SECONDS = 300


@dataclass
class Outcome:
    row: object
    made: object = None
    report: dict = field(default_factory=dict)
    message: str = ""
    faults: list = field(default_factory=list)

    def cause(self):
        """The cause that is told: the expected one, else the first."""
        causes = self.report.get("causes", [])
        return next((each for each in causes if each["id"] in accepted(self.row)), causes[0] if causes else {})


def accepted(row):
    return {row.cause, *row.also}


def first_step(report):
    site = (report.get("first") or {}).get("site")
    return next((step for step in report.get("steps", []) if step["site"] == site), {})


def saved(root, model):
    folder = root / "models" / model
    if folder.exists():
        file = folder / "model.gguf"
        return file if file.exists() else folder
    return sizes.tiny(model).save(folder)


def carry_out(row, root, binary):
    outcome = Outcome(row)
    folder = root / row.name.replace("/", "_")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    outcome.made = made = row.make(folder)
    model, arguments = saved(root, row.model), list(made.arguments)
    if arguments[:1] == ["MODEL"]:  # files of its own
        model, arguments = pathlib.Path(arguments[1]), []
    done = subprocess.run([binary, "doctor", str(model), str(made.dump), "--json", "--threads", "1", *arguments],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    outcome.message = done.stderr.strip()
    expected = {"match": 0, "refused": 3, "incomparable": 3}.get(row.status, 1)
    if done.returncode != expected:
        outcome.faults.append(f"exit code {done.returncode}, not {expected}: {outcome.message[-300:]}")
    if done.stdout.strip():
        outcome.report = json.loads(done.stdout)
    outcome.faults += judge(outcome)
    return outcome


def judge(outcome):
    row, report = outcome.row, outcome.report
    faults = []
    if row.status == "refused":
        if report or row.says["error"] not in outcome.message:
            faults.append(f"no error that says '{row.says['error']}': {outcome.message[-300:]}")
        return faults
    verdict = {"match": "match", "incomparable": "incomparable"}.get(row.status, "divergent")
    if report.get("verdict") != verdict:
        faults.append(f"verdict {report.get('verdict')}, not {verdict}")
    site = (report.get("first") or {}).get("site")
    if site != outcome.made.first:
        faults.append(f"first step {site}, not {outcome.made.first}")
    proofs = [cause for cause in report.get("causes", []) if cause["status"] == "proved"]
    others = [cause["id"] for cause in proofs if row.status != "proved" or cause["id"] not in accepted(row)]
    if others:
        faults.append(f"proved {', '.join(others)}")
    if row.status == "proved":
        found = [cause for cause in proofs if cause["id"] in accepted(row)]
        blocks = {block for cause in found for block in cause["layers"]}
        # An eps fades with depth: a block where nothing is wrong needs no proof.
        wrong = {int(site.split(".")[1]) for site in report.get("wrong", []) if site.startswith("blocks.")}
        needed = {block for block in outcome.made.layers if block in wrong or block == min(outcome.made.layers)}
        if not found or not needed <= blocks:
            said = ", ".join(f"{cause['id']} {cause['status']} {cause['layers']}" for cause in report.get("causes", []))
            faults.append(f"{row.cause} is not proved in blocks {sorted(needed)}; said {said}")
    step, cause = first_step(report), outcome.cause()
    held = {"yours": cause.get("parameters", {}).get("yours"), "known_fault": cause.get("known_fault"),
            "reason": report.get("reason"), "first_inf": step.get("first_inf"), "first_nan": step.get("first_nan"),
            "sites": " ".join(each["site"] for each in report.get("steps", [])),
            "notes": " ".join(report.get("notes", [])),
            "no_fault": "" if "known_fault" not in cause else None}
    for what, text in row.says.items():
        if held[what] is None or text not in str(held[what]):
            faults.append(f"{what} is {held[what]}, without '{text}'")
    return faults


def number(value):
    return "-" if value is None else f"{float(value):.1e}"


def verdict_of(outcome):
    row, cause = outcome.row, outcome.cause()
    if row.status == "incomparable":
        return f"incomparable: {outcome.report.get('reason')}"
    if row.status == "match":
        notes = [note for note in outcome.report.get("notes", []) if row.says.get("notes", "\n") in note]
        return "match" + (f": it is `{row.says['sites']}`" if "sites" in row.says else "") + "".join(
            f"; note: {note}" for note in notes)
    if row.status == "refused":
        return "refused: " + outcome.message.removeprefix("mainstem: ").split(";")[0].split("\n")[0]
    yours = cause.get("parameters", {}).get("yours", "")
    return f"`{cause.get('id')}` {cause.get('status')}: {yours}" if cause.get("id") != "unknown" else f"unknown: {yours}"


def line(outcome):
    cause = outcome.cause()
    numbers = " ".join(number(cause.get(key)) for key in ("local", "left", "envelope"))
    text = f"{outcome.row.name}: {verdict_of(outcome)} at {(outcome.report.get('first') or {}).get('site')} ({numbers})"
    return text if not outcome.faults else f"WRONG {text}; {'; '.join(outcome.faults)}"


HEAD = """# Public cases

Bugs that people reported of well-known code, made again in tiny random models (`tests/public_cases`), and what
`mainstem doctor` says of them. The wrong code is PyTorch: patched transformers models, edited weights, misread bytes, or
the library itself; the doctor sees the right model's files and the wrong code's dump. *First* is the first wrong step,
*local* its error before, *left* what remains with the mistake in the reference, *envelope* what sound code leaves
([diff.md](diff.md)). Each row is checked by `tools/lane public-cases`.
"""


def markdown(outcomes):
    lines = [HEAD, f"{len(outcomes)} cases.", "", "| id | report | family | what the code did | said | first | local | left | "
             "envelope |", "|---|---|---|---|---|---|---|---|---|"]
    for outcome in outcomes:
        row, cause = outcome.row, outcome.cause()
        family = row.family + (f", {row.dtype}" if row.dtype != "f32" else "")
        site = (outcome.report.get("first") or {}).get("site")
        proof = [number(cause.get(key)) for key in ("local", "left", "envelope")] if row.status == "proved" else ["-"] * 3
        said = verdict_of(outcome).replace("|", "\\|")
        if cause.get("known_fault"):
            said += f". Known fault: {cause['known_fault']}"
        lines.append(f"| {row.id} | {row.report} | {family} | {row.did} | {said} | {f'`{site}`' if site else '-'} | "
                     + " | ".join(proof) + " |")
    lines += ["", "N12 and N13 are orders of rounding: released code has both, so in half precision either lies in the envelope, and "
              "is noted where it holds bit for bit (N12 rounds 1 + w as well); in float32 there is no difference. Not shown here:", "",
              "| id | report | why |", "|---|---|---|"]
    lines += [f"| {name} | {report} | {why} |" for name, report, why in table.LEFT_OUT]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--case", nargs="+", default=["*"])
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    chosen = [row for row in ROWS if any(fnmatch.fnmatch(row.name, glob) for glob in arguments.case)]
    if not chosen:
        parser.error(f"no case is called {' or '.join(arguments.case)}")
    outcomes = []
    with tempfile.TemporaryDirectory() as temporary:
        for row in chosen:
            outcomes.append(carry_out(row, arguments.keep or pathlib.Path(temporary), arguments.binary))
            print(line(outcomes[-1]), flush=True)
    wrong = [outcome for outcome in outcomes if outcome.faults]
    print(f"{len(outcomes)} public cases, {len(wrong)} not as they should be")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(outcomes))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
