"""The GGUF form of a transformers model, as llama.cpp's converter would write it.

    write_gguf(model, path)                     one file, float32, without a tokenizer
    write_gguf(model, stem, tensors_per_part=9) STEM-00001-of-0000N.gguf, …

For each family: the words (keys) that the converter writes, and what it does to the weights: names by
gguf-py's table, rows of q and k permuted (Llama, Granite, OLMo 1), fused rows regrouped to q, k, v (NeoX, Falcon),
Conv1D matrices transposed (GPT-2), 1 added to norm weights (Gemma), norms of heads stacked (StableLM),
divisors of rotary frequencies as tensors (llama3 scaling, longrope). Numbers for which the converter
relies on a default are written too, where GGUF has a key for them.

Needs gguf==0.19.0, torch, transformers.
"""

import math
import re
from dataclasses import dataclass
from typing import Callable

import gguf
import numpy as np
import torch

Arch = gguf.MODEL_ARCH


def per_head_pairs(rows, heads):
    """Row s*E/2 + j of a head becomes row 2j + s, so that neighbours turn together."""
    shape = rows.shape
    return rows.reshape(heads, 2, -1, *shape[1:]).swapaxes(1, 2).reshape(shape)


def groups_to_qkv(rows, groups, queries):
    """Groups of [queries q heads, one k head, one v head] become all q, all k, all v."""
    heads = rows.reshape(groups, queries + 2, -1, *rows.shape[1:])
    parts = heads[:, :queries], heads[:, queries], heads[:, queries + 1]
    return np.concatenate([part.reshape(-1, *rows.shape[1:]) for part in parts])


def unchanged(name, data, config):
    return data


def llama_weight(name, data, config):
    if name.endswith(("q_proj.weight", "q_proj.bias")):
        return per_head_pairs(data, config.num_attention_heads)
    if name.endswith(("k_proj.weight", "k_proj.bias")):
        return per_head_pairs(data, config.num_key_value_heads)
    return data


def gemma_weight(name, data, config):
    return data + 1 if name.endswith("norm.weight") else data


def gpt2_weight(name, data, config):
    conv = (".c_attn.weight", ".c_proj.weight", ".c_fc.weight")
    return data.T if name.endswith(conv) else data


def neox_weight(name, data, config):
    return groups_to_qkv(data, config.num_attention_heads, 1) if ".query_key_value." in name else data


def falcon_kv_heads(config):
    if config.new_decoder_architecture or not config.multi_query:
        return config.num_kv_heads
    return 1


def falcon_weight(name, data, config):
    if ".query_key_value." not in name:
        return data
    groups = falcon_kv_heads(config)
    return groups_to_qkv(data, groups, config.num_attention_heads // groups)


def no_words(writer, config):
    pass


def llama_words(writer, config):
    writer.add_rope_dimension_count(head_width(config))
    # The converter says nothing of Mistral's window, and llama.cpp would not look.
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)


def gemma2_words(writer, config):
    writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_sliding_window(config.sliding_window)


def pattern_of(config):
    return config.layer_types.index("full_attention") + 1


def gemma3_words(writer, config):
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(pattern_of(config))
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def partial_rotary_words(writer, config):
    share = config.rope_parameters["partial_rotary_factor"]
    writer.add_rope_dimension_count(int(share * head_width(config)))


def neox_words(writer, config):
    partial_rotary_words(writer, config)
    writer.add_parallel_residual(config.use_parallel_residual)


def falcon_words(writer, config):
    writer.add_tensor_data_layout("jploski")


def stablelm_words(writer, config):
    partial_rotary_words(writer, config)
    # The converter's default where config.json does not say it, whatever the weights are like.
    writer.add_parallel_residual(True)


def cohere_words(writer, config):
    writer.add_logit_scale(config.logit_scale)
    writer.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def cohere2_words(writer, config):
    cohere_words(writer, config)
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern(pattern_of(config))
    writer.add_rope_dimension_count(head_width(config))


def granite_words(writer, config):
    writer.add_rope_dimension_count(head_width(config))
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


def starcoder2_words(writer, config):
    # As Mistral's: what a converter could say.
    if config.sliding_window:
        writer.add_sliding_window(config.sliding_window)


def olmo_words(writer, config):
    if config.clip_qkv is not None:
        writer.add_clamp_kqv(config.clip_qkv)


def phi3_words(writer, config):
    writer.add_rope_dimension_count(head_width(config))
    writer.add_sliding_window(config.sliding_window or 0)


def bert_words(writer, config):
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.NONE)
    writer.add_token_type_count(config.type_vocab_size)


@dataclass
class Form:
    arch: Arch
    words: Callable = no_words
    weight: Callable = unchanged


FORMS = {
    "llama": Form(Arch.LLAMA, llama_words, llama_weight),
    "mistral": Form(Arch.LLAMA, llama_words, llama_weight),
    "granite": Form(Arch.GRANITE, granite_words, llama_weight),
    "qwen2": Form(Arch.QWEN2),
    "qwen3": Form(Arch.QWEN3),
    "gemma": Form(Arch.GEMMA, weight=gemma_weight),
    "gemma2": Form(Arch.GEMMA2, gemma2_words, gemma_weight),
    "gemma3_text": Form(Arch.GEMMA3, gemma3_words, gemma_weight),
    "gpt2": Form(Arch.GPT2, weight=gpt2_weight),
    "gpt_neox": Form(Arch.GPTNEOX, neox_words, neox_weight),
    "falcon": Form(Arch.FALCON, falcon_words, falcon_weight),
    "stablelm": Form(Arch.STABLELM, stablelm_words),
    "olmo": Form(Arch.OLMO, olmo_words, llama_weight),
    "olmo2": Form(Arch.OLMO2),
    "starcoder2": Form(Arch.STARCODER2, starcoder2_words),
    "cohere": Form(Arch.COMMAND_R, cohere_words),
    "cohere2": Form(Arch.COHERE2, cohere2_words),
    "phi": Form(Arch.PHI2, partial_rotary_words),
    "phi3": Form(Arch.PHI3, phi3_words),
    "bert": Form(Arch.BERT, bert_words),
}


def head_width(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def first_of(config, *names):
    for name in names:
        value = getattr(config, name, None)
        if value is not None:
            return value
    return None


def common_words(writer, config):
    """What the converter writes for every family, under the name that the config has it."""
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(
        first_of(config, "intermediate_size", "ffn_hidden_size", "n_inner") or 4 * config.hidden_size
    )
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "falcon":
        writer.add_head_count_kv(falcon_kv_heads(config))
    elif hasattr(config, "num_key_value_heads"):
        writer.add_head_count_kv(config.num_key_value_heads)
    if getattr(config, "head_dim", None) and config.model_type not in ("falcon", "phi3"):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        eps = first_of(config, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")
        writer.add_layer_norm_eps(1e-5 if eps is None else eps)  # None: OLMo 1
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    # No tokenizer: the vocabulary is then the rows of the table.
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config.vocab_size)


def rotary_words(writer, config):
    rope = getattr(config, "rope_parameters", None)
    if not rope:
        return
    rope = rope.get("full_attention", rope)
    writer.add_rope_freq_base(rope["rope_theta"])
    kind = rope["rope_type"]
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        if "beta_slow" in rope:
            writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if kind == "longrope":
        original = rope["original_max_position_embeddings"]
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(
            math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
        )
    elif config.model_type == "phi3":
        writer.add_rope_scaling_orig_ctx_len(config.original_max_position_embeddings)


def rotary_tensors(model):
    """Divisors of the frequencies, where a scaling is stored as such."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    kind = rope.get("rope_type")
    if kind == "llama3":
        even = torch.arange(0, head_width(config), 2, dtype=torch.float64)
        plain = 1 / rope["rope_theta"] ** (even / head_width(config))
        yield "rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.double()).numpy()
    if kind == "longrope":
        yield "rope_factors_long.weight", np.array(rope["long_factor"])
        yield "rope_factors_short.weight", np.array(rope["short_factor"])


def model_tensors(model):
    """Name -> values, with the norms of single heads stacked; no tied head, no buffers."""
    tied = getattr(model.config, "tie_word_embeddings", False)
    stacks, result = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.startswith("cls.") or ".pooler." in name or name.startswith("pooler."):
            continue
        if tied and name in ("lm_head.weight", "embed_out.weight"):
            continue
        data = parameter.detach().float().numpy()
        of_head = re.fullmatch(r"(.*_layernorm)\.norms\.\d+(\.\w+)", name)
        if of_head:
            stacks.setdefault("".join(of_head.groups()), []).append(data)
        else:
            result[name] = data
    return result | {name: np.stack(parts) for name, parts in stacks.items()}


def fused_qkv(tensors):
    """blk.N.attn_q, _k and _v as one attn_qkv, as older converters left them."""
    tensors = dict(tensors)
    for name in [name for name in tensors if ".attn_q." in name]:
        parts = [tensors.pop(name.replace(".attn_q.", f".attn_{part}.")) for part in "qkv"]
        tensors[name.replace(".attn_q.", ".attn_qkv.")] = np.concatenate(parts)
    return tensors


def gguf_tensors(model):
    form, config = FORMS[model.config.model_type], model.config
    names = gguf.get_tensor_name_map(form.arch, config.num_hidden_layers)
    yield from rotary_tensors(model)
    for name, data in model_tensors(model).items():
        stored = names.get_name(name.removeprefix("bert."), try_suffixes=(".weight", ".bias"))
        if stored is None:
            raise ValueError(f"{name} has no GGUF name")
        yield stored, form.weight(name, data, config)


def write_gguf(model, path, tensors_per_part=0, fused=False):
    form = FORMS[model.config.model_type]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[form.arch], split_max_tensors=tensors_per_part)
    common_words(writer, model.config)
    rotary_words(writer, model.config)
    form.words(writer, model.config)
    tensors = dict(gguf_tensors(model))
    for name, data in (fused_qkv(tensors) if fused else tensors).items():
        writer.add_tensor(name, np.ascontiguousarray(data, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
