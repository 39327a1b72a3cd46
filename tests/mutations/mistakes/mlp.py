"""Activations, branches."""

import torch
from torch.nn import functional as F

from mistakes import mistake
from tiny.sites import LAYOUTS

RIGHT = {"gelu": ("gpt_neox", "gpt_neox_sequential", "bert", "falcon", "falcon_rw"),
         "tanh": ("gpt2", "phi", "starcoder2", "gemma", "gemma2", "gemma3"), "relu": ("opt",)}
FUNCTIONS = {"gelu": F.gelu, "tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu,
             "quick": lambda x: x * torch.sigmoid(1.702 * x), "relu2": lambda x: F.relu(x) ** 2}


def right(tiny):
    return next((kind for kind, names in RIGHT.items() if tiny.name in names), "silu")


def act_path(tiny):
    return LAYOUTS[tiny.layout].block["mlp_act"]


def activation(patient, layers, kind):
    for n in layers:
        patient.forward_of(patient.block_path(n, act_path(patient.tiny)), lambda *_: FUNCTIONS[kind])


def is_right(*kinds):
    return lambda tiny: right(tiny) in kinds


@mistake("mlp.activation", "mlp_act", on=is_right("tanh"), report="M1")
def erf_for_tanh(patient, layers):
    activation(patient, layers, "gelu")


@mistake("mlp.activation", "mlp_act", on=is_right("gelu"), report="M2")
def tanh_for_erf(patient, layers):
    activation(patient, layers, "tanh")


@mistake("mlp.activation", "mlp_act", on=is_right("tanh", "gelu"), report="M4")
def silu_for_gelu(patient, layers):
    activation(patient, layers, "silu")


@mistake("mlp.activation", "mlp_act", on=is_right("silu"))
def tanh_gelu_for_silu(patient, layers):
    activation(patient, layers, "tanh")


@mistake("mlp.activation", "mlp_act", on=is_right("silu", "tanh", "gelu"))
def relu_for_smooth(patient, layers):
    activation(patient, layers, "relu")


@mistake("mlp.activation", "mlp_act", on=is_right("gelu", "tanh"))
def quick_gelu(patient, layers):
    activation(patient, layers, "quick")


@mistake("mlp.activation", "mlp_act", on=is_right("relu"))
def gelu_for_relu(patient, layers):
    activation(patient, layers, "gelu")


@mistake("mlp.activation", "mlp_act", on=is_right("relu", "silu"))
def squared_relu(patient, layers):
    activation(patient, layers, "relu2")


@mistake("unknown", "mlp_act")
def leaky_activation(patient, layers):
    for n in layers:
        patient.forward_of(patient.block_path(n, act_path(patient.tiny)),
                           lambda *_: lambda x: F.leaky_relu(x, 0.1))


def separate(tiny):
    return tiny.has("mlp_gate") and tiny.layout != "phi3"


@mistake("mlp.gate_value_swapped", "mlp_gate", on=lambda tiny: tiny.gated, report="M5")
def branches_loaded_the_other_way(patient, layers):
    for n in layers:
        if patient.tiny.layout == "phi3":
            name = patient.weight_name(patient.block_path(n, "mlp.gate_up_proj"))
            gate, up = patient.weights[name].chunk(2, 0)
            patient.weights[name] = torch.cat((up, gate))
            continue
        for what in ("weight", "bias"):
            try:
                gate, up = (patient.weight_name(patient.block_path(n, f"mlp.{path}"), what)
                            for path in ("gate_proj", "up_proj"))
            except AssertionError:
                continue
            weights = patient.weights
            weights[gate], weights[up] = weights[up], weights[gate]


@mistake("mlp.gate_value_swapped", "mlp_act", on=separate, report="M5")
def activation_of_the_value(patient, layers):
    def make(mlp, _):
        return lambda x: mlp.down_proj(mlp.gate_proj(x) * mlp.act_fn(mlp.up_proj(x)))
    for n in layers:
        patient.forward_of(patient.block_path(n, "mlp"), make)


@mistake("unknown", lambda tiny: "mlp_hidden" if tiny.gated else "mlp_act")
def one_channel_dropped(patient, layers):
    tiny = patient.tiny

    def drop(value):
        value = value.clone()
        value[..., 7] = 0
        return value
    for n in layers:
        if separate(tiny):
            patient.forward_of(patient.block_path(n, "mlp"), lambda mlp, _: (
                lambda x: mlp.down_proj(drop(mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(x)))))
        elif tiny.layout == "phi3":
            patient.forward_of(patient.block_path(n, "mlp"), lambda mlp, _: lambda x: phi3_mlp(mlp, x, drop))
        else:
            patient.forward_of(patient.block_path(n, act_path(tiny)), lambda module, original: (
                lambda x: drop(original(x))))


def phi3_mlp(mlp, x, drop):
    gate, up = mlp.gate_up_proj(x).chunk(2, -1)
    return mlp.down_proj(drop(up * mlp.activation_fn(gate)))


@mistake("unknown", "mlp_proj")
def dropout_in_the_mlp(patient, layers):
    down = LAYOUTS[patient.tiny.layout].block["mlp_proj"]
    for n in layers:
        patient.forward_of(patient.block_path(n, down), lambda module, original: (
            lambda x: F.dropout(original(x), 0.1)))
