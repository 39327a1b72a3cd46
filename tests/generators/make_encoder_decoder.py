#!/usr/bin/env python3
"""Tiny random encoder-decoders and torch.nn modules, and what they compute at every step.

    python tests/generators/make_encoder_decoder.py

writes tests/golden/encoder_decoder/CASE/: config.json (of marian generation_config.json too),
model.safetensors (float32) and golden.safetensors: `tokens`, `decoder_tokens`, every site in float64 from a model in
float64, and of marian `prompt.N` with `translation.N`, what generate() makes of it, greedy, start and end
token included. The cases and their recorders are in encoder_decoder_models.py.

Needs torch==2.13.0, transformers==5.24.0, safetensors==0.8.0. The same files come out of every run.
"""

import argparse
import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file

import encoder_decoder_models as models

MARIAN_SEED = 6
PROMPTS = ([5, 6, 11, 7], [3, 1, 4, 1, 5, 9, 2, 7], list(range(20, 0, -1)))
TORCH_CASES = ("translator", "language_model", "layers")


def save_golden(values, folder):
    golden = {"tokens": torch.tensor([models.TOKENS]), "decoder_tokens": torch.tensor([models.DECODER_TOKENS])}
    about = dict(torch=torch.__version__, transformers=transformers.__version__)
    save_file(golden | values, folder / "golden.safetensors", metadata={"about": json.dumps(about)})
    for name in ("model", "golden"):
        (folder / f"{name}.safetensors").chmod(0o644)


@torch.no_grad()
def translations(model):
    found = {}
    for number, prompt in enumerate(PROMPTS):
        prompt = torch.tensor([prompt])
        found[f"prompt.{number}"] = prompt
        made = model.generate(prompt, do_sample=False, num_beams=1, max_new_tokens=12)
        found[f"translation.{number}"] = made.contiguous()
    return found


def make(folder):
    marian = models.marian(MARIAN_SEED)
    marian.save_pretrained(folder / "marian")
    sites = models.marian_sites(models.marian_in_double(marian), models.TOKENS, models.DECODER_TOKENS)
    save_golden(sites | translations(marian), folder / "marian")
    for name in TORCH_CASES:
        module, about = models.torch_case(name)
        models.save_torch(module, about, folder / name)
        save_golden(models.torch_sites(module.double(), models.TOKENS, models.DECODER_TOKENS), folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    default = pathlib.Path(__file__).resolve().parent.parent / "golden" / "encoder_decoder"
    parser.add_argument("--out", type=pathlib.Path, default=default)
    torch.set_num_threads(1)
    make(parser.parse_args().out)
