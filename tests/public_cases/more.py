"""Mistakes of single reports that the kit of tests/mutations does not have, made in the same way."""

import sys

import torch
from torch.nn import functional as F

import sizes  # noqa: F401  (puts the kit on the path)
from mistakes import TABLE, load, mistake
from mistakes.attention import stages
from mistakes.norms import all_norms, change, normed
from mistakes.rotary import set_rotate
from mistakes.stream import wires
from mistakes.weights import Rows, to_halves, to_neighbours


def named(*names):
    return lambda tiny: tiny.name in names


@mistake("norm.eps", "blocks.0.attn_norm", on=named("llama1"), at_once=True)
def eps_of_llama_2(patient, layers):
    all_norms(patient, 1e-5)


@mistake("norm.eps", "blocks.0.attn_norm", on=named("gpt2"), at_once=True)
def eps_of_a_framework(patient, layers):
    all_norms(patient, 1e-7)


@mistake("norm.kind", "blocks.0.attn_norm", on=named("gpt2"))
def divided_by_the_square(patient, layers):
    change(patient, layers, "norm1", power=2.0)


def order_of_rounding(patient, early):
    """In every norm: rounded to the run's type before the weight, or behind it."""
    def apply(model):
        for module in model.modules():
            if "Norm" in type(module).__name__:
                module.forward = lambda x, module=module: normed(patient.tiny, module, x, early=early)
    patient.patch(apply)


@mistake("norm.cast_order", "attn_norm", on=named("gemma"), at_once=True)
def every_norm_rounds_first(patient, layers):
    order_of_rounding(patient, True)


@mistake("norm.cast_order", "attn_norm", on=named("llama"), at_once=True)
def every_norm_rounds_last(patient, layers):
    order_of_rounding(patient, False)


def rearrange_keys(patient, layers, split, joined):
    """Rows of k as pairs of so many heads, turned back as halves of so many."""
    for n in layers:
        rows = Rows(patient, n, "k")
        rows.set([to_halves(to_neighbours(value, split), joined) for value in rows.get()])


@mistake("weight.rows_permuted", "k", on=named("llama_wide_keys"))
def keys_turned_back_for_all_heads(patient, layers):
    """The file's rows of k lie as pairs of K heads; they are turned back as if there were H."""
    rearrange_keys(patient, layers, patient.config.num_key_value_heads, patient.config.num_attention_heads)


@mistake("weight.rows_permuted", "k", on=named("llama_wide_keys"))
def keys_permuted_as_a_square(patient, layers):
    """Rows of k made neighbours as those of q, [H, E/2, 2, D], where it is K; the rotation turns them back by K."""
    rearrange_keys(patient, layers, patient.config.num_attention_heads, patient.config.num_key_value_heads)


def words(patient, **changes):
    patient.config.rope_parameters.update(changes)


@mistake("rope.base", "q_rot", on=named("llama"), at_once=True)
def base_of_code_llama(patient, layers):
    words(patient, rope_theta=1e6)


@mistake("rope.scaling", "q_rot", on=named("llama_dynamic"), at_once=True)
def dynamic_base_grown_at_once(patient, layers):
    """A table made for s times the original context: theta (s s - (s - 1))^(E/(E-2)) for a short text, too."""
    patient.config.rope_parameters = dict(rope_type="default", rope_theta=700.0 * 3.0 ** (10 / 8))


# Twice the angle is turned twice, whoever does it.
@mistake("rope.scaling", "q_rot", on=named("llama_dynamic"), also=("rope.twice",))
def dynamic_positions_times_factor(patient, layers):
    def rotate(original, q, k, cos, sin):
        return original(q, k, cos * cos - sin * sin, 2 * sin * cos)  # of twice the angle
    set_rotate(patient, layers, rotate)


@mistake("rope.scaling", "q_rot", on=named("phi3_longrope"), at_once=True)
def always_the_long_divisors(patient, layers):
    words(patient, short_factor=sizes.LONGROPE["long_factor"])


@mistake("attn.scale", "scores", on=named("gemma2_9b"))
def scale_by_width_over_heads(patient, layers):
    stages(patient, layers, scale=lambda scale: (patient.config.hidden_size // patient.config.num_attention_heads)**-0.5)


@mistake("attn.scale", "scores", on=named("gemma2_27b"))
def scale_of_the_smaller_sizes(patient, layers):
    stages(patient, layers, scale=lambda scale: patient.config.head_dim**-0.5)


def set_slopes(patient, slopes):
    """In place of the published ones; without transformers' rounding of the bias to bfloat16."""
    def apply(model):
        module = sys.modules[type(model).__module__]
        original = module.build_alibi_tensor

        def build(mask, heads, dtype):
            positions = (mask.cumsum(-1) - 1) * mask
            return (torch.tensor(slopes)[:, None] * positions[:, None, :]).reshape(-1, 1, mask.shape[-1]).to(dtype)
        module.build_alibi_tensor = build
        patient.after.append(lambda *_: setattr(module, "build_alibi_tensor", original))
    patient.before.append(apply)


@mistake("attn.position_bias", "attn_mix", on=named("falcon_rw"), at_once=True)
def slopes_from_exponent_zero(patient, layers):
    """2^(-8 h/n) for 2^(-8 (h + 1)/n), n = 4, and the same of the two heads behind."""
    set_slopes(patient, [2.0 ** (-8 * h / 4) for h in range(4)] + [2.0 ** (-4 * 2 * h / 4) for h in range(2)])


@mistake("attn.position_bias", "attn_mix", on=named("falcon_rw"), at_once=True)
def one_series_for_six_heads(patient, layers):
    set_slopes(patient, [2.0 ** (-8 * (h + 1) / 6) for h in range(6)])


@mistake("attn.window", "pattern", on=named("gemma3"), where=lambda patient: [2])
def window_zero_taken_for_a_width(patient, layers):
    """A block without window has 0 in a table of widths; a query then sees itself alone."""
    stages(patient, layers, visible=lambda seen: torch.eye(seen.shape[-1], dtype=torch.bool)[None, None].expand_as(seen))


@mistake("attn.gqa_mapping", "scores", on=named("llama"))
def wrong_divisor(patient, layers):
    """Head h reads key head h / K, as far as there are any: H = 6, K = 2."""
    groups = patient.config.num_key_value_heads
    stages(patient, layers, wide=lambda kept, heads: kept[:, [h // groups % groups for h in range(heads)]])


@mistake("attn.gqa_mapping", "attn_mix", on=named("falcon_groups"), at_once=True)
def one_key_head_read(patient, layers):
    """num_kv_heads from the word of the older form, 1."""
    def make(module, original):
        def split(fused):
            query, key, value = original(fused)
            return query, key[:, :, :1].expand_as(key), value[:, :, :1].expand_as(value)
        return split

    def apply(model):
        for block in model.transformer.h:
            attention = block.self_attention
            attention._split_heads = make(attention, attention._split_heads)
    patient.patch(apply)



@mistake("unknown", "pattern", on=named("llama"), padded=True, where=lambda patient: [patient.layers[-1]])
def rows_of_padding_are_nan(patient, layers):
    """In the last block, behind which no token reads a row of padding any more."""
    def masked(scores, mask):
        return scores.masked_fill(mask < 0, -torch.inf)
    stages(patient, layers, masked=masked)


@mistake("residual.scale", "resid_mid", on=named("llama"))
def sub_layer_not_rescaled(patient, layers):
    """A fused kernel adds the raw 8-bit result: its scale, 1/16 here, is forgotten."""
    wires(patient, layers, add_attn=lambda x, a, read: x + 16 * a)


@mistake("head.tied", "head", on=named("mistral"), where=None)
def head_taken_for_tied(patient, layers):
    table, head = (patient.weight_name(name) for name in ("embed_tokens", "lm_head"))
    patient.weights[head] = patient.weights[table].clone()


@mistake("precision.overflow", "blocks.1.resid_post", on=named("gemma3_large"), at_once=True,
         where=lambda patient: [1], dtypes=("f16",))
def stream_outgrows_float16(patient, layers):
    """Nothing is changed."""


@mistake("precision.overflow", "scores", on=named("gemma2_large_scores"), dtypes=("f16",))
def tanh_by_exponentials(patient, layers):
    """(e^2x - 1) / (e^2x + 1) in float16: infinite over infinite from x = 5.55 on."""
    def cap(scores):
        grown = torch.exp(2 * (scores / 3.0))
        return (grown - 1) / (grown + 1) * 3.0
    stages(patient, layers, cap=cap)


@mistake("embed.token_type", "type_embed", on=named("bert"), where=None)
def segments_taken_for_the_mask(patient, layers):
    """The mask of ones, handed over in the place of the segment ids."""
    patient.forward_of("embeddings.token_type_embeddings", lambda module, original: (
        lambda ids: original(torch.ones_like(ids))))


@mistake("embed.position_offset", "pos_embed", on=named("bert"), where=None)
def positions_without_padding_rows(patient, layers):
    """As RoBERTa's table read as BERT's, whose row p + 2 is the position's."""
    patient.shift_positions = -2


@mistake("mlp.activation", "mlp_act", on=named("gpt_neox", "gemma"), dtypes=("f32",))
def tanh_table_of_half_floats(patient, layers):
    """As llama.cpp on CPU has every GELU: a table from float16 to float16."""
    from mistakes.mlp import act_path
    for n in layers:
        patient.forward_of(patient.block_path(n, act_path(patient.tiny)), lambda *_: (
            lambda x: F.gelu(x.half().float(), approximate="tanh").half().float()))


def all_mistakes():
    load()
    return {each.name: each for each in TABLE}
