"""Faults of released versions of well-known implementations, made by the library itself where it can be had.

The doctor must prove the cause and say whose known fault it is; in a family without the fault it must not say so.
"""

import pathlib
import shutil
import tempfile

import tokenizers
import torch
import transformers
from safetensors.torch import save_file

import sizes  # puts the kit on the path
import dump
import models
from patient import Patient
from rows import Made, Row, add, kit

# The table's float32 and our double round a number to another half float here and there: such a block is float16 for us.
HALF = ("precision.dtype",)
TOKENS = torch.tensor([models.TOKENS])


def library(id, report, did, model, make, first, layers, **more_words):
    """make(model, path): the library runs and what hooks see is written; `first` is the step that parts."""
    def made(folder):
        path = folder / "dump.safetensors"
        make(sizes.tiny(model), path)
        return Made(path, first, layers)
    add(Row(id, report, did, model, made, **more_words))


def hooks_of(tiny, path):
    """transformers as it is, by the outputs of its modules."""
    patient = Patient(tiny)
    save_file({name: value.contiguous().clone() for name, value in patient.run().modules.items()}
              | patient.companions(), path)


def bridge(tiny, path):
    """TransformerLens by its own cache. A tokenizer is never asked, but it wants to have one."""
    from transformer_lens.model_bridge import TransformerBridge
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / "model"
        tiny.make_model().save_pretrained(folder)
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="a", eos_token="a",
                                             pad_token="a").save_pretrained(folder)
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        model = TransformerBridge.boot_transformers(str(folder), hf_model=loaded, device="cpu", dtype=torch.float32)
        with torch.no_grad():
            _, cache = model.run_with_cache(TOKENS)
        shutil.rmtree(folder)
    save_file({"tokens": TOKENS} | {name: value.detach().contiguous().clone() for name, value in cache.items()}, path)


def without_cap(tiny, path):
    """transformers as it is, scores and patterns too."""
    patient = Patient(tiny)
    assert patient.config.attn_logit_softcapping
    dump.write(path, patient.run(), tiny, "hf", tuple(patient.layers), patient.companions())


library("F1", "transformers 5.24, eager", "ALiBi's bias in the mask and to the scores", "falcon_rw_eager", hooks_of,
        "blocks.0.attn_mix", (0, 1, 2, 3), cause="attn.position_bias", says={"known_fault": "Falcon"})
library("F2", "TransformerLens 3.9", "halves turn by the angles of neighbours", "cohere_plain", bridge, "blocks.0.q_rot",
        (0, 1, 2, 3), cause="rope.pairing", says={"known_fault": "TransformerLens"})
library("F2", "TransformerLens 3.9", "halves turn by the angles of neighbours", "cohere2", bridge, "blocks.0.q_rot", (0, 1, 2),
        cause="rope.pairing", says={"known_fault": "TransformerLens"})
library("F3", "transformers 5.24", "attn_logit_softcapping never applied", "gemma3_capped", without_cap, "blocks.0.scores",
        (0, 1, 2, 3), cause="attn.softcap", says={"known_fault": "Gemma 3"})
kit("F4", "llama.cpp on CPU", "every GELU by a half-precision table of the tanh form", "tanh_table_of_half_floats", "gpt_neox",
    also=HALF, says={"known_fault": "llama.cpp"})
kit("F4", "llama.cpp on CPU", "the same where the model asks for the tanh form", "tanh_table_of_half_floats", "gemma",
    also=HALF, says={"known_fault": "llama.cpp"})
kit("F5", "llama.cpp", "the file cannot name Mistral's window", "window_missing", "mistral", says={"known_fault": "llama.cpp"})
# The same mistakes where nobody is known for them.
kit("F3", "no known fault", "no soft cap in Gemma 2", "cap_missing", "gemma2", says={"no_fault": ""})
kit("F5", "no known fault", "no window in Gemma 3", "window_missing", "gemma3", says={"no_fault": ""})
