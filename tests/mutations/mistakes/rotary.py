"""Rotary positions: pairs, base, scaling, share, positions. Tables of cos and sin are [B,T,r]."""

import torch

from mistakes import mistake
from tiny.cases import FULL, SLIDING
from tiny.sites import LAYOUTS

NEIGHBOURS = ("cohere", "cohere2")


def rotary(tiny):
    return LAYOUTS[tiny.layout].rotary and tiny.name != "falcon_rw"


def halves(tiny):
    return rotary(tiny) and tiny.name not in NEIGHBOURS


def whole(tiny):
    return rotary(tiny) and tiny.name not in ("gpt_neox", "gpt_neox_sequential", "phi", "stablelm")


def partial(tiny):
    return rotary(tiny) and not whole(tiny)


def rotates(patient):
    """Cohere2 does not rotate on full blocks."""
    if patient.tiny.name == "cohere2":
        return [n for n in patient.layers if patient.config.layer_types[n] == SLIDING]
    return list(patient.layers)


def set_rotate(patient, layers, function):
    for n in layers:
        patient.stages[n].rotate = function


def turn_neighbours(x, cos, sin):
    """Pairs (2i, 2i+1) of the first r, r/2 angles."""
    r = 2 * cos.shape[-1]
    a, b = x[..., :r:2], x[..., 1:r:2]
    cos, sin = cos[:, None], sin[:, None]
    turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat((turned, x[..., r:]), -1).to(x.dtype)


def turn_halves(x, cos, sin):
    """Pairs (i, i + r/2) of the first r."""
    half = cos.shape[-1]
    a, b = x[..., :half], x[..., half:2 * half]
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, x[..., 2 * half:]), -1).to(x.dtype)


@mistake("rope.pairing", "q_rot", on=halves, report="R1")
def pairs_of_neighbours(patient, layers):
    def rotate(_, q, k, cos, sin):
        half = cos.shape[-1] // 2
        return tuple(turn_neighbours(x, cos[..., :half], sin[..., :half]) for x in (q, k))
    set_rotate(patient, layers, rotate)


@mistake("rope.pairing", "q_rot", on=lambda tiny: tiny.name in NEIGHBOURS, where=rotates, report="R1")
def pairs_of_halves(patient, layers):
    set_rotate(patient, layers, lambda _, q, k, cos, sin: tuple(
        turn_halves(x.float(), cos[..., ::2], sin[..., ::2]).to(x.dtype) for x in (q, k)))


@mistake("rope.pairing", "q_rot", on=lambda tiny: tiny.name in NEIGHBOURS, where=rotates)
def pairs_of_halves_with_angles_of_neighbours(patient, layers):
    """The known fault of TransformerLens with Cohere."""
    def rotate(_, q, k, cos, sin):
        def turn(x):
            y = x.float()
            half = y.shape[-1] // 2
            turned = torch.cat((-y[..., half:], y[..., :half]), -1)
            return (y * cos[:, None] + turned * sin[:, None]).to(x.dtype)
        return turn(q), turn(k)
    set_rotate(patient, layers, rotate)


def parameters(patient, kind=None):
    """Words of rotary in the config, of one kind of blocks where there are two."""
    words = patient.config.rope_parameters
    return words[kind] if kind else words


def kinds(tiny):
    return (FULL, SLIDING) if tiny.name == "gemma3" else (None,)


@mistake("rope.base", "q_rot", on=lambda tiny: rotary(tiny) and tiny.name != "gemma3", where=rotates, at_once=True,
         report="R5")
def base_of_class(patient, layers):
    parameters(patient)["rope_theta"] = 10000.0


@mistake("rope.base", "q_rot", on=lambda tiny: rotary(tiny) and tiny.name != "gemma3", where=rotates, at_once=True,
         report="R5")
def base_of_another_model(patient, layers):
    parameters(patient)["rope_theta"] = 123.0


@mistake("rope.base", "q_rot", on=lambda tiny: tiny.name == "gemma3", at_once=True, report="R8",
         where=lambda patient: [n for n in patient.layers if patient.config.layer_types[n] == SLIDING])
def one_base_for_all_blocks(patient, layers):
    parameters(patient, SLIDING)["rope_theta"] = parameters(patient, FULL)["rope_theta"]


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name == "llama3", at_once=True, report="R6")
def llama3_scaling_ignored(patient, layers):
    patient.config.rope_parameters = dict(rope_type="default", rope_theta=700.0)


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name == "llama3", at_once=True, report="R6")
def llama3_scaling_as_linear(patient, layers):
    patient.config.rope_parameters = dict(rope_type="linear", rope_theta=700.0, factor=8.0)


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name == "llama3", at_once=True)
def llama3_factor_of_another_model(patient, layers):
    parameters(patient)["factor"] = 32.0


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name == "gemma3", at_once=True, report="R7",
         where=lambda patient: [n for n in patient.layers if patient.config.layer_types[n] == FULL])
def global_scaling_ignored(patient, layers):
    patient.config.rope_parameters[FULL] = dict(rope_type="default", rope_theta=700.0)


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name == "gemma3", at_once=True, report="R8",
         where=lambda patient: [n for n in patient.layers if patient.config.layer_types[n] == SLIDING])
def scaling_on_local_blocks(patient, layers):
    patient.config.rope_parameters[SLIDING] = dict(rope_type="linear", rope_theta=90.0, factor=4.0)


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name in ("llama", "qwen3", "mistral"), at_once=True)
def linear_scaling_invented(patient, layers):
    patient.config.rope_parameters = dict(rope_type="linear", rope_theta=700.0, factor=2.0)


@mistake("rope.scaling", "q_rot", on=lambda tiny: tiny.name in ("llama", "qwen2", "phi3"), at_once=True, report="R11",
         also=("rope.base",))
def base_grown_at_any_length(patient, layers):
    r = getattr(patient.config, "head_dim", None) or (
        patient.config.hidden_size // patient.config.num_attention_heads)
    parameters(patient)["rope_theta"] = 700.0 * 2.0 ** (r / (r - 2))


def share(patient, factor):
    parameters(patient)["partial_rotary_factor"] = factor


@mistake("rope.partial", "q_rot", on=partial, at_once=True, report="R14")
def all_dimensions_rotated(patient, layers):
    share(patient, 1.0)


@mistake("rope.partial", "q_rot", on=partial, at_once=True)
def too_few_dimensions_rotated(patient, layers):
    share(patient, 0.25)


@mistake("rope.partial", "q_rot", on=partial, report="R14")
def exponent_by_head_width(patient, layers):
    def rotate(original, q, k, cos, sin):
        r = cos.shape[-1]
        width = patient.config.hidden_size // patient.config.num_attention_heads
        j = torch.arange(r // 2, dtype=torch.float32)
        positions = torch.arange(cos.shape[1], dtype=torch.float32)
        angles = positions[:, None] * 700.0 ** (-2 * j / width)
        both = torch.cat((angles, angles), -1)[None]
        return original(q, k, both.cos().to(cos.dtype), both.sin().to(sin.dtype))
    set_rotate(patient, layers, rotate)


@mistake("rope.partial", "q_rot", on=lambda tiny: tiny.name in ("llama", "mistral", "qwen3", "starcoder2", "gemma"))
def half_of_the_dimensions_rotated(patient, layers):
    def rotate(_, q, k, cos, sin):
        width = cos.shape[-1]
        half = width // 4  # angles of the first half of the dimensions
        j = torch.arange(half, dtype=torch.float32)
        angles = torch.arange(cos.shape[1], dtype=torch.float32)[:, None] * 700.0 ** (-2 * j / (2 * half))
        return tuple(turn_halves(x, angles.cos()[None].to(x.dtype), angles.sin()[None].to(x.dtype)) for x in (q, k))
    set_rotate(patient, layers, rotate)


@mistake("rope.position", "q_rot", on=lambda tiny: rotary(tiny) and tiny.name not in ("falcon",), where=rotates,
         at_once=True)
def positions_from_one(patient, layers):
    patient.shift_positions = 1


def columns_as_positions(patient):
    def inputs(original):
        def changed():
            found = original()
            found["position_ids"] = torch.arange(found["input_ids"].shape[1]).expand_as(found["input_ids"])
            return found
        return changed
    patient.inputs = inputs(patient.inputs)


@mistake("rope.position", "q_rot", on=lambda tiny: rotary(tiny) and tiny.name not in ("falcon",), where=rotates,
         at_once=True, padded=True, report="R20")
def padding_counts_as_positions(patient, layers):
    columns_as_positions(patient)


@mistake("rope.missing", "q_rot", on=rotary, where=rotates)
def not_rotated(patient, layers):
    set_rotate(patient, layers, lambda _, q, k, cos, sin: (q + 0, k + 0))


@mistake("rope.missing", "k_rot", on=rotary, where=rotates)
def keys_not_rotated(patient, layers):
    set_rotate(patient, layers, lambda original, q, k, cos, sin: (original(q, k, cos, sin)[0], k + 0))


@mistake("rope.position", "q_rot", on=rotary, where=rotates, also=("rope.missing",), report="R17")
def queries_at_position_zero(patient, layers):
    set_rotate(patient, layers, lambda original, q, k, cos, sin: (q + 0, original(q, k, cos, sin)[1]))


@mistake("rope.twice", "q_rot", on=rotary, where=rotates)
def rotated_twice(patient, layers):
    set_rotate(patient, layers, lambda original, q, k, cos, sin: original(*original(q, k, cos, sin), cos, sin))


@mistake("unknown", "q_rot", on=halves)
def rotated_backwards(patient, layers):
    """A sign: not among the known causes."""
    set_rotate(patient, layers, lambda original, q, k, cos, sin: original(q, k, cos, -sin))
