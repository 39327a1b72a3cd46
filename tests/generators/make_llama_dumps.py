#!/usr/bin/env python3
"""Writes tests/golden/dumps/nodes_NAME.txt: what llama.cpp computes of models of tests/golden/families.

    python tests/generators/make_llama_dumps.py

The models are written as GGUF files for it, in float32; the text is that of tests/dumps/llama_callback.py, without the views
of the cache. Versions: xllamacpp==2026.10.11549, transformers==5.24.0, torch==2.13.0, gguf==0.19.0.
"""

import pathlib
import subprocess
import sys
import tempfile

import transformers

from gguf_families import write_gguf

TESTS = pathlib.Path(__file__).resolve().parent.parent
TOKENS = "3,1,4,1,5,9,2"
NAMES = ("gpt2", "gpt_neox")


def nodes(text):
    """The text in pieces, one for each node, and what stands before the first."""
    return text.split("common_debug_cb_eval:")


def main():
    for name in NAMES:
        model = transformers.AutoModelForCausalLM.from_pretrained(TESTS / "golden" / "families" / name)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.gguf"
            write_gguf(model, path)
            done = subprocess.run([sys.executable, TESTS / "dumps" / "llama_callback.py", path, TOKENS],
                                  capture_output=True, text=True, check=True)
        head, *pieces = nodes(done.stdout)
        kept = [piece for piece in pieces if "cache_" not in piece.split(" = ")[0]]
        text = "common_debug_cb_eval:".join([head, *kept])
        (TESTS / "golden" / "dumps" / f"nodes_{name}.txt").write_text(text)


if __name__ == "__main__":
    main()
