"""PyTorch through transformers: hooks, what the model returns, the model debugger."""

import os

import safetensors.torch
import torch
import transformers

import models
import recipes
from programs import GEMMA3, MINILM, SMOLLM2, NotHere, recipe, tokens_of

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def load(path, dtype="f32", attention="eager"):
    """A module from a folder or a GGUF file."""
    words = dict(dtype=TYPES[dtype], attn_implementation=attention)
    if path.suffix == ".gguf":
        # A file of that name in the current directory would win over the folder.
        if os.path.exists(path.name):
            raise NotHere(f"{path.name} lies in the current directory, and transformers would read it")
        model = transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, **words)
    else:
        config = transformers.AutoConfig.from_pretrained(path)
        masked = config.model_type == "bert" and "BertForMaskedLM" in (config.architectures or ())
        kind = transformers.AutoModelForMaskedLM if masked else (
            transformers.AutoModel if config.model_type == "bert" else transformers.AutoModelForCausalLM)
        model = kind.from_pretrained(path, **words)
    return model.eval()


def ids_of(path):
    return torch.tensor([tokens_of(path)])


class Called:
    """The model as the page calls it: one argument, and always with logits."""

    def __init__(self, model, call=None):
        self.model, self.call = model, model if call is None else call

    def named_modules(self):
        return self.model.named_modules()

    @torch.no_grad()
    def __call__(self, ids, **words):
        out = self.call(ids, **words)
        if not hasattr(out, "logits"):
            out.logits = out.last_hidden_state
        return out


def hooks(dtype="f32", attention="eager", compiled=False, inputs=True):
    def make(path, folder):
        model = load(path, dtype, attention)
        call = torch.compile(model) if compiled else model
        out = folder / "dump.safetensors"
        code = recipes.blocks("PyTorch hooks")
        first, last = code[0].split("dump[\"logits\"]")
        text = first + (code[1] if inputs else "") + "dump[\"logits\"]" + last
        recipes.run(text, model=Called(model, call), ids=ids_of(path), torch=torch, safetensors=safetensors, path=out)
        if isinstance(model, transformers.BertModel):
            drop(out, "logits")
        return out
    return make


def drop(path, name):
    values = safetensors.torch.load_file(path)
    del values[name]
    safetensors.torch.save_file(values, path)


def returned(path, folder):
    """Eager attention, for the patterns."""
    out = folder / "dump.pt"
    with torch.no_grad():
        recipes.run(recipes.blocks("What transformers returns")[0], model=load(path), ids=ids_of(path), torch=torch,
                    path=out)
    return out


def debugger(path, folder):
    from transformers.model_debugging_utils import model_addition_debugger_context
    out = folder / "debug"
    with torch.no_grad():
        recipes.run(recipes.blocks("The model debugger of transformers")[0], model=load(path), ids=ids_of(path),
                    model_addition_debugger_context=model_addition_debugger_context, path=out)
    return out


def permuted(path, folder):
    """Rows of q and k in llama.cpp's order, rotated by neighbours: another convention, not a mistake."""
    model = load(path)
    out = hooks()(path, folder)
    values = safetensors.torch.load_file(out)
    width = model.config.head_dim
    order = torch.arange(width).view(2, -1).T.flatten()  # 2j + s holds what is at s E/2 + j
    rotated = Rotated(model, ids_of(path)).values
    for name in list(values):
        if name.endswith(("q_proj", "k_proj")):
            heads = values[name].unflatten(-1, (-1, width))
            values[name] = heads[..., order].flatten(-2)
    values |= {name: value[..., order].contiguous() for name, value in rotated.items()}
    safetensors.torch.save_file(values, out)
    return out


class Rotated:
    """q_rot and k_rot [B,T,H,E], which no module holds."""

    def __init__(self, model, ids):
        import sys
        module = sys.modules[type(model).__module__]
        original, self.values, self.count = module.apply_rotary_pos_emb, {}, 0

        def keep(q, k, *args, **words):
            q, k = original(q, k, *args, **words)
            at = f"blocks.{self.count}."
            self.values |= {at + "q_rot": q.transpose(1, 2).contiguous(), at + "k_rot": k.transpose(1, 2).contiguous()}
            self.count += 1
            return q, k
        module.apply_rotary_pos_emb = keep
        try:
            with torch.no_grad():
                model(ids)
        finally:
            module.apply_rotary_pos_emb = original


NO_SDPA = ("gemma2",)  # whose soft cap it does not have

for tiny in models.MODELS:
    if tiny.name == "llama_large":
        continue
    attention = "sdpa" if tiny.sdpa else "eager"
    recipe(f"torch_{tiny.name}_eager", tiny.name, hooks(attention=attention))
    recipe(f"torch_{tiny.name}_bf16", tiny.name, hooks("bf16", attention))
    recipe(f"torch_{tiny.name}_f16", tiny.name, hooks("f16", attention))
    if tiny.name not in NO_SDPA:
        recipe(f"torch_{tiny.name}_sdpa", tiny.name, hooks(attention="sdpa"))
for name in ("llama3", "gpt2"):
    recipe(f"torch_{name}_compiled", name, hooks(attention="sdpa", compiled=True))
for name in ("llama3", "gemma3", "gpt2", "bert", "gpt_neox", "olmo2"):
    recipe(f"transformers_{name}_returned", name, returned)
    recipe(f"transformers_{name}_debugger", name, debugger)
recipe("permuted_llama", "llama", permuted)
for name, short in ((SMOLLM2, "smollm2"), (GEMMA3, "gemma3")):
    recipe(f"torch_real_{short}_eager", name, hooks())
    recipe(f"torch_real_{short}_sdpa", name, hooks(attention="sdpa"))
    recipe(f"torch_real_{short}_bf16", name, hooks("bf16", "sdpa"))
    recipe(f"torch_real_{short}_returned", name, returned)
recipe("torch_real_smollm2_f16", SMOLLM2, hooks("f16", "sdpa"))
recipe("torch_real_minilm_eager", MINILM, hooks())
recipe("torch_real_minilm_sdpa", MINILM, hooks(attention="sdpa"))
recipe("torch_real_minilm_bf16", MINILM, hooks("bf16", "sdpa"))
recipe("torch_real_minilm_compiled", MINILM, hooks(attention="sdpa", compiled=True))
