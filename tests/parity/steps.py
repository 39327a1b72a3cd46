"""What the scripts of this folder share: running mainstem, and comparing values step by step."""

import json
import pathlib
import subprocess
import sys

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "generators"))

# Relative to the largest value of the tensor. In double both sides keep double throughout.
BOUNDS = {"f32": 2e-5, "f64": 1e-12}


class Mainstem:
    """The command, and a folder for what it writes."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, pathlib.Path(folder)

    def run(self, *words):
        command = [self.binary, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def trace(self, model, tokens, compute, sites="*", *more):
        """Site -> value of one pass over a list of tokens, or over a batch of such lists; a value that has several
        names comes under its first."""
        out = self.folder / "trace.safetensors"
        self.run("trace", model, *ids_words("--tokens", tokens), "--compute", compute, "--sites", sites, "--threads", 1,
                 "--out", out, *more)
        return load_file(out)

    def generate(self, model, tokens, count):
        out = self.run("run", model, "--tokens", ids_text(tokens), "--count", count, "--compute", "f32", "--threads", 1,
                       "--ignore-eos", "--json")
        return json.loads(out)["ids"]


def ids_text(tokens):
    return ",".join(map(str, tokens))


def ids_words(option, tokens):
    """The option once for a list, for each list of a batch."""
    batch = tokens if isinstance(tokens[0], list) else [tokens]
    return [word for each in batch for word in (option, ids_text(each))]


COMPANIONS = {stack + name for stack in ("", "encoder.", "decoder.") for name in ("tokens", "positions", "key_mask")}


def unpadded(values, lengths, encoder_lengths=None):
    """Of a batch padded on the left what belongs to the sequences, the rows of their tokens and of those the keys
    of their tokens: site -> numbers. The values of sequences on their own may come as a list."""
    alone = isinstance(values, list)
    result = {}
    for site in (values[0] if alone else values):
        name = site.rsplit(".", 1)[-1]
        of_encoder = site.startswith("encoder.") or name in ("cross_k", "cross_v")
        rows = encoder_lengths if of_encoder else lengths
        keys = encoder_lengths if of_encoder or name.startswith("cross_") else lengths
        parts = []
        for b, (row, key) in enumerate(zip(rows, keys)):
            value = values[b][site][0] if alone else values[site][b]
            square = name.endswith(("scores", "pattern"))
            parts.append((value[:, -row:, -key:] if square else value[-row:]).ravel())
        result[site] = np.concatenate(parts)
    return result


class Tally:
    """Counts comparisons and prints one line for each."""

    def __init__(self):
        self.steps = self.wrong = 0

    def fail(self, text):
        print(f"WRONG {text}", flush=True)
        self.wrong += 1

    def compare(self, name, reference, got, bound):
        """Every value that mainstem gives, against the reference's."""
        worst, worst_site = 0.0, "-"
        for site in sorted(set(got) - COMPANIONS):
            self.steps += 1
            if site not in reference:
                self.fail(f"{name}: {site} has nothing to be compared with")
                continue
            expected, value = reference[site].astype(np.float64), got[site].astype(np.float64)
            if value.shape != expected.shape:
                self.fail(f"{name}: {site} has the shape {value.shape}, not {expected.shape}")
                continue
            error = np.abs(value - expected).max() / np.abs(expected).max()
            if not error <= bound:
                self.fail(f"{name}: {site} differs by {error:.2e}")
            if not error <= worst:
                worst, worst_site = error, site
        print(f"{name}: {len(got)} steps, worst {worst:.1e} at {worst_site} (bound {bound:.0e})", flush=True)

    def equal(self, name, reference, got):
        """The same bits."""
        self.steps += len(got)
        for site in sorted(set(got) | set(reference)):
            if site not in got or site not in reference or not np.array_equal(got[site], reference[site]):
                self.fail(f"{name}: {site} is not the same")

    def finish(self):
        print(f"{self.steps} comparisons, {self.wrong} wrong")
        sys.exit(1 if self.wrong or not self.steps else 0)
