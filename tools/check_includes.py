#!/usr/bin/env python3
"""Holds the source to the order of its layers.

    python3 tools/check_includes.py [ROOT]

A folder of src/ is a layer, and a layer may include only itself and layers of a lower rank.
Layers of one rank (kernels and io) know nothing of each other. A public header belongs to the
layer that implements it, by the table below, and follows the same rule; it never includes a
header of src/. Prints one line for each include that points the wrong way; exit code 1 if any.
"""

import pathlib
import re
import sys

RANKS = {
    "base": 0,
    "tensor": 1,
    "kernels": 2,
    "io": 2,
    "program": 3,
    "runtime": 4,
    "models": 5,
    "train": 5,
    "diagnose": 6,
    "cli": 7,
    "python": 7,
}

PUBLIC_HEADERS = {
    "error.h": "base",
    "rng.h": "base",
    "threads.h": "base",
    "activation.h": "tensor",
    "arithmetic.h": "kernels",
    "tensor.h": "tensor",
    "dump.h": "io",
    "gguf.h": "io",
    "npz.h": "io",
    "safetensors.h": "io",
    "stored_tensor.h": "io",
    "draw.h": "program",
    "program.h": "program",
    "sites.h": "program",
    "spec.h": "program",
    "block.h": "runtime",
    "session.h": "runtime",
    "trace.h": "runtime",
    "weights.h": "runtime",
    "chat.h": "models",
    "decoder_block.h": "models",
    "embed.h": "models",
    "example.h": "models",
    "model.h": "models",
    "presets.h": "models",
    "sampling.h": "models",
    "score.h": "models",
    "tokenizer.h": "models",
    "torch_layer.h": "models",
    "check.h": "diagnose",
    "diff.h": "diagnose",
    "doctor.h": "diagnose",
    "mainstem.h": "diagnose",  # all of them
}

SUFFIXES = {".h", ".cc", ".inl", ".inc"}
MADE_BY_THE_BUILD = {"family_list.inc"}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')


def layer_of(path):
    """The layer of a file of src/ or include/mainstem/, given its path from the root."""
    parts = path.parts
    if parts[:2] == ("include", "mainstem"):
        return PUBLIC_HEADERS.get("/".join(parts[2:]))
    return parts[1] if len(parts) > 2 and parts[1] in RANKS else None


def target_of(included, including, root):
    """The file that an include means, from the root; None for headers of other projects."""
    if included.startswith("mainstem/"):
        return pathlib.Path("include") / included
    beside = (root / including).parent / included
    for candidate in (root / "src" / included, beside):
        if candidate.is_file():
            return candidate.resolve().relative_to(root.resolve())
    return None


def problems_of_line(line, path, root):
    """What is wrong with one line of a file, or None."""
    match = INCLUDE.match(line)
    if not match:
        return None
    quote, included = match.groups()
    target = target_of(included, path, root)
    if target is None:
        if included in MADE_BY_THE_BUILD:
            return None
        return f"no such file: {included}" if quote == '"' else None
    own, other = layer_of(path), layer_of(target)
    if other is None:
        return f"{target} has no layer: add it to the table in tools/check_includes.py"
    if path.parts[0] == "include" and target.parts[0] != "include":
        return f"a public header includes the private {target}"
    if own != other and RANKS[other] >= RANKS[own]:
        return f"layer {own} may not use layer {other}"
    return None


def check(root):
    """Yields (path, line number, line, problem) for everything that is wrong under root."""
    files = sorted(
        file
        for folder in ("include", "src")
        for file in (root / folder).rglob("*")
        if file.suffix in SUFFIXES
    )
    if not files:
        yield pathlib.Path("src"), 0, "", "no source files here"
    for file in files:
        path = file.relative_to(root)
        if layer_of(path) is None:
            yield path, 0, "", "belongs to no layer: add it to the table in tools/check_includes.py"
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            problem = problems_of_line(line, path, root)
            if problem:
                yield path, number, line.strip(), problem


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent)
    wrong = list(check(root))
    for path, number, line, problem in wrong:
        print(f"{path}:{number}: {problem}\n    {line}")
    print(f"{len(wrong)} includes point the wrong way" if wrong else "All includes point one way.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
