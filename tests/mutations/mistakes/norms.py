"""Norms: eps, variance, kind, weights, biases, place, and where a half-precision run rounds."""

import torch

from mistakes import mistake
from tiny.sites import LAYOUTS

EXACT = ("f32",)


def eps_of(module):
    return getattr(module, "variance_epsilon", getattr(module, "eps", None))


def normed(tiny, module, x, eps=None, outside=False, unbiased=False, power=0.5, centred=None, add=None, weight=None,
           bias=True, early=None):
    """The family's norm, but for what is given. `early`: rounded to the run's type before the weight."""
    eps = eps_of(module) if eps is None else eps
    centred = tiny.norm in ("layer", "plain") if centred is None else centred
    add = (1.0 if tiny.norm == "offset" else 0.0) if add is None else add
    early = (tiny.norm == "rms" and tiny.layout != "olmo2") if early is None else early
    weight = module.weight if weight is None else weight
    y = x.float()
    if centred:
        y = y - y.mean(-1, keepdim=True)
    variance = y.pow(2).mean(-1, keepdim=True)
    if unbiased:
        variance = variance * (y.shape[-1] / (y.shape[-1] - 1))
    y = y / (variance.sqrt() + eps) if outside else y / (variance + eps) ** power
    if early:
        y = y.to(x.dtype) * (weight + add)
    else:
        y = y * (weight.float() + add)
    if bias and getattr(module, "bias", None) is not None:
        y = y + module.bias.float()
    return y.to(x.dtype)


def roles(tiny):
    """Role -> (path in the block, site) of a block's norms over the width."""
    found = {}
    if tiny.wiring == "sandwich":
        return {"norm1": ("input_layernorm", "attn_norm"), "post1": ("post_attention_layernorm", "attn_out"),
                "norm2": ("pre_feedforward_layernorm", "mlp_norm"),
                "post2": ("post_feedforward_layernorm", "mlp_out")}
    sites = {"output": ("attn_out", "mlp_out"), "post": ("resid_mid", "resid_post")}.get(
        tiny.wiring, ("attn_norm", "mlp_norm"))
    for role, path, site in zip(("norm1", "norm2"), (tiny.norm1, tiny.norm2), sites):
        if path:
            found[role] = (path, site)
    return found


def change(patient, layers, role, **changes):
    path = roles(patient.tiny)[role][0]
    for n in layers:
        patient.forward_of(patient.block_path(n, path), lambda module, _: (
            lambda x: normed(patient.tiny, module, x, **changes)))


def site_of(role):
    return lambda tiny: roles(tiny)[role][1]


def has(role, *kinds, wirings=None):
    return lambda tiny: (role in roles(tiny) and (not kinds or tiny.norm in kinds)
                         and (wirings is None or tiny.wiring in wirings))


def first_norm(tiny):
    if tiny.wiring == "post":
        return "embed"
    return "blocks.0.q_norm" if tiny.wiring == "output" else "blocks.0.attn_norm"


def all_norms(patient, eps):
    def apply(model):
        for module in model.modules():
            if "Norm" in type(module).__name__ and eps_of(module) is not None:
                setattr(module, "variance_epsilon" if hasattr(module, "variance_epsilon") else "eps", eps)
    patient.patch(apply)


@mistake("norm.eps", first_norm, at_once=True, report="N1", dtypes=EXACT)
def eps_of_llama_1(patient, layers):
    all_norms(patient, 1e-6)


@mistake("norm.eps", first_norm, at_once=True, report="N5", dtypes=EXACT)
def eps_of_bert(patient, layers):
    all_norms(patient, 1e-12)


@mistake("norm.eps", first_norm, at_once=True, report="N2")
def eps_too_large(patient, layers):
    all_norms(patient, 1e-3)


@mistake("norm.eps", site_of("norm2"), on=has("norm2"), report="N3", dtypes=EXACT)
def eps_constant_in_kernel(patient, layers):
    change(patient, layers, "norm2", eps=1e-3)


@mistake("norm.eps_outside_root", site_of("norm1"), on=has("norm1"), report="N6", dtypes=EXACT)
def eps_outside_root(patient, layers):
    change(patient, layers, "norm1", outside=True)


@mistake("norm.unbiased_variance", site_of("norm1"), on=has("norm1", "layer", "plain"), report="N7")
def bessel(patient, layers):
    change(patient, layers, "norm1", unbiased=True)


@mistake("norm.unbiased_variance", site_of("norm2"), on=has("norm2", "layer", "plain"), report="N7")
def bessel_of_second(patient, layers):
    change(patient, layers, "norm2", unbiased=True)


@mistake("unknown", site_of("norm1"), on=has("norm1"), report="N8")
def norm_exponent(patient, layers):
    change(patient, layers, "norm1", power=1.0)


@mistake("norm.kind", site_of("norm1"), on=has("norm1", "layer", "plain"))
def rms_for_layer(patient, layers):
    change(patient, layers, "norm1", centred=False)


@mistake("norm.kind", site_of("norm2"), on=has("norm2", "rms", "offset"))
def layer_for_rms(patient, layers):
    change(patient, layers, "norm2", centred=True)


@mistake("norm.weight_offset", site_of("norm1"), on=has("norm1", "offset"), report="N9")
def offset_missing(patient, layers):
    change(patient, layers, "norm1", add=0.0)


@mistake("norm.weight_offset", site_of("norm2"), on=has("norm2", "offset"), report="N10")
def offset_twice(patient, layers):
    change(patient, layers, "norm2", add=2.0)


@mistake("norm.weight_offset", site_of("norm1"), on=has("norm1", "rms"), report="N10")
def offset_in_llama(patient, layers):
    change(patient, layers, "norm1", add=1.0)


def use_weights(patient, layers, role, other, step=0):
    """The role's norm with the weights of another one, of this block or the one `step` on."""
    paths = {name: path for name, (path, _) in roles(patient.tiny).items()}
    clean = dict(patient.weights)
    for n in layers:
        for what in ("weight", "bias"):
            try:
                mine = patient.weight_name(patient.block_path(n, paths[role]), what)
                theirs = patient.weight_name(patient.block_path((n + step) % len(patient.layers), paths[other]), what)
            except AssertionError:
                continue
            patient.weights[mine] = clean[theirs].clone()


@mistake("norm.weight_swapped", site_of("norm1"), on=has("norm2"), report="N15")
def norms_exchanged(patient, layers):
    clean = dict(patient.weights)
    use_weights(patient, layers, "norm1", "norm2")
    changed = dict(patient.weights)
    patient.weights = dict(clean)
    use_weights(patient, layers, "norm2", "norm1")
    patient.weights = {name: changed[name] if changed[name] is not clean[name] else value
                       for name, value in patient.weights.items()}


@mistake("norm.weight_swapped", "mlp_norm", on=has("post2"), report="N15")
def mlp_norms_exchanged(patient, layers):
    clean = dict(patient.weights)
    use_weights(patient, layers, "norm2", "post2")
    changed = dict(patient.weights)
    patient.weights = dict(clean)
    use_weights(patient, layers, "post2", "norm2")
    patient.weights = {name: changed[name] if changed[name] is not clean[name] else value
                       for name, value in patient.weights.items()}


@mistake("norm.weight_swapped", "mlp_norm", on=has("post1"), report="N16")
def mlp_norm_from_attention(patient, layers):
    use_weights(patient, layers, "norm2", "post1")


@mistake("norm.weight_swapped", "mlp_norm", on=has("norm2", wirings=("pre", "parallel2")))
def second_norm_is_first(patient, layers):
    use_weights(patient, layers, "norm2", "norm1")


@mistake("norm.bias_missing", site_of("norm1"), on=has("norm1", "layer"))
def norm_bias_missing(patient, layers):
    change(patient, layers, "norm1", bias=False)


@mistake("norm.bias_missing", site_of("norm2"), on=has("norm2", "layer"))
def second_norm_bias_missing(patient, layers):
    change(patient, layers, "norm2", bias=False)


@mistake("norm.bias_missing", "final_norm", on=lambda tiny: tiny.norm == "layer" and tiny.final, where=None)
def final_norm_bias_missing(patient, layers):
    patient.forward_of(patient.tiny.final, lambda module, _: lambda x: normed(patient.tiny, module, x, bias=False))


def bypass(patient, layers, role):
    path = roles(patient.tiny)[role][0]
    for n in layers:
        patient.forward_of(patient.block_path(n, path), lambda module, _: lambda x: x + 0)


@mistake("norm.missing", site_of("norm1"), on=has("norm1"))
def first_norm_missing(patient, layers):
    bypass(patient, layers, "norm1")


@mistake("norm.missing", site_of("norm2"), on=has("norm2"))
def second_norm_missing(patient, layers):
    bypass(patient, layers, "norm2")


@mistake("norm.missing", "attn_out", on=has("post1"))
def post_norm_missing(patient, layers):
    bypass(patient, layers, "post1")


@mistake("norm.missing", "embed", on=lambda tiny: tiny.layout == "bert", where=None)
def embedding_norm_missing(patient, layers):
    patient.forward_of("embeddings.LayerNorm", lambda module, _: lambda x: x + 0)


@mistake("norm.placement", "resid_mid", on=has("post1", wirings=("sandwich",)))
def norm_of_the_sum(patient, layers):
    """The norm of the attention's output is taken of the sum."""
    patient.omit |= {"attn_out"}
    for n in layers:
        wire = patient.wire(n)
        wire.post1 = lambda block, a: a
        wire.add_attn = attention_sum_normed(patient, n)


def attention_sum_normed(patient, n):
    holder = {}
    patient.patch(lambda model: holder.update(norm=model.base_model.get_submodule(
        patient.block_path(n, "post_attention_layernorm"))))
    return lambda x, a, read: holder["norm"].forward(x + a)


@mistake("norm.placement", "q", on=lambda tiny: tiny.wiring == "output", also=("norm.missing",))
def output_norms_as_input_norms(patient, layers):
    """OLMo 2 run as Llama: its norms stand before the sub-layers."""
    patient.omit |= {"attn_out", "mlp_out"}
    for n in layers:
        wire = patient.wire(n)
        wire.norm1 = lambda block, x: block.post_attention_layernorm.forward(x)
        wire.norm2 = lambda block, mid, x: block.post_feedforward_layernorm.forward(mid)
        wire.post1 = wire.post2 = lambda block, value: value


@mistake("norm.placement", "q", on=lambda tiny: tiny.wiring == "pre" and not tiny.own_attention,
         also=("norm.missing",))
def pre_norms_as_post_norms(patient, layers):
    """x = norm1(x + attn(x)); x = norm2(x + mlp(x))."""
    patient.omit |= {"attn_norm", "mlp_norm", "resid_mid"}
    holder = {}
    patient.patch(lambda model: holder.update(
        blocks=model.base_model.get_submodule(LAYOUTS[patient.tiny.layout].layers)))
    for n in layers:
        wire = patient.wire(n)
        wire.norm1 = lambda block, x: x
        wire.add_attn = lambda x, a, read, n=n: holder["blocks"][n].get_submodule(patient.tiny.norm1).forward(x + a)
        wire.norm2 = lambda block, mid, x: mid
        wire.add_mlp = lambda mid, m, x, read, n=n: holder["blocks"][n].get_submodule(
            patient.tiny.norm2).forward(mid + m)


@mistake("norm.cast_order", site_of("norm1"), on=has("norm1", "offset"), report="N12", dtypes=("bf16", "f16"))
def rounded_before_weight(patient, layers):
    change(patient, layers, "norm1", early=True)


@mistake("norm.cast_order", site_of("norm1"), on=lambda tiny: tiny.norm == "rms" and tiny.layout != "olmo2",
         report="N13", dtypes=("bf16", "f16"))
def weight_in_float32(patient, layers):
    change(patient, layers, "norm1", early=False)


def qk_paths(tiny):
    block = LAYOUTS[tiny.layout].block
    return [block[name] for name in ("q_norm", "k_norm")]


def q_or_k_norm(tiny):
    return tiny.has("q_norm") and tiny.layout != "phi"


@mistake("qk_norm.missing", "q_norm", on=q_or_k_norm, report="A23")
def qk_norm_missing(patient, layers):
    for n in layers:
        for path in qk_paths(patient.tiny):
            patient.forward_of(patient.block_path(n, path), lambda module, _: lambda x: x + 0)


@mistake("qk_norm.missing", "k_norm", on=q_or_k_norm)
def k_norm_missing(patient, layers):
    for n in layers:
        patient.forward_of(patient.block_path(n, qk_paths(patient.tiny)[1]), lambda module, _: lambda x: x + 0)


@mistake("qk_norm.axis", "q_norm", on=lambda tiny: tiny.layout == "olmo2")
def qk_norm_per_head(patient, layers):
    width = patient.config.hidden_size // patient.config.num_attention_heads
    width = getattr(patient.config, "head_dim", None) or width

    def make(module, _):
        def forward(x):
            heads = x.float().unflatten(-1, (-1, width))
            heads = heads * torch.rsqrt(heads.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
            return (module.weight * heads.flatten(-2)).to(x.dtype)
        return forward
    for n in layers:
        for path in qk_paths(patient.tiny):
            patient.forward_of(patient.block_path(n, path), make)


@mistake("qk_norm.axis", "q_norm", on=lambda tiny: tiny.name in ("qwen3", "gemma3"))
def qk_norm_over_all_heads(patient, layers):
    def make(module, _):
        def forward(x):  # [B,T,H,E] or [B,H,T,E]: heads are where their number is
            axis = 1 if x.shape[1] in (patient.config.num_attention_heads, patient.config.num_key_value_heads) else 2
            y = x.float()
            y = y * torch.rsqrt(y.pow(2).mean((axis, -1), keepdim=True) + eps_of(module))
            if patient.tiny.norm == "offset":
                return (y * (1 + module.weight.float())).to(x.dtype)
            return module.weight * y.to(x.dtype)
        return forward
    for n in layers:
        for path in qk_paths(patient.tiny):
            patient.forward_of(patient.block_path(n, path), make)


@mistake("qk_norm.order", "q_rot", on=lambda tiny: tiny.name in ("qwen3", "gemma3", "cohere"), report="A22")
def rotated_before_norm(patient, layers):
    patient.omit |= {"q_norm", "k_norm"}
    norms = {}
    for n in layers:
        for which, path in zip("qk", qk_paths(patient.tiny)):
            def make(module, original, at=(n, which)):
                norms[at] = original
                return lambda x: x + 0
            patient.forward_of(patient.block_path(n, path), make)

        def rotate(original, q, k, cos, sin, n=n):
            q, k = original(q, k, cos, sin)
            return (norms[n, "q"](q.transpose(1, 2)).transpose(1, 2),
                    norms[n, "k"](k.transpose(1, 2)).transpose(1, 2))
        patient.stages[n].rotate = rotate
