#!/usr/bin/env python3
"""Tiny random models of every family, and what transformers computes from them.

    python tests/generators/make_families.py

writes tests/golden/families/CASE/ for the cases of tiny/cases.py that are marked golden: config.json as
transformers writes it, model.safetensors (weights that bfloat16 holds, in bfloat16), and golden.safetensors:
tokens (of an encoder: encoder_tokens; for BERT token_types) and values by their sites. Of the first
block there are few, of the last there are all, but no value under two names; computed in double, kept in
float32.

Needs torch==2.13.0, transformers==5.24.0, safetensors==0.8.0. The same files come out of every run.
"""

import argparse
import json
import pathlib
import re
import shutil
import tempfile

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

from tiny.cases import CASES, ENCODER_TOKENS, TOKENS, Case

LENGTH = 7
TYPES = [0, 2, 1, 0, 1, 2, 2]
OF_EARLIER_BLOCKS = ("q_rot", "pattern", "resid_post")
ABOUT = {"about": json.dumps(dict(torch=torch.__version__, transformers=transformers.__version__))}


def kept(values):
    last = max(int(match[1]) for match in map(re.compile(r".*blocks\.(\d+)\.").match, values) if match)
    seen = set()
    for site, value in values.items():
        block = re.search(r"blocks\.(\d+)\.(.*)", site)
        if block is None or int(block[1]) == last or block[2] in OF_EARLIER_BLOCKS:
            value = np.ascontiguousarray(value, dtype=np.float32)
            if value.tobytes() not in seen:
                yield site, value
            seen.add(value.tobytes())


def write_model(case, model, folder):
    with tempfile.TemporaryDirectory() as temporary:
        written = pathlib.Path(temporary)
        if isinstance(case, Case):
            model.save_pretrained(written)
        else:
            case.save(model, written)
        weights = load_file(written / "model.safetensors")
        config = json.loads((written / "config.json").read_text())
    for name, value in weights.items():
        assert torch.equal(value, value.bfloat16().float()), name
    save_file({name: value.bfloat16().contiguous() for name, value in weights.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    if "dtype" in config:
        config["dtype"] = "bfloat16"
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def make(case, folder):
    folder.mkdir(parents=True)
    model, tokens = case.make_model(), TOKENS[:LENGTH]
    write_model(case, model, folder)
    inputs = {"tokens": tokens}
    types = []
    if case.name == "bert":
        types, inputs["token_types"] = [TYPES], TYPES
    if case.encoder:
        inputs["encoder_tokens"] = ENCODER_TOKENS
    golden = {name: np.array([ids]) for name, ids in inputs.items()}
    golden |= dict(kept(case.record_in_double(model, tokens, *types)))
    save_arrays(golden, folder / "golden.safetensors", metadata=ABOUT)
    for name in ("model", "golden"):
        (folder / f"{name}.safetensors").chmod(0o644)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = pathlib.Path(__file__).resolve().parent.parent / "golden" / "families"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    folder = parser.parse_args().out
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    shutil.rmtree(folder, ignore_errors=True)
    for case in CASES:
        if case.golden:
            make(case, folder / case.name)


if __name__ == "__main__":
    main()
