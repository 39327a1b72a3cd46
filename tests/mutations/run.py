#!/usr/bin/env python3
"""Mistakes made on purpose in transformers, and what mainstem doctor says about them.

    python tests/mutations/run.py --binary build/dev/src/mainstem --sample 300 --seed 1 [--case GLOB...] [--jobs 2]

Each case writes a tiny model and the wrong model's dump and runs `mainstem doctor MODEL DUMP --json`. Over the cases
whose local effect is at least 5 times the envelope: is the first wrong step the right one, is the cause proved, is
anything else proved. Exit code 1 below the bounds: 98 % of first steps, 95 % of the known causes, no false proof.

  --case GLOB...  of names like gemma2/cap_missing/f32/ours/0-2, out of the sample; with --every out of all pairs of a
                  mistake and a family
  --misses FILE   what was said of each case that is not right
  --markdown FILE the table for the docs
  --keep FOLDER   models and dumps stay there
"""

import argparse
import fnmatch
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

import torch
import transformers

import mistakes
import models
import score
from cases import Case, sample

TIMEOUT_SECONDS = 120


@dataclass
class Job:
    index: int
    name: str
    folder: str
    binary: str
    command: str


@dataclass
class Outcome:
    name: str
    cause: str
    also: tuple
    family: str
    dtype: str
    kind: str
    layers: tuple
    report_id: str
    expected: str = ""
    effect: float = 0.0
    report: dict = field(default_factory=dict)
    error: str = ""


CASES = []


def model_folder(root, name):
    folder = pathlib.Path(root) / "models" / name
    if folder.exists():
        file = folder / "model.gguf"
        return file if file.exists() else folder
    return models.BY_NAME[name].save(folder)


def carry_out(job):
    case = CASES[job.index]
    mistake = case.mistake
    outcome = Outcome(case.name, mistake.cause, mistake.also, case.tiny.name, case.dtype, case.kind, case.layers,
                      mistake.report)
    path = pathlib.Path(job.folder) / (case.name.replace("/", "_") + ".safetensors")
    outcome.expected, outcome.effect = case.write(path)
    command = [job.binary, job.command, str(model_folder(job.folder, case.tiny.name)), str(path), "--json",
               "--threads", "1"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
        outcome.report = json.loads(done.stdout) if done.stdout.strip() else {}
        if done.returncode not in (0, 1) or not outcome.report:
            outcome.error = f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        outcome.error = f"no answer within {TIMEOUT_SECONDS} s"
    except json.JSONDecodeError as error:
        outcome.error = f"no JSON: {error}"
    if not job.name:  # not kept
        path.unlink()
    return outcome


def start_worker():
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def may_match(mistake, tiny, glob):
    """Before the case is made, which takes a model."""
    parts = glob.split("/")
    return len(parts) != 5 or fnmatch.fnmatch(f"{tiny.name}/{mistake.name}", "/".join(parts[:2]))


def run(arguments, folder):
    start_worker()
    for name in {case.tiny.name for case in CASES}:
        model_folder(folder, name)
    jobs = [Job(index, "kept" if arguments.keep else "", str(folder), arguments.binary, arguments.command)
            for index in range(len(CASES))]
    outcomes = []
    with multiprocessing.get_context("fork").Pool(arguments.jobs, start_worker) as pool:
        for outcome in pool.imap(carry_out, jobs):
            outcomes.append(outcome)
            if arguments.verbose:
                print(score.line(outcome), flush=True)
    return outcomes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", nargs="+", default=["*"])
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--command", default="doctor", choices=("doctor", "diff"), help="diff judges the first step only")
    parser.add_argument("--misses", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true")
    arguments = parser.parse_args()
    table = mistakes.load()
    if arguments.every:
        drawn = [Case.widest(mistake, tiny) for mistake in table for tiny in models.MODELS
                 if mistake.fits(tiny) and any(may_match(mistake, tiny, glob) for glob in arguments.case)]
    else:
        drawn = sample(table, arguments.sample, arguments.seed)
    CASES.extend(case for case in drawn if any(fnmatch.fnmatch(case.name, glob) for glob in arguments.case))
    if not CASES:
        parser.error(f"no case is called {' or '.join(arguments.case)}")
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        outcomes = run(arguments, arguments.keep)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            outcomes = run(arguments, pathlib.Path(temporary))
    if arguments.misses:
        arguments.misses.write_text(score.misses(outcomes, arguments.command))
    if arguments.markdown:
        arguments.markdown.write_text(score.markdown(outcomes, arguments))
    sys.exit(score.summary(outcomes, arguments.command))


if __name__ == "__main__":
    main()
