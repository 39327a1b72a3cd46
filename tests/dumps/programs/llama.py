"""llama.cpp, whose text says each node's first and last values with four decimals."""

import contextlib
import importlib.util
import pathlib
import subprocess
import sys

from programs import GEMMA3, SMOLLM2, NotHere, recipe, tokens_of

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "llama_callback.py"


def text(*words):
    def make(path, folder):
        if importlib.util.find_spec("llama_cpp") is None:
            raise NotHere("no llama-cpp-python")
        out = folder / "dump.txt"
        with out.open("w") as file, contextlib.suppress(BrokenPipeError):
            subprocess.run([sys.executable, SCRIPT, path, ",".join(map(str, tokens_of(path))), *words], stdout=file,
                           stderr=subprocess.DEVNULL, check=True)
        return out
    return make


recipe("llama_cpp_smollm2", SMOLLM2, text())
recipe("llama_cpp_smollm2_flash", SMOLLM2, text("--flash"))
# Its GELU is a table of half-precision numbers.
recipe("llama_cpp_gemma3", GEMMA3, text(), faults=("blocks.*.mlp_act", "blocks.*.mlp_hidden"))
recipe("llama_cpp_gemma3_flash", GEMMA3, text("--flash"), faults=("blocks.*.mlp_act", "blocks.*.mlp_hidden"))
