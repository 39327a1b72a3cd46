"""llama.cpp: text that says each node's first and last values with four decimals, and text that says all of them."""

import pathlib
import subprocess
import sys

import models
from gguf_families import write_gguf
from programs import GEMMA3, SMOLLM2, recipe, tokens_of
from programs.pytorch import load

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "llama_callback.py"
sys.path.insert(0, str(SCRIPT.parent))


def text(*words, tokens=None):
    def make(path, folder):
        import llama_callback
        llama_callback.library()
        if path.is_dir():  # transformers' form
            quantised = models.BY_NAME[path.name].quantised
            model, path = load(path), folder / "model.gguf"
            if quantised:
                models.write_quantised(model, path, quantised)
            else:
                write_gguf(model, path)
        out = folder / "dump.txt"
        ids = ",".join(map(str, tokens_of(path)[:tokens]))
        with out.open("w") as file:
            subprocess.run([sys.executable, SCRIPT, path, ids, *words], stdout=file, check=True)
        return out
    return make


for real, short in ((SMOLLM2, "smollm2"), (GEMMA3, "gemma3")):
    recipe(f"llama_cpp_{short}", real, text())
    recipe(f"llama_cpp_{short}_flash", real, text("--flash"))
    # All numbers of a few tokens: each step stands on its own inputs.
    recipe(f"llama_cpp_{short}_full", real, text("--full", tokens=7))
    recipe(f"llama_cpp_{short}_full_flash", real, text("--full", "--flash", tokens=7))
# Weights in float32; for what llama.cpp computes otherwise than the model's config says, see tests/parity/gguf_parity.py.
for tiny in ("llama", "llama3", "llama_blocks", "qwen3", "gemma2", "gemma3", "gpt2", "bert", "gpt_neox", "falcon", "phi",
             "stablelm", "granite"):
    # The one table of GELU, where the erf form is asked for.
    faults = ("blocks.*.mlp_act",) if tiny in ("bert", "gpt_neox", "falcon") else ()
    recipe(f"llama_cpp_tiny_{tiny}", tiny, text(), faults=faults)
    recipe(f"llama_cpp_tiny_{tiny}_full", tiny, text("--full"), faults=faults)
