"""Sums of the stream, and how a block is wired."""

from mistakes import mistake

PRE = ("pre", "sandwich", "output")


def pre(tiny):
    return tiny.wiring in PRE and not tiny.own_attention


def rewirable(tiny):
    return tiny.wiring != "post" and not tiny.own_attention


def parallel(tiny):
    return tiny.wiring.startswith("parallel") and not tiny.own_attention


def wires(patient, layers, **functions):
    for n in layers:
        for name, function in functions.items():
            setattr(patient.wire(n), name, function)


@mistake("residual.missing", "resid_mid", on=pre)
def stream_lost_at_attention(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: a + 0)


@mistake("residual.missing", "resid_post", on=pre)
def stream_lost_at_mlp(patient, layers):
    wires(patient, layers, add_mlp=lambda mid, m, x, read: m + 0)


@mistake("residual.missing", "resid_post", on=parallel)
def stream_lost_in_parallel_block(patient, layers):
    wires(patient, layers, add_mlp=lambda x, m, a, read: a + m)


@mistake("residual.missing", "resid_post", on=parallel)
def attention_not_added(patient, layers):
    wires(patient, layers, add_mlp=lambda x, m, a, read: x + m)


@mistake("residual.missing", "resid_mid", on=pre)
def attention_dropped(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: x + 0)


@mistake("residual.missing", "resid_post", on=pre)
def mlp_dropped(patient, layers):
    wires(patient, layers, add_mlp=lambda mid, m, x, read: mid + 0)


@mistake("residual.missing", "attn_sum", on=lambda tiny: tiny.layout == "bert")
def stream_lost_at_bert_attention(patient, layers):
    for n in layers:
        patient.forward_of(patient.block_path(n, "attention.output"), lambda module, _: (
            lambda hidden, given: module.LayerNorm(module.dense(hidden))))


@mistake("residual.source", "mlp_sum", on=lambda tiny: tiny.layout == "bert", report="S4")
def unnormed_stream_at_bert_mlp(patient, layers):
    """The residual of the MLP is taken before the norm of the sum."""
    for n in layers:
        held = {}

        def attention_output(module, _, held=held):
            def forward(hidden, given):
                held["sum"] = module.dense(hidden) + given
                return module.LayerNorm(held["sum"])
            return forward
        patient.forward_of(patient.block_path(n, "attention.output"), attention_output)
        patient.forward_of(patient.block_path(n, "output"), lambda module, _, held=held: (
            lambda hidden, given: module.LayerNorm(module.dense(hidden) + held["sum"])))


@mistake("residual.doubled", "resid_mid", on=pre, report="S6")
def stream_added_twice_at_attention(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: x + (x + a))


@mistake("residual.doubled", "resid_post", on=pre, report="S6")
def stream_added_twice_at_mlp(patient, layers):
    wires(patient, layers, add_mlp=lambda mid, m, x, read: mid + (mid + m))


@mistake("residual.doubled", "resid_post", on=parallel, report="S6")
def stream_added_twice_in_parallel_block(patient, layers):
    wires(patient, layers, add_mlp=lambda x, m, a, read: x + (x + a + m))


@mistake("residual.doubled", "resid_mid", on=pre, also=("residual.source", "residual.missing"), report="S1")
def variable_overwritten(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: a + a)


@mistake("residual.source", "resid_mid", on=lambda tiny: pre(tiny) and tiny.wiring != "output", report="S2")
def residual_behind_the_norm(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: read + a)


@mistake("residual.source", "resid_post", on=lambda tiny: pre(tiny) and tiny.wiring != "output", report="S2")
def mlp_residual_behind_the_norm(patient, layers):
    wires(patient, layers, add_mlp=lambda mid, m, x, read: read + m)


@mistake("residual.source", "resid_post", on=pre)
def mlp_residual_of_the_block(patient, layers):
    """The stream that entered the block, not the one that entered the MLP."""
    wires(patient, layers, add_mlp=lambda mid, m, x, read: x + m)


@mistake("residual.scale", "resid_mid", on=lambda tiny: pre(tiny) and tiny.name != "granite")
def residual_scaled(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: x + a * 0.5)


@mistake("residual.scale", lambda tiny: "resid_mid", on=lambda tiny: tiny.name == "granite", at_once=True, report="S8")
def multiplier_ignored(patient, layers):
    patient.config.residual_multiplier = 1.0


@mistake("block.parallel", "mlp_norm", on=lambda tiny: tiny.wiring in ("pre", "sandwich") and pre(tiny), report="S5")
def run_in_parallel(patient, layers):
    patient.omit |= {"resid_mid"}
    name = {"sandwich": "pre_feedforward_layernorm"}.get(patient.tiny.wiring, patient.tiny.norm2)
    wires(patient, layers, norm2=lambda block, mid, x: block.get_submodule(name)(x))


@mistake("block.parallel", lambda tiny: "mlp_norm" if tiny.norm2 else ("mlp_gate" if tiny.gated else "mlp_pre"),
         on=parallel, report="S5")
def run_in_sequence(patient, layers):
    tiny = patient.tiny
    if tiny.norm2:
        wires(patient, layers, norm2=lambda block, mid, x: block.get_submodule(tiny.norm2)(mid))
    else:  # one norm, called a second time: not seen by its hook
        wires(patient, layers, norm2=lambda block, mid, x: block.get_submodule(tiny.norm1).forward(mid))


# ----------------------------------------------------------------------- none of the known causes

@mistake("unknown", "resid_post", on=rewirable, where=lambda patient: list(patient.layers)[1:],
         also=("residual.missing", "residual.source"))
def block_skipped(patient, layers):
    """Its numbers are those of outputs that are not added, to the stream that entered the block."""
    def replace(model, n):
        from tiny.sites import LAYOUTS
        block = model.base_model.get_submodule(LAYOUTS[patient.tiny.layout].layers)[n]
        original = block.forward

        def forward(*args, **keywords):
            original(*args, **keywords)  # its steps are written down, and then lost
            return (args[0] if args else keywords["hidden_states"]) + 0
        block.forward = forward
    for n in layers:
        patient.patch(lambda model, n=n: replace(model, n))


@mistake("unknown", "resid_mid", on=pre)
def constant_added(patient, layers):
    wires(patient, layers, add_attn=lambda x, a, read: x + a + 0.25)


@mistake("unknown", "resid_post", on=rewirable)
def noise_added(patient, layers):
    import torch

    def add(mid, m, x, read):
        total = mid + m if not parallel(patient.tiny) else mid + x + m
        return total + 0.05 * torch.randn(total.shape, generator=torch.Generator().manual_seed(3)).to(total.dtype)
    wires(patient, layers, add_mlp=add)


@mistake("unknown", "resid_post", on=pre)
def one_token_not_updated(patient, layers):
    def add(mid, m, x, read):
        m = m.clone()
        m[:, 6] = 0
        return mid + m
    wires(patient, layers, add_mlp=add)


@mistake("unknown", "resid_mid", on=pre)
def stale_buffer(patient, layers):
    """The attention's output of the row before stands where the last one belongs."""
    def add(x, a, read):
        a = a.clone()
        a[:, -1] = a[:, -2]
        return x + a
    wires(patient, layers, add_attn=add)
