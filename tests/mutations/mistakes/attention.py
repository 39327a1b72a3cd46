"""Scores, masks, heads."""

import sys

import torch

from mistakes import mistake
from mistakes.rotary import columns_as_positions
from tiny.cases import SLIDING


def shown(tiny):
    """Its scores can be reached."""
    return not tiny.own_attention


def causal(tiny):
    return shown(tiny) and tiny.layout != "bert"


def stages(patient, layers, **functions):
    for n in layers:
        for name, function in functions.items():
            setattr(patient.stages[n], name, function)


def head_width(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


@mistake("attn.scale", "scores", on=lambda tiny: shown(tiny) and tiny.name != "opt")
def scale_missing(patient, layers):
    stages(patient, layers, scale=lambda scale: 1.0)


@mistake("attn.scale", "scores", on=lambda tiny: shown(tiny) and tiny.name != "opt")
def scale_by_model_width(patient, layers):
    stages(patient, layers, scale=lambda scale: patient.config.hidden_size**-0.5)


@mistake("attn.scale", "scores", on=lambda tiny: shown(tiny) and tiny.name != "opt")
def scale_without_root(patient, layers):
    stages(patient, layers, scale=lambda scale: 1.0 / head_width(patient.config))


@mistake("attn.scale", "scores", on=lambda tiny: tiny.name in ("gemma2", "gemma3", "granite"), report="E8")
def scale_by_head_width(patient, layers):
    stages(patient, layers, scale=lambda scale: head_width(patient.config)**-0.5)


@mistake("attn.scale", "scores", on=lambda tiny: tiny.name == "opt")
def scale_twice(patient, layers):
    stages(patient, layers, scale=lambda scale: head_width(patient.config)**-0.5)


@mistake("attn.scale", "scores", on=lambda tiny: tiny.layout == "gpt2",
         where=lambda patient: [n for n in patient.layers if n > 0])
def scale_by_block_number(patient, layers):
    for n in layers:
        patient.stages[n].scale = lambda scale, n=n: scale / (n + 1)


@mistake("attn.softcap", "scores", on=lambda tiny: tiny.name == "gemma2")
def cap_missing(patient, layers):
    stages(patient, layers, cap=lambda scores: scores + 0)


@mistake("attn.softcap", "scores", on=lambda tiny: tiny.name == "gemma2")
def cap_of_another_model(patient, layers):
    stages(patient, layers, cap=lambda scores: torch.tanh(scores / 5.0) * 5.0)


@mistake("attn.softcap", "scores", on=lambda tiny: tiny.name in ("gemma3", "llama"))
def cap_invented(patient, layers):
    stages(patient, layers, cap=lambda scores: torch.tanh(scores / 3.0) * 3.0)


@mistake("attn.softcap", "pattern", on=lambda tiny: tiny.name == "gemma2", also=("attn.causal_mask",))
def cap_behind_the_mask(patient, layers):
    """Masked entries come out as -cap, and are seen."""
    stages(patient, layers, cap=lambda scores: scores + 0,
           masked=lambda scores, mask: torch.tanh((scores + mask) / 3.0) * 3.0)
    patient.omit |= {"scores"}


def triangle(seen, offset):
    t = seen.shape[-1]
    return torch.ones(t, t, dtype=torch.bool).tril(offset)[None, None].expand_as(seen)


@mistake("attn.causal_mask", "pattern", on=lambda tiny: causal(tiny), report="A1")
def no_causal_mask(patient, layers):
    stages(patient, layers, visible=lambda seen: torch.ones_like(seen))


@mistake("attn.causal_mask", "pattern", on=lambda tiny: causal(tiny) and tiny.name in (
    "llama", "llama3", "qwen3", "gemma", "gpt2", "gpt_neox", "phi", "olmo2", "granite", "cohere", "opt", "stablelm"))
def one_key_too_many(patient, layers):
    stages(patient, layers, visible=lambda seen: triangle(seen, 1))


@mistake("attn.causal_mask", "pattern", on=lambda tiny: causal(tiny) and tiny.name in (
    "llama", "llama3", "qwen3", "gemma", "gpt2", "gpt_neox", "phi", "olmo2", "granite", "cohere", "opt", "stablelm"),
    also=("attn.window",))
def own_key_hidden(patient, layers):
    """The first row sees nothing: with a finite lowest number it comes out uniform."""
    stages(patient, layers, visible=lambda seen: triangle(seen, -1))


@mistake("attn.causal_mask", "pattern", on=lambda tiny: causal(tiny) and tiny.name in (
    "llama", "qwen3", "gemma", "gpt2", "phi", "granite", "cohere", "stablelm"), also=("attn.window",), report="A25")
def row_without_keys_is_zero(patient, layers):
    """A softmax that is safe for rows whose every key is hidden."""
    stages(patient, layers, visible=lambda seen: triangle(seen, -1),
           pattern=lambda pattern: torch.cat((torch.zeros_like(pattern[:, :, :1]), pattern[:, :, 1:]), 2))


@mistake("attn.causal_mask", "pattern", on=lambda tiny: tiny.layout == "bert")
def causal_encoder(patient, layers):
    stages(patient, layers, visible=lambda seen: triangle(seen, 0))


@mistake("attn.padding_mask", "pattern", on=lambda tiny: shown(tiny) and tiny.name not in ("opt",), at_once=True,
         padded=True)
def padding_seen(patient, layers):
    patient.key_mask = False


@mistake("embed.position_offset", "pos_embed", on=lambda tiny: tiny.name == "gpt2", where=None, padded=True, report="R21")
def padding_shifts_positions(patient, layers):
    columns_as_positions(patient)


def windowed(patient):
    config = patient.config
    types = getattr(config, "layer_types", None)
    if patient.tiny.name in ("mistral", "starcoder2", "phi3"):
        return list(patient.layers)
    return [n for n in patient.layers if types and types[n] == SLIDING]


WINDOWED = ("mistral", "starcoder2", "phi3", "qwen2", "gemma2", "gemma3", "cohere2")


def band(seen, width):
    return triangle(seen, 0) & ~triangle(seen, -width)


def has_window(tiny):
    return tiny.name in WINDOWED


@mistake("attn.window", "pattern", on=has_window, where=windowed, report="A11")
def window_missing(patient, layers):
    stages(patient, layers, visible=lambda seen: triangle(seen, 0))


@mistake("attn.window", "pattern", on=has_window, where=windowed, report="A11")
def window_one_wider(patient, layers):
    stages(patient, layers, visible=lambda seen: band(seen, patient.config.sliding_window + 1))


@mistake("attn.window", "pattern", on=has_window, where=windowed)
def window_one_narrower(patient, layers):
    stages(patient, layers, visible=lambda seen: band(seen, patient.config.sliding_window - 1))


@mistake("attn.window", "pattern", on=lambda tiny: tiny.name in ("qwen2", "gemma2", "gemma3", "cohere2"),
         where=lambda patient: [n for n in patient.layers if n not in windowed(patient)], report="A13")
def window_on_full_blocks(patient, layers):
    stages(patient, layers, visible=lambda seen: band(seen, patient.config.sliding_window))


@mistake("attn.window", "pattern", on=lambda tiny: tiny.name == "gemma2", at_once=True,
         where=lambda patient: list(patient.layers))
def windows_on_the_other_blocks(patient, layers):
    for n in layers:
        width = 1000 if n in windowed(patient) else patient.config.sliding_window
        patient.stages[n].visible = lambda seen, width=width: band(seen, width)


def grouped(tiny):
    return shown(tiny) and "num_key_value_heads" in tiny.changes


def tiled(kept, heads):
    return kept.repeat(1, heads // kept.shape[1], 1, 1)


@mistake("attn.gqa_mapping", "scores", on=grouped, report="A14")
def key_heads_tiled(patient, layers):
    stages(patient, layers, wide=tiled)


@mistake("attn.gqa_mapping", "scores", on=grouped)
def one_key_head_for_all(patient, layers):
    stages(patient, layers, wide=lambda kept, heads: kept[:, :1].expand(-1, heads, -1, -1))


@mistake("attn.head_merge", "attn_proj", on=shown, report="A16")
def merged_without_moving_heads(patient, layers):
    stages(patient, layers, merge=lambda out: out.transpose(1, 2).reshape(out.shape))


@mistake("attn.position_bias", "attn_mix", on=lambda tiny: tiny.name == "falcon_rw", at_once=True, report="R22")
def slopes_one_power_off(patient, layers):
    change_slopes(patient, lambda slopes: slopes * 2.0 ** (-8 / 4))


@mistake("attn.position_bias", "attn_mix", on=lambda tiny: tiny.name == "falcon_rw", at_once=True, report="R22")
def one_series_of_slopes(patient, layers):
    """Six heads: no power of two."""
    change_slopes(patient, lambda slopes: torch.tensor([2.0 ** (-8 * (h + 1) / 6) for h in range(6)]))


@mistake("attn.position_bias", "attn_mix", on=lambda tiny: tiny.name == "falcon_rw", at_once=True)
def bias_missing(patient, layers):
    change_slopes(patient, lambda slopes: slopes * 0)


@mistake("attn.position_bias", "attn_mix", on=lambda tiny: tiny.name == "falcon_rw", at_once=True)
def bias_twice(patient, layers):
    """The known fault of transformers' eager attention with ALiBi."""
    change_slopes(patient, lambda slopes: slopes * 2)


def change_slopes(patient, change):
    def before(model):
        module = sys.modules[type(model).__module__]
        original = module.build_alibi_tensor

        def build(mask, heads, dtype):
            positions = (mask.cumsum(-1) - 1) * mask
            slopes = original(mask, heads, torch.float32)[:, 0, 1]  # at position 1
            alibi = change(slopes)[:, None].bfloat16() * positions[:, None, :]
            return alibi.reshape(len(mask) * heads, 1, -1).to(dtype)
        module.build_alibi_tensor = build
        patient.after.append(lambda *_: setattr(module, "build_alibi_tensor", original))
    patient.before.append(before)


# ----------------------------------------------------------------------- none of the known causes

@mistake("unknown", "attn_mix", on=shown)
def one_head_zeroed(patient, layers):
    def mix(out):
        out = out.clone()
        out[:, :, 3] = 0
        return out
    stages(patient, layers, mix=mix)


@mistake("unknown", "pattern", on=shown)
def dropout_left_on(patient, layers):
    stages(patient, layers, pattern=lambda pattern: torch.nn.functional.dropout(pattern, 0.1))


@mistake("unknown", "pattern", on=causal)
def attention_to_a_sink(patient, layers):
    """A further key of score 0 takes its share of every row."""
    def pattern_of(n):
        held = {}

        def masked(scores, mask):
            scores = scores if mask is None else scores + mask
            held["share"] = torch.softmax(torch.cat((scores, torch.zeros_like(scores[..., :1])), -1).float(), -1)
            return scores
        patient.stages[n].masked = masked
        patient.stages[n].pattern = lambda pattern: held["share"][..., :-1].to(pattern.dtype)
    for n in layers:
        pattern_of(n)


@mistake("unknown", "attn_mix", on=shown)
def values_of_the_token_before(patient, layers):
    stages(patient, layers, value=lambda value: torch.cat((value[:, :, :1], value[:, :, :-1]), 2))


@mistake("unknown", "scores", on=shown)
def two_heads_exchanged(patient, layers):
    stages(patient, layers, scores=lambda scores: scores[:, [2, 1, 0, *range(3, scores.shape[1])]])


@mistake("unknown", "pattern", on=causal)
def rows_of_the_pattern_clipped(patient, layers):
    stages(patient, layers, pattern=lambda pattern: pattern.clamp(max=0.2))
