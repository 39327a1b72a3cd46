"""A step in lower precision than the rest, and float16 that is too small."""

import torch

from mistakes import mistake
from tiny.sites import LAYOUTS

EXACT = ("f32",)


def in_bf16(module, original):
    """As autocast runs a linear layer."""
    def forward(x):
        bias = None if module.bias is None else module.bias.bfloat16()
        weight = module.weight.bfloat16()
        return torch.nn.functional.linear(x.bfloat16(), weight, bias).float()
    return forward


@mistake("precision.dtype", "mlp_proj", on=lambda tiny: tiny.layout != "gpt2", dtypes=EXACT)
def down_projection_in_bf16(patient, layers):
    for n in layers:
        path = LAYOUTS[patient.tiny.layout].block["mlp_proj"]
        patient.forward_of(patient.block_path(n, path), in_bf16)


@mistake("precision.dtype", "attn_proj", on=lambda tiny: tiny.layout != "gpt2", dtypes=EXACT)
def output_projection_in_bf16(patient, layers):
    for n in layers:
        path = LAYOUTS[patient.tiny.layout].block["attn_proj"]
        patient.forward_of(patient.block_path(n, path), in_bf16)


@mistake("precision.dtype", "head", on=lambda tiny: tiny.name in ("llama", "qwen3", "gpt_neox", "olmo2", "stablelm"),
         where=None, dtypes=EXACT, report="P5")
def head_in_bf16(patient, layers):
    patient.patch(lambda model: setattr(model.lm_head, "forward", in_bf16(model.lm_head, None)))


@mistake("precision.dtype", "pattern", on=lambda tiny: not tiny.own_attention, dtypes=EXACT)
def pattern_in_bf16(patient, layers):
    for n in layers:
        patient.stages[n].pattern = lambda pattern: pattern.bfloat16().float()


@mistake("precision.dtype", "mlp_act", dtypes=EXACT)
def activation_in_f16(patient, layers):
    path = LAYOUTS[patient.tiny.layout].block["mlp_act"]
    for n in layers:
        patient.forward_of(patient.block_path(n, path), lambda module, original: (
            lambda x: original(x.half()).float()))


@mistake("precision.overflow", "mlp_proj", on=lambda tiny: tiny.name == "llama_large", at_once=True,
         where=lambda patient: [1], dtypes=("f16",), report="P1")
def float16_outgrown(patient, layers):
    """Nothing is changed: the model's own numbers are too large."""
