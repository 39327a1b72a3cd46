"""Values of a transformers model at every named step, out of module hooks and of the functions
that its attention calls.

A layout says where the modules of a family stand: site -> path of the module in its block whose
output the site is; "<path" is the module's input. "q,k,v" with a function is one module whose
output holds several sites.
"""

import sys
from dataclasses import dataclass, field

import torch

HEADS = {"q", "k", "v", "q_norm", "k_norm", "attn_mix"}
HEADS |= {"cross_q", "cross_k", "cross_v", "cross_attn_mix"}


@dataclass
class Layout:
    layers: str  # path of the list of blocks, from the base model
    attention: str  # path of the attention in its block
    block: dict
    outer: dict = field(default_factory=dict)  # from the base model
    head: dict = field(default_factory=dict)  # from the whole model
    cross: str = ""
    own_attention: bool = False  # attention without the eager function: Falcon
    rotary: bool = True


def both(name, path):
    """A projection whose result is what joins the stream."""
    return {name + "_proj": path, name + "_out": path}


def split_thirds(value, sizes):
    return value.chunk(3, -1)


def split_rows(value, sizes):
    """All of q, then k, then v."""
    return value.split([sizes.heads * sizes.width, sizes.kv * sizes.width, sizes.kv * sizes.width], -1)


def split_groups(value, sizes):
    """For each key head its query heads, then the key, then the value."""
    groups = value.unflatten(-1, (sizes.kv, -1, sizes.width))
    return (part.flatten(-3) for part in (groups[..., :-2, :], groups[..., -2:-1, :], groups[..., -1:, :]))


GATED = {"mlp_gate": "mlp.gate_proj", "mlp_value": "mlp.up_proj", "mlp_act": "mlp.act_fn",
         "mlp_hidden": "<mlp.down_proj"} | both("mlp", "mlp.down_proj")
QKV = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj"}


def attention(output):
    return {"attn_mix": "<" + output} | both("attn", output)


def plain(up, act, down):
    return {"mlp_pre": up, "mlp_act": act, "mlp_hidden": "<" + down} | both("mlp", down)


SEQUENTIAL = {"attn_norm": "input_layernorm", "resid_mid": "<post_attention_layernorm",
              "mlp_norm": "post_attention_layernorm"}
LLAMA_BLOCK = SEQUENTIAL | QKV | attention("self_attn.o_proj") | GATED
QK_NORM = {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
QK_LAYERNORM = {"q_norm": "self_attn.q_layernorm", "k_norm": "self_attn.k_layernorm"}
SANDWICH = {"attn_out": "post_attention_layernorm", "mlp_out": "post_feedforward_layernorm"}
GEMMA2_BLOCK = LLAMA_BLOCK | SANDWICH | {"resid_mid": "<pre_feedforward_layernorm",
                                         "mlp_norm": "pre_feedforward_layernorm"}
NO_SECOND_NORM = {key: path for key, path in LLAMA_BLOCK.items() if key not in ("resid_mid", "mlp_norm")}


def llama_like(block=LLAMA_BLOCK, norm="norm"):
    return Layout("layers", "self_attn", block, {"final_norm": norm}, {"head": "lm_head"})


NEOX_BLOCK = {"attn_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm",
              "q,k,v": ("attention.query_key_value", split_groups)} | \
    attention("attention.dense") | plain("mlp.dense_h_to_4h", "mlp.act", "mlp.dense_4h_to_h")
NEOX_OUTER = {"final_norm": "final_layer_norm"}
FALCON_BLOCK = {"q,k,v": ("self_attention.query_key_value", split_groups)} | \
    attention("self_attention.dense") | plain("mlp.dense_h_to_4h", "mlp.act", "mlp.dense_4h_to_h")
OPT_BLOCK = QKV | attention("self_attn.out_proj") | plain("fc1", "activation_fn", "fc2")
OPT_PRE = OPT_BLOCK | {"attn_norm": "self_attn_layer_norm", "resid_mid": "<final_layer_norm",
                       "mlp_norm": "final_layer_norm"}
OPT_POST = OPT_BLOCK | {"attn_sum": "<self_attn_layer_norm", "resid_mid": "self_attn_layer_norm",
                        "mlp_sum": "<final_layer_norm"}
GPT2_BLOCK = {"attn_norm": "ln_1", "q,k,v": ("attn.c_attn", split_thirds), "resid_mid": "<ln_2",
              "mlp_norm": "ln_2"} | attention("attn.c_proj") | plain("mlp.c_fc", "mlp.act", "mlp.c_proj")
CROSS = {"cross_resid_pre": "self_attn_layer_norm", "cross_q": "encoder_attn.q_proj",
         "cross_k": "encoder_attn.k_proj", "cross_v": "encoder_attn.v_proj",
         "cross_attn_mix": "<encoder_attn.out_proj", "cross_attn_proj": "encoder_attn.out_proj",
         "cross_attn_out": "encoder_attn.out_proj", "cross_attn_sum": "<encoder_attn_layer_norm",
         "resid_mid": "encoder_attn_layer_norm"}


def falcon(norms):
    outer, head = {"final_norm": "ln_f"}, {"head": "lm_head"}
    return Layout("h", "self_attention", FALCON_BLOCK | norms, outer, head, own_attention=True)


def opt(block, outer, head):
    return Layout("decoder.layers", "self_attn", block,
                  {"pos_embed": "decoder.embed_positions"} | outer, {"head": "lm_head"} | head, rotary=False)


LAYOUTS = {
    "llama": llama_like(),
    "qwen3": llama_like(LLAMA_BLOCK | QK_NORM),
    "gemma2": llama_like(GEMMA2_BLOCK),
    "gemma3": llama_like(GEMMA2_BLOCK | QK_NORM),
    "gpt2": Layout("h", "attn", GPT2_BLOCK, {"pos_embed": "wpe", "final_norm": "ln_f"}, {"head": "lm_head"},
                   rotary=False),
    "gpt_neox": Layout("layers", "attention", NEOX_BLOCK, NEOX_OUTER, {"head": "lm_head"}),
    "gpt_neox_sequential": Layout("layers", "attention",
                                  NEOX_BLOCK | {"resid_mid": "<post_attention_layernorm"}, NEOX_OUTER,
                                  {"head": "lm_head"}),
    "gptj": Layout("h", "attn",
                   {"attn_norm": "ln_1", "q": "attn.q_proj", "k": "attn.k_proj", "v": "attn.v_proj"}
                   | attention("attn.out_proj") | plain("mlp.fc_in", "mlp.act", "mlp.fc_out"),
                   {"final_norm": "ln_f"}, {"head": "lm_head"}),
    "opt": opt(OPT_PRE, {"final_norm": "decoder.final_layer_norm"}, {}),
    "opt_post": opt(OPT_POST, {"head_proj": "decoder.project_out"}, {}),
    "falcon": falcon({"attn_norm": "input_layernorm"}),
    "falcon_groups": falcon({"attn_norm": "ln_attn", "mlp_norm": "ln_mlp"}),
    "falcon_sequential": falcon({"attn_norm": "input_layernorm", "resid_mid": "<post_attention_layernorm",
                                 "mlp_norm": "post_attention_layernorm"}),
    "stablelm": llama_like(LLAMA_BLOCK | QK_LAYERNORM),
    "stablelm_parallel": llama_like(NO_SECOND_NORM),
    "olmo2": llama_like({key: path for key, path in (LLAMA_BLOCK | SANDWICH | QK_NORM).items()
                         if key not in ("attn_norm", "mlp_norm")} | {"resid_mid": "<mlp"}),
    "cohere": llama_like(NO_SECOND_NORM | QK_NORM),
    "cohere2": llama_like(NO_SECOND_NORM),
    "phi": llama_like({"attn_norm": "input_layernorm"} | QKV | QK_LAYERNORM | attention("self_attn.dense")
                      | plain("mlp.fc1", "mlp.activation_fn", "mlp.fc2"), norm="final_layernorm"),
    "starcoder2": llama_like(SEQUENTIAL | QKV | attention("self_attn.o_proj")
                             | plain("mlp.c_fc", "mlp.act", "mlp.c_proj")),
    "phi3": llama_like(SEQUENTIAL | {
        "q,k,v": ("self_attn.qkv_proj", split_rows),
        "mlp_gate,mlp_value": ("mlp.gate_up_proj", lambda value, _: value.chunk(2, -1)),
        "mlp_act": "mlp.activation_fn", "mlp_hidden": "<mlp.down_proj",
    } | attention("self_attn.o_proj") | both("mlp", "mlp.down_proj")),
    "bert": Layout("encoder.layer", "attention.self", {
        "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
        "attn_sum": "<attention.output.LayerNorm", "resid_mid": "attention.output.LayerNorm",
        "mlp_sum": "<output.LayerNorm",
    } | attention("attention.output.dense") | plain("intermediate.dense", "intermediate.intermediate_act_fn",
                                                    "output.dense"),
        {"pos_embed": "embeddings.position_embeddings", "type_embed": "embeddings.token_type_embeddings",
         "embed_sum": "<embeddings.LayerNorm", "embed": "embeddings.LayerNorm"},
        {"head_proj": "cls.predictions.transform.dense", "head_act": "cls.predictions.transform.transform_act_fn",
         "head_norm": "cls.predictions.transform.LayerNorm", "head": "cls.predictions.decoder"}, rotary=False),
    "marian_encoder": Layout("encoder.layers", "self_attn", OPT_POST, {"pos_embed": "encoder.embed_positions"},
                             rotary=False),
    "marian_decoder": Layout("decoder.layers", "self_attn", OPT_POST | CROSS,
                             {"pos_embed": "decoder.embed_positions"}, cross="encoder_attn", rotary=False),
}


@dataclass
class Sizes:
    heads: int
    kv: int
    width: int
    tokens: int


def sizes_of(config, tokens):
    heads = config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    kv = getattr(config, "num_key_value_heads", None) or heads
    if config.model_type == "falcon":
        grouped = config.new_decoder_architecture or not config.multi_query
        kv = config.num_kv_heads if grouped else 1
    return Sizes(heads, kv, width, tokens)


class Recorder:
    """One forward's values by site, for the modules of one stack."""

    def __init__(self, model, layout, sizes, stack=""):
        self.values, self.handles, self.attentions = {}, [], {}
        self.sizes, self.stack, self.config, self.rotates = sizes, stack, model.config, layout.rotary
        base = model.base_model
        self.table = model.get_input_embeddings().weight
        for site, path in layout.outer.items():
            self.hook(base, site, path)
        for site, path in layout.head.items():
            self.hook(model, site, path)
        blocks = base.get_submodule(layout.layers)
        for n, block in enumerate(blocks):
            at = f"blocks.{n}."
            self.handles.append(block.register_forward_pre_hook(self.stream(at + "resid_pre"), with_kwargs=True))
            self.handles.append(block.register_forward_hook(self.output_of(at + "resid_post")))
            for site, path in layout.block.items():
                self.hook(block, at + site, path)
            self.attentions[block.get_submodule(layout.attention)] = at
            if layout.cross:
                self.attentions[block.get_submodule(layout.cross)] = at + "cross_"
        self.module = sys.modules[type(blocks[0]).__module__]
        self.patched = "apply_rotary_pos_emb" if layout.own_attention else "eager_attention_forward"

    def keep(self, site, value):
        name = site.rsplit(".", 1)[-1]
        if name in HEADS:
            if value.dim() == 3:
                value = value.unflatten(-1, (-1, self.sizes.width))
            elif value.shape[1] in (self.sizes.heads, self.sizes.kv):
                value = value.transpose(1, 2)
        elif value.dim() == 2:  # OPT takes batch and tokens together
            value = value.unflatten(0, (-1, self.sizes.tokens))
        self.values[self.stack + site] = value.detach().contiguous().clone()

    def stream(self, site):
        def hook(_, args, keywords):
            self.keep(site, args[0] if args else keywords["hidden_states"])
        return hook

    def output_of(self, site):
        def hook(_, __, out):
            self.keep(site, out[0] if isinstance(out, tuple) else out)
        return hook

    def hook(self, parent, site, path):
        of_input = isinstance(path, str) and path.startswith("<")
        path, split = path if isinstance(path, tuple) else (path.removeprefix("<"), None)
        try:
            module = parent.get_submodule(path)
        except AttributeError:
            if site.rsplit(".", 1)[-1] in ("q_norm", "k_norm", "head", "head_proj", "head_act", "head_norm"):
                return  # forms of the family that have none
            raise
        at, names = site.rpartition(".")[0], site.rpartition(".")[2].split(",")
        at = at + "." if at else ""

        def fused(_, __, out):
            for name, part in zip(names, split(out, self.sizes)):
                self.keep(at + name, part)

        if split:
            self.handles.append(module.register_forward_hook(fused))
        elif of_input:
            self.handles.append(module.register_forward_pre_hook(self.stream(site), with_kwargs=True))
        else:
            self.handles.append(module.register_forward_hook(self.output_of(site)))

    def eager(self, module, query, key, value, mask, *args, **keywords):
        out, pattern = self.original(module, query, key, value, mask, *args, **keywords)
        at = self.attentions.get(module)
        if at is None:  # of another stack
            return out, pattern
        scale = args[0] if args else keywords.get("scaling")
        scores = query @ self.wide(key).transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
        if keywords.get("softcap") is not None:
            scores = torch.tanh(scores / keywords["softcap"]) * keywords["softcap"]
        if self.rotates:
            self.keep(at + "q_rot", query.transpose(1, 2))
            self.keep(at + "k_rot", key.transpose(1, 2))
        self.keep(at + "scores", scores)
        self.keep(at + "pattern", pattern)
        return out, pattern

    def rotary(self, query, key, *args, **keywords):
        query, key = self.original(query, key, *args, **keywords)
        at = f"blocks.{len(self.turned)}."
        self.turned.append(at)
        self.keep(at + "q_rot", query.transpose(1, 2))
        self.keep(at + "k_rot", key[:, :: key.shape[1] // self.sizes.kv].transpose(1, 2))
        return query, key

    def wide(self, key):
        return key.repeat_interleave(self.sizes.heads // key.shape[1], 1)

    def __enter__(self):
        self.turned = []
        self.original = getattr(self.module, self.patched)
        setattr(self.module, self.patched, self.rotary if self.patched.startswith("apply") else self.eager)
        return self

    def __exit__(self, *_):
        setattr(self.module, self.patched, self.original)
        for handle in self.handles:
            handle.remove()

    def complete(self, tokens, mask=None):
        """What no module and no function holds. The mask [B,T] is 0 at padding."""
        values, at = self.values, self.stack
        values[at + "token_embed"] = torch.nn.functional.embedding(tokens, self.table).detach()
        values.setdefault(at + "embed", values[at + "blocks.0.resid_pre"])
        factor = getattr(self.config, "residual_multiplier", 1)
        for name in list(values):
            if factor != 1 and name.endswith(("attn_proj", "mlp_proj")):
                values[name.replace("_proj", "_out")] = values[name] * factor
        if self.patched == "apply_rotary_pos_emb":
            self.falcon_patterns(torch.ones_like(tokens) if mask is None else mask)

    def falcon_patterns(self, mask):
        """Falcon's scores and pattern from q and k, apart from its own code: sdpa shows neither,
        and with ALiBi its eager form adds the bias twice. That the bias counts columns here and tokens
        there is a constant of each row."""
        sizes, scale = self.sizes, self.sizes.width**-0.5
        for at in self.attentions.values():
            rotated = at + "q_rot" in self.values
            query, key = (self.values[at + name + ("_rot" if rotated else "")].transpose(1, 2) for name in "qk")
            scores = query @ self.wide(key).transpose(-1, -2)
            if self.config.alibi:
                slopes = torch.tensor(alibi_slopes(sizes.heads), dtype=scores.dtype)
                scores = scores + slopes[:, None, None] * torch.arange(sizes.tokens)
            scores = scores * scale
            seen = torch.ones(sizes.tokens, sizes.tokens, dtype=torch.bool).tril() & mask[:, None, None].bool()
            self.values[at + "scores"] = scores
            self.values[at + "pattern"] = scores.masked_fill(~seen, -torch.inf).softmax(-1)


def alibi_slopes(heads):
    """Press et al., arXiv:2108.12409, and their code for a number that is no power of two."""
    whole = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (h + 1) / whole) for h in range(whole)]
    slopes += [2.0 ** (-8 * (2 * h + 1) / (2 * whole)) for h in range(heads - whole)]
    return torch.tensor(slopes).bfloat16().tolist()
