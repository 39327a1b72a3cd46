"""Weights that are loaded in another order, transposed, or not at all."""

import torch

from mistakes import mistake
from tiny.sites import LAYOUTS, sizes_of


class Rows:
    """The rows of q, k or v in a block's weights, fused or not, [out,in] or as GPT-2 has them."""

    def __init__(self, patient, n, which):
        self.patient, self.turned = patient, patient.tiny.layout == "gpt2"
        block = LAYOUTS[patient.tiny.layout].block
        if which in block:
            path, self.index = block[which], None
        else:
            path, split = block["q,k,v"]
            out = self.tensor(patient.weight_name(patient.block_path(n, path))).shape[0]
            parts = dict(zip("qkv", split(torch.arange(out)[None], sizes_of(patient.config, 1))))
            self.index = parts[which][0]
        self.path = patient.block_path(n, path)

    def tensor(self, name):
        value = self.patient.weights[name]
        return value.T if self.turned and value.dim() == 2 else value

    def names(self):
        found = []
        for what in ("weight", "bias"):
            try:
                found.append(self.patient.weight_name(self.path, what))
            except AssertionError:
                pass
        return found

    def get(self):
        return [self.tensor(name) if self.index is None else self.tensor(name)[self.index] for name in self.names()]

    def set(self, values):
        for name, value in zip(self.names(), values):
            whole = self.tensor(name).clone()
            if self.index is None:
                whole = value.clone()
            else:
                whole[self.index] = value
            self.patient.weights[name] = (whole.T if self.turned and whole.dim() == 2 else whole).contiguous()


def fused_all(patient, n):
    """The fused matrix as one, its parts as they lie."""
    block = LAYOUTS[patient.tiny.layout].block
    rows = Rows.__new__(Rows)
    rows.patient, rows.turned, rows.index = patient, patient.tiny.layout == "gpt2", None
    rows.path = patient.block_path(n, block["q,k,v"][0])
    return rows


@mistake("attn.qkv_split", "q", on=lambda tiny: tiny.layout in ("gpt_neox", "gpt_neox_sequential", "falcon_sequential"),
         report="A17")
def fused_as_three_blocks(patient, layers):
    for n in layers:
        whole = [value.clone() for value in fused_all(patient, n).get()]
        for which, at in zip("qkv", range(3)):
            Rows(patient, n, which).set([value.chunk(3, 0)[at] for value in whole])


@mistake("attn.qkv_split", "q", on=lambda tiny: tiny.layout in ("gpt2", "phi3"), report="A17")
def fused_as_groups(patient, layers):
    """As NeoX has them: for each key head its query heads, then the key, then the value."""
    for n in layers:
        whole = [value.clone() for value in fused_all(patient, n).get()]
        sizes = sizes_of(patient.config, 1)
        groups = torch.arange(len(whole[0])).unflatten(0, (sizes.kv, -1, sizes.width))
        parts = {"q": groups[:, :-2], "k": groups[:, -2:-1], "v": groups[:, -1:]}
        for which, part in parts.items():
            Rows(patient, n, which).set([value[part.flatten()] for value in whole])


@mistake("attn.qkv_split", "k", on=lambda tiny: tiny.name == "phi3", report="A18")
def one_kv_head_of_several(patient, layers):
    """The fused rows are read as [q; one key head; one value head]; every query head reads these."""
    for n in layers:
        whole = [value.clone() for value in fused_all(patient, n).get()]
        sizes = sizes_of(patient.config, 1)
        first = sizes.heads * sizes.width
        for which, at in (("k", first), ("v", first + sizes.width)):
            Rows(patient, n, which).set([value[at:at + sizes.width].repeat(sizes.kv, *[1] * (value.dim() - 1))
                                         for value in whole])


@mistake("attn.kv_swapped", "k", report="A19")
def keys_and_values_exchanged(patient, layers):
    for n in layers:
        key, value = Rows(patient, n, "k"), Rows(patient, n, "v")
        old = [[each.clone() for each in rows.get()] for rows in (key, value)]
        key.set(old[1])
        value.set(old[0])


def to_neighbours(rows, heads):
    """The order in which llama.cpp keeps rotary pairs: (i, i + E/2) become neighbours, head by head."""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def to_halves(rows, heads):
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def rotary_rows(tiny):
    return tiny.name in ("llama", "llama3", "llama_blocks", "mistral", "qwen2", "granite", "gemma", "starcoder2")


@mistake("weight.rows_permuted", "k", on=lambda tiny: tiny.name == "mistral", report="R2")
def keys_permuted_by_the_wrong_number(patient, layers):
    """The file's K groups are taken for H/K."""
    heads, groups = patient.config.num_attention_heads, patient.config.num_key_value_heads
    for n in layers:
        rows = Rows(patient, n, "k")
        rows.set([to_halves(to_neighbours(value, groups), heads // groups) for value in rows.get()])


@mistake("weight.rows_permuted", "q", on=rotary_rows, report="R3")
def queries_left_permuted(patient, layers):
    for n in layers:
        rows = Rows(patient, n, "q")
        rows.set([to_neighbours(value, patient.config.num_attention_heads) for value in rows.get()])


@mistake("weight.rows_permuted", "k", on=rotary_rows, report="R3")
def keys_left_permuted(patient, layers):
    for n in layers:
        rows = Rows(patient, n, "k")
        rows.set([to_neighbours(value, patient.config.num_key_value_heads) for value in rows.get()])


def path_of(tiny, site):
    path = LAYOUTS[tiny.layout].block[site]
    return path if isinstance(path, str) else path[0]


SQUARE = ("gpt2", "qwen2", "phi", "phi3", "granite", "opt", "stablelm", "gpt_neox", "gpt_neox_sequential", "bert",
          "falcon", "falcon_rw")


@mistake("weight.transposed", "attn_proj", on=lambda tiny: tiny.name in SQUARE, report="L1")
def output_projection_transposed(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, "attn_proj")))
        patient.weights[name] = patient.weights[name].T.contiguous()


@mistake("weight.transposed", "q", on=lambda tiny: tiny.name in ("qwen2", "phi", "granite", "opt", "stablelm", "bert"))
def query_projection_transposed(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, "q")))
        patient.weights[name] = patient.weights[name].T.contiguous()


def nibbles(weight):
    """Blocks of 32 along the inputs: byte j holds elements j and j + 16, read as 2j and 2j + 1."""
    blocks = weight.unflatten(-1, (-1, 2, 16))
    return blocks.transpose(-1, -2).flatten(-3)


@mistake("weight.quant_layout", "q", on=lambda tiny: tiny.name == "llama_blocks", report="L2")
def nibbles_as_neighbours(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, "self_attn.q_proj"))
        patient.weights[name] = nibbles(patient.weights[name])


@mistake("weight.quant_layout", "mlp_proj", on=lambda tiny: tiny.name == "llama_blocks", report="L5")
def nibbles_of_the_down_projection(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, "mlp.down_proj"))
        patient.weights[name] = nibbles(patient.weights[name])


def without_bias(patient, layers, site):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, site)), "bias")
        patient.weights[name] = torch.zeros_like(patient.weights[name])


BIASED_Q = ("qwen2", "llama3", "phi", "granite", "starcoder2", "opt", "stablelm", "bert")


@mistake("bias.missing", "q", on=lambda tiny: tiny.name in BIASED_Q or tiny.fused and tiny.layout in (
    "gpt2", "gpt_neox", "gpt_neox_sequential", "falcon_sequential"), report="A24")
def attention_biases_not_loaded(patient, layers):
    for n in layers:
        for which in "qkv":
            rows = Rows(patient, n, which)
            values = rows.get()
            rows.set([values[0], torch.zeros_like(values[1])])


@mistake("bias.missing", "k", on=lambda tiny: tiny.name in BIASED_Q)
def key_bias_missing(patient, layers):
    without_bias(patient, layers, "k")


@mistake("bias.missing", "attn_proj", on=lambda tiny: tiny.name in (
    "llama3", "phi", "granite", "starcoder2", "opt", "gpt2", "gpt_neox", "gpt_neox_sequential", "bert", "falcon_rw"),
    report="L9")
def output_bias_missing(patient, layers):
    without_bias(patient, layers, "attn_proj")


PLAIN_BIASED = ("phi", "starcoder2", "opt", "gpt2", "gpt_neox", "gpt_neox_sequential", "bert", "falcon_rw")


@mistake("bias.missing", "mlp_pre", on=lambda tiny: tiny.name in PLAIN_BIASED)
def up_bias_missing(patient, layers):
    without_bias(patient, layers, "mlp_pre")


@mistake("bias.missing", "mlp_proj", on=lambda tiny: tiny.name in (*PLAIN_BIASED, "llama3"))
def down_bias_missing(patient, layers):
    without_bias(patient, layers, "mlp_proj")


@mistake("bias.missing", "head", on=lambda tiny: tiny.name == "phi", where=None)
def head_bias_missing(patient, layers):
    name = patient.weight_name("lm_head", "bias")
    patient.weights[name] = torch.zeros_like(patient.weights[name])


# ----------------------------------------------------------------------- none of the known causes

@mistake("unknown", "mlp_proj")
def nan_in_a_weight(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, "mlp_proj")))
        patient.weights[name][5, 3] = float("nan")


@mistake("unknown", "attn_proj")
def one_row_of_a_weight_lost(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, "attn_proj")))
        patient.weights[name][11] = 0


@mistake("unknown", "mlp_proj", where=lambda patient: list(patient.layers)[:-1])
def weights_of_the_next_block(patient, layers):
    clean = dict(patient.weights)
    for n in layers:
        mine, next_one = (patient.weight_name(patient.block_path(at, path_of(patient.tiny, "mlp_proj")))
                          for at in (n, n + 1))
        patient.weights[mine] = clean[next_one].clone()


@mistake("unknown", "mlp_proj")
def weights_rounded_to_four_bits(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, "mlp_proj")))
        weight = patient.weights[name]
        step = weight.abs().max() / 7
        patient.weights[name] = (weight / step).round() * step


@mistake("unknown", "attn_proj", report="L8")
def end_of_a_weight_is_zero(patient, layers):
    for n in layers:
        name = patient.weight_name(patient.block_path(n, path_of(patient.tiny, "attn_proj")))
        flat = patient.weights[name].clone().flatten()
        flat[len(flat) * 3 // 4:] = 0
        patient.weights[name] = flat.view(patient.weights[name].shape)
