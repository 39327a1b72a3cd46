"""More that is none of the known causes."""

import torch

from mistakes import mistake
from tiny.sites import LAYOUTS


def hooked(patient, layers, site, change):
    """change(value) of what a module gives."""
    path = LAYOUTS[patient.tiny.layout].block[site]
    for n in layers:
        patient.forward_of(patient.block_path(n, path), lambda module, original: (
            lambda *args: change(original(*args))))


@mistake("unknown", "attn_proj")
def output_shifted_by_a_token(patient, layers):
    hooked(patient, layers, "attn_proj", lambda value: torch.cat((value[:, -1:], value[:, :-1]), 1))


@mistake("unknown", "mlp_proj", on=lambda tiny: tiny.layout != "opt")
def outputs_clipped(patient, layers):
    hooked(patient, layers, "mlp_proj", lambda value: value.clamp(-0.8, 0.8))


@mistake("unknown", "mlp_act")
def activation_off_for_late_tokens(patient, layers):
    def change(value):
        late = torch.ones_like(value)
        late.view(-1, len_of(patient), value.shape[-1])[:, 15:] = 1.5
        return value * late
    hooked(patient, layers, "mlp_act", change)


def len_of(patient):
    return len(patient.tokens[-1])


@mistake("unknown", lambda tiny: "mlp_value" if tiny.gated else "mlp_pre", on=lambda tiny: tiny.layout != "phi3")
def one_channel_doubled(patient, layers):
    def change(value):
        value = value.clone()
        value[..., 3] *= 2
        return value
    hooked(patient, layers, "mlp_value" if patient.tiny.gated else "mlp_pre", change)
