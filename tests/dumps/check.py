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


KINDS = (("stream", ("embed", "resid", "sum", "attn_out", "mlp_out")), ("norm", ("norm",)),
         ("product", ("q", "k", "v", "attn_proj", "mlp_gate", "mlp_value", "mlp_pre", "mlp_proj", "head", "logits")),
         ("rotary", ("q_rot", "k_rot")), ("scores", ("scores",)), ("pattern", ("pattern",)), ("mixture", ("attn_mix",)),
         ("activation", ("mlp_act", "mlp_hidden")))


def kind_of(site):
    """The column of a step."""
    last = site.rsplit(".", 1)[-1]
    for kind, words in KINDS[2:]:
        if last in words:
            return kind
    return "norm" if last.endswith("norm") else "stream"


WAYS = {"eager": "float32, eager", "sdpa": "float32, sdpa", "compiled": "float32, compiled", "bf16": "bfloat16",
        "f16": "float16", "returned": "float32, outputs", "debugger": "float32, debugger", "f32": "float32",
        "processed": "weights folded and centred", "flash": "flash attention", "full": "all numbers"}
PROGRAMS = {"torch": "PyTorch", "transformers": "PyTorch", "permuted": "PyTorch, rows permuted", "lens": "TransformerLens",
            "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "llama_cpp": "llama.cpp", "plain_cpp": "plain C++"}


def row_of(recipe, arithmetic):
    program = next(text for start, text in PROGRAMS.items() if recipe.startswith(start + "_"))
    ways = [text for word, text in WAYS.items() if word in recipe.split("_")[1:]]
    ways += ["real models"] if "real" in recipe or (program == "llama.cpp" and recipe.split("_")[2] in (
        "smollm2", "gemma3") and "tiny" not in recipe) else []
    return f"{program}, {', '.join(ways)}" if ways else program, arithmetic


def markdown(results):
    """The largest ratio of local error and envelope of each kind of step, by program and type."""
    rows, counts = {}, {}
    for name, words, report in results:
        row = row_of(name, report.get("arithmetic", "-"))
        cells = rows.setdefault(row, {})
        counts[row] = counts.get(row, 0) + 1
        for step in report.get("steps", []):
            known = any(fnmatch.fnmatch(step["site"], fault) for fault in words["faults"])
            if step.get("ratio") is None or known or step["verdict"] == "inherited":
                continue
            kind = kind_of(step["site"])
            cells[kind] = max(cells.get(kind, 0), float(step["ratio"]))
    kinds = [kind for kind, _ in KINDS]
    lines = [f"| program | held to | dumps | {' | '.join(kinds)} |", "|---|---|---:|" + "---:|" * len(kinds)]
    for row in sorted(rows):
        cells = (f"{rows[row][kind]:.2f}" if kind in rows[row] else "" for kind in kinds)
        lines.append(f"| {row[0]} | {row[1]} | {counts[row]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mainstem", required=True)
    parser.add_argument("--dumps", type=pathlib.Path, required=True)
    parser.add_argument("--doctor", action="store_true")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("recipes", nargs="*", default=["*"])
    arguments = parser.parse_args()
    results, false = [], 0
    for folder in sorted(path.parent for path in arguments.dumps.glob("*/recipe.json")):
        if not any(fnmatch.fnmatch(folder.name, glob) for glob in arguments.recipes):
            continue
        try:
            words, report, error = judge("doctor" if arguments.doctor else "diff", arguments.mainstem, folder)
        except subprocess.TimeoutExpired:
            words, report, error = {"faults": []}, {}, f"no answer within {TIMEOUT_SECONDS} s"
        found = summarise(words, report, error)
        results.append((folder.name, words, report))
        false += found["bad"]
        print(line(folder.name, found), flush=True)
    print(f"{len(results)} dumps, {false} false alarms")
    if arguments.markdown:
        arguments.markdown.write_text(markdown(results))
    sys.exit(1 if false or not results else 0)


if __name__ == "__main__":
    main()
