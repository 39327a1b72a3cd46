#!/usr/bin/env python3
"""Tiny random encoder-decoders compared with `mainstem trace` at every step, and with `mainstem run`.

    python tests/parity/encoder_decoder_parity.py --mainstem build/dev/src/mainstem

Marian from transformers, and modules made of torch.nn's Transformer classes: post-norm and norm_first, ReLU,
GELU and SiLU, with and without biases, as encoder-decoder, as a causal language model and as a bare list of
layers. torch's result with hooks is also compared with the one of its fast path. Translations of Marian are
compared token by token with generate(), greedy, where its files forbid words.

Bounds, relative to the largest value of the tensor: 2e-5 in float32, 1e-12 in double. Exit code 1 if
anything differs. Needs torch==2.13.0, transformers==5.24.0, safetensors==0.8.0.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import torch

from steps import BOUNDS, Mainstem, Tally, ids_text

import encoder_decoder_models as models  # in tests/generators, which steps puts on the path



def trace(mainstem, folder, compute, encodes):
    more = ["--decoder-tokens", ids_text(models.DECODER_TOKENS)] if encodes else []
    return mainstem.trace(folder, models.TOKENS, compute, "*", *more)


def numpy_values(sites):
    return {site: value.numpy() for site, value in sites.items()}


def check_marian(mainstem, tally, folder):
    cases = ((6, {}), (2, {}), (7, dict(scale_embedding=False, activation_function="relu",
                                        encoder_layers=3, decoder_layers=1)))
    for seed, changes in cases:
        model = models.marian(seed, **changes)
        model.save_pretrained(folder)
        for compute, bound in BOUNDS.items():
            each = models.marian_in_double(model) if compute == "f64" else model
            reference = numpy_values(models.marian_sites(each, models.TOKENS, models.DECODER_TOKENS))
            tally.compare(f"marian {seed}, {compute}", reference, trace(mainstem, folder, compute, True), bound)
        for prompt in ([5, 6, 11, 7], [3, 1, 4, 1, 5, 9, 2, 7], list(range(20, 0, -1))):
            with torch.no_grad():
                want = model.generate(torch.tensor([prompt]), do_sample=False, num_beams=1, max_new_tokens=12)
            made = json.loads(mainstem.run("run", folder, "--tokens", ids_text(prompt), "-n", 12,
                                           "--compute", "f32", "--json"))
            end = [model.config.eos_token_id] if made["stop"] == "eos" else []
            got = made["decoder_ids"] + made["ids"] + end
            tally.steps += 1
            if got != want[0].tolist():
                tally.fail(f"marian {seed}: {prompt} becomes {got}, not {want[0].tolist()}")
        print(f"marian {seed}: greedy translations, the last {got}")


def check_torch(mainstem, tally, folder):
    for name in models.TORCH_CASES:
        module, about = models.torch_case(name)
        models.save_torch(module, about, folder / name)
        for compute, bound in BOUNDS.items():
            module = module.double() if compute == "f64" else module.float()
            reference = numpy_values(models.torch_sites(module, models.TOKENS, models.DECODER_TOKENS))
            got = trace(mainstem, folder / name, compute, "num_decoder_layers" in about)
            tally.compare(f"torch {name}, {compute}", reference, got, bound)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mainstem", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tally = Tally()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        mainstem = Mainstem(arguments.mainstem, folder)
        check_marian(mainstem, tally, folder / "marian")
        check_torch(mainstem, tally, folder)
    tally.finish()


if __name__ == "__main__":
    main()
