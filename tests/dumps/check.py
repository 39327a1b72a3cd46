#!/usr/bin/env python3
"""Runs mainstem diff on the dumps of make.py: a sound program must not be called wrong.

    python tests/dumps/check.py --mainstem build/dev/src/mainstem --dumps FOLDER [RECIPE...]

One line for each: verdict, steps that were judged, the largest ratio and where. Exit code 1 if a step is called wrong that is
no known fault of the program, if nothing was judged, or if diff ends with an error.
--markdown FILE writes the table for the docs; --doctor asks the doctor, who must prove no cause but those faults.
"""

import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys

TIMEOUT_SECONDS = 600


def judge(command, mainstem, folder):
    words = json.loads((folder / "recipe.json").read_text())
    done = subprocess.run([mainstem, command, words["model"], str(folder / words["dump"]), "--json", *words["arguments"]],
                          capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return words, {}, f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    return words, report, "" if done.returncode in (0, 1) else f"exit code {done.returncode}: {report.get('reason', '')}"


def summarise(words, report, error):
    judged = [step for step in report.get("steps", []) if step.get("ratio") is not None]
    worst = max(judged, key=lambda step: float(step["ratio"]), default=None)
    alarms = [site for site in report.get("wrong", [])
              if not any(fnmatch.fnmatch(site, fault) for fault in words["faults"])]
    faults = len(report.get("wrong", [])) - len(alarms)
    proofs = [cause["id"] for cause in report.get("causes", [])
              if cause.get("status") == "proved" and not cause.get("known_fault")
              and not set(cause.get("sites", [])) <= set(words["faults"])]
    bad = bool(error) or bool(alarms) or not judged or bool(proofs)
    return {"verdict": report.get("verdict", "-"), "judged": len(judged), "steps": len(report.get("steps", [])),
            "ratio": float(worst["ratio"]) if worst else 0.0, "at": worst["site"] if worst else "-", "alarms": alarms,
            "faults": faults, "unmapped": len(report.get("unmapped", [])), "proofs": proofs, "error": error, "bad": bad}


def line(name, found):
    text = (f"{'FALSE ' if found['bad'] else ''}{name}: {found['verdict']}, {found['judged']} of {found['steps']} judged, "
            f"largest ratio {found['ratio']:.2f} at {found['at']}, {found['unmapped']} unmapped")
    if found["faults"]:
        text += f", {found['faults']} known faults"
    if found["alarms"]:
        text += f"; called wrong: {', '.join(found['alarms'][:6])}{' …' if len(found['alarms']) > 6 else ''} " \
                f"({len(found['alarms'])})"
    if found["proofs"]:
        text += f"; proved: {', '.join(found['proofs'])}"
    return text + (f"; {found['error']}" if found["error"] else "")


def markdown(results):
    rows = ["| dump | verdict | steps judged | largest ratio | at |", "|---|---|---|---|---|"]
    rows += [f"| {name} | {found['verdict']} | {found['judged']} | {found['ratio']:.2f} | `{found['at']}` |"
             for name, found in results]
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mainstem", required=True)
    parser.add_argument("--dumps", type=pathlib.Path, required=True)
    parser.add_argument("--doctor", action="store_true")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("recipes", nargs="*", default=["*"])
    arguments = parser.parse_args()
    results = []
    for folder in sorted(path.parent for path in arguments.dumps.glob("*/recipe.json")):
        if not any(fnmatch.fnmatch(folder.name, glob) for glob in arguments.recipes):
            continue
        try:
            found = summarise(*judge("doctor" if arguments.doctor else "diff", arguments.mainstem, folder))
        except subprocess.TimeoutExpired:
            found = summarise({"faults": []}, {}, f"no answer within {TIMEOUT_SECONDS} s")
        results.append((folder.name, found))
        print(line(folder.name, found), flush=True)
    false = sum(found["bad"] for _, found in results)
    print(f"{len(results)} dumps, {false} false alarms")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results))
    sys.exit(1 if false or not results else 0)


if __name__ == "__main__":
    main()
