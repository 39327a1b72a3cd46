#!/usr/bin/env python3
"""Writes tests/golden/sampling.json: the probabilities that transformers gives the next token
under options of sampling.

    pip install torch==2.13.0 transformers==5.24.0
    python tests/generators/make_sampling.py
"""
import json
import pathlib

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
    TopKLogitsWarper, TopPLogitsWarper)

OPTIONS = [
    {"temperature": 1.0},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"temperature": 1.0, "top_k": 3},
    {"temperature": 0.7, "top_k": 1},
    {"temperature": 1.0, "top_k": 100},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 1.0, "top_p": 0.5},
    {"temperature": 1.0, "top_p": 0.01},
    {"temperature": 1.0, "min_p": 0.1},
    {"temperature": 1.5, "min_p": 0.5},
    {"temperature": 1.0, "repeat_penalty": 1.3},
    {"temperature": 1.0, "repeat_penalty": 0.8},
    {"temperature": 2.0, "top_k": 8, "top_p": 0.8, "min_p": 0.05, "repeat_penalty": 1.2},
    {"temperature": 0.3, "top_k": 5, "top_p": 0.95},
    {"temperature": 1.0, "top_k": 4, "ties": True},
]


def main() -> None:
    generator = torch.Generator().manual_seed(7)
    cases = []
    for options in OPTIONS:
        logits = 2 * torch.randn(16, generator=generator)
        if options.get("ties"):
            logits[[3, 5, 8, 11]] = logits.max() - 0.25
        if len(cases) % 3 == 0:
            logits[2] = -torch.inf
        history = [1, 4, 4, 9, 0]
        processors = LogitsProcessorList()
        if "repeat_penalty" in options:
            processors.append(RepetitionPenaltyLogitsProcessor(options["repeat_penalty"]))
        processors.append(TemperatureLogitsWarper(options["temperature"]))
        if "top_k" in options:
            processors.append(TopKLogitsWarper(options["top_k"]))
        if "top_p" in options:
            processors.append(TopPLogitsWarper(options["top_p"]))
        if "min_p" in options:
            processors.append(MinPLogitsWarper(options["min_p"]))
        scores = processors(torch.tensor([history]), logits[None].clone())[0]
        probabilities = torch.softmax(scores.double(), -1)
        cases.append({"options": {k: v for k, v in options.items() if k != "ties"}, "history": history,
                      "logits": [None if x == -torch.inf else float(x) for x in logits],
                      "probabilities": [float(f"{p:.9g}") for p in probabilities]})
    path = pathlib.Path(__file__).parents[1] / "golden/sampling.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
