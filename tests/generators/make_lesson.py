#!/usr/bin/env python3
"""Golden data for the lesson "Inside the Transformer Block": its worked example, its decoder
block, its exercises and the generator behind them.

    tests/generators/make_lesson.py --out tests/golden [--lesson LESSON.txt]

Writes DIR/lesson/*.safetensors and *.json; versions.json and worked_example.json are not kept
here. Made with torch 2.13.0 (CPU with AVX2), numpy 2.4.6, safetensors 0.8.0.
With --lesson, the code printed in the lesson text is executed as it stands and the
data is compared with it bit for bit. Every number is also recomputed a second way
(numpy float64, a separate mt19937 reader, finite differences); the script stops at
the first disagreement and prints what it compared.
"""

import argparse
import os
import platform
import re

import numpy as np
import torch

from lesson.decoder_block import decoder_block
from lesson.exercises import exercises
from lesson.random_numbers import randn_json
from lesson.records import CHECKS, dump
from lesson.worked_example import worked_example


def run_lesson(path):
    text = open(path, encoding="utf-8").read()
    parts = re.findall(r"^import torch\nimport torch\.nn as nn\n.*?(?=^(?:Shape trace summary:|7\. Engineering))", text, re.S | re.M)
    assert len(parts) == 2, len(parts)
    a, b = {}, {}
    exec(compile(parts[0], "lesson-example", "exec"), a)  # the text is the lesson's published listing
    exec(compile(parts[1], "lesson-block", "exec"), b)
    return a, b


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True, help="the golden folder; DIR/lesson is written")
    ap.add_argument("--lesson", help="the lesson text, to compare with its own listings")
    args = ap.parse_args()
    torch.set_num_threads(1)
    out = os.path.join(args.out, "lesson")
    os.makedirs(out, exist_ok=True)
    a, b = run_lesson(args.lesson) if args.lesson else (None, None)
    worked_example(out, a)
    randn_json(out)
    decoder_block(out, b)
    exercises(out)
    dump(
        os.path.join(out, "versions.json"),
        {
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "numpy": np.__version__,
            "python": platform.python_version(),
            "threads": 1,
            "torch": torch.__version__,
        },
    )
    for name, err, tol in CHECKS:
        print(f"{err:10.3g} <= {tol:8.1g}  {name}")
    print(len(CHECKS), "checks passed")


if __name__ == "__main__":
    main()
