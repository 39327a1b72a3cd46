"""TransformerLens, as it is and with weights folded and centred."""

import shutil

import safetensors.torch
import tokenizers
import torch
import transformers

import recipes
from programs import recipe
from programs.pytorch import ids_of, load


def with_tokenizer(path, folder):
    """A copy of the model with a tokenizer that is never asked: TransformerLens wants to have one."""
    copy = shutil.copytree(path, folder / "model")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="a", eos_token="a",
                                         pad_token="a").save_pretrained(copy)
    return str(copy)


def lens(processed):
    def make(path, folder):
        from transformer_lens.model_bridge import TransformerBridge
        out = folder / "dump.safetensors"
        model = TransformerBridge.boot_transformers(with_tokenizer(path, folder), hf_model=load(path), device="cpu",
                                                    dtype=torch.float32)
        if processed:
            model.enable_compatibility_mode()
        with torch.no_grad():
            recipes.run(recipes.blocks("TransformerLens")[0], model=model, ids=ids_of(path), torch=torch,
                        safetensors=safetensors, path=out)
        return out
    return make


for tiny in ("llama", "gpt2", "gpt_neox", "qwen3", "gemma2", "phi"):
    recipe(f"lens_{tiny}", tiny, lens(False))
    if tiny != "phi":  # whose grouped keys it does not fold
        recipe(f"lens_{tiny}_processed", tiny, lens(True))
