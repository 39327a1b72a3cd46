"""A transformers model in which mistakes can be made, and its values at every step.

Four places to make them: the config (the model is built anew with the same weights), weights, the
forward of single modules, and what no module holds: the attention of each block (Stages), its rotation, and
the sums of the stream (Wires), which are written out here and called in place of transformers' own.
"""

import copy
import inspect
from dataclasses import dataclass

import torch

import models  # noqa: F401  (puts the generators on the path)
from tiny.cases import SLIDING
from tiny.sites import LAYOUTS, Recorder, sizes_of

OUTER = ("tokens", "token_embed", "pos_embed", "type_embed", "embed_sum", "embed")
BLOCK = ("resid_pre", "attn_norm", "q", "k", "v", "q_norm", "k_norm", "q_rot", "k_rot", "scores", "pattern", "attn_mix",
         "attn_proj", "attn_out", "attn_sum", "resid_mid", "mlp_norm", "mlp_gate", "mlp_value", "mlp_pre", "mlp_act",
         "mlp_hidden", "mlp_proj", "mlp_out", "mlp_sum", "resid_post")
HEAD = ("final_norm", "head_proj", "head_act", "head_norm", "head", "logits")
# These take the softmax in the activation's type (families' eager functions in transformers 5.24).
SOFTMAX_AS_IS = ("gpt2", "bert")


def order(site):
    """Sorts sites as a pass computes them."""
    if site.startswith("blocks."):
        _, block, name = site.split(".")
        return (1, int(block), BLOCK.index(name))
    return (0, 0, OUTER.index(site)) if site in OUTER else (2, 0, HEAD.index(site))


@dataclass
class Stages:
    """What one block's attention does otherwise; None: as it should. Tensors are [B,H,T,E] and [B,H,T,S]."""
    rotate: callable = None   # original, q, k, cos, sin -> q, k
    query_key: callable = None  # q, k -> q, k, behind the rotation
    wide: callable = None     # key or value [B,K,S,E], heads -> [B,H,S,E]
    scale: callable = None    # scale -> scale
    cap: callable = None      # scores -> scores, in place of the soft cap
    scores: callable = None   # scores -> scores
    visible: callable = None  # [B,1,T,S] of bool -> the same
    masked: callable = None   # scores, mask -> scores
    pattern: callable = None  # pattern -> pattern
    value: callable = None    # v [B,K,S,E] -> the same
    mix: callable = None      # [B,T,H,E] -> the same
    merge: callable = None    # [B,T,H,E] -> the same, after it was written down


@dataclass
class Wires:
    """The sums of one block; x enters the block, mid the MLP."""
    norm1: callable = None     # block, x -> what attention reads
    add_attn: callable = None  # x, a, attention's input -> mid
    norm2: callable = None     # block, mid, x -> what the MLP reads
    add_mlp: callable = None   # mid, m, the MLP's input -> out
    post1: callable = None     # block, a -> a (sandwich, output)
    post2: callable = None


class Patient:
    """`tokens` [B][T] are what the model gets, `claimed` what the dump says it got."""

    def __init__(self, tiny, dtype=torch.float32, padded=False):
        self.tiny, self.dtype, self.padded = tiny, dtype, padded
        self.config = copy.deepcopy(tiny.make_config())  # whose dicts the table of models holds
        right = tiny.make_model()
        self.weights = {name: value.clone() for name, value in right.state_dict().items()}
        self.tokens = [models.TOKENS]
        if padded:
            self.tokens = [models.TOKENS[::-1][:models.SHORT], models.TOKENS]
        self.claimed = None      # where the dump says other ids
        self.omit = set()        # names of steps that the wrong code does not have
        self.key_mask = True     # padding is hidden
        self.shift_positions = 0
        self.token_types = None
        self.layers = range(self.config.num_hidden_layers)
        self.stages = {n: Stages() for n in range(self.config.num_hidden_layers)}
        self.wires = {}          # block -> Wires
        self.patches = []        # functions of the model, called when it has been built
        self.before, self.after = [], []  # around the pass

    # ------------------------------------------------------------------ for mistakes

    def patch(self, function):
        """function(model), once its weights are in place and in their type."""
        self.patches.append(function)

    def forward_of(self, path, make):
        """make(module, original forward) -> forward, of a module by its path from the base model."""
        def apply(model):
            module = find(model, path)
            module.forward = make(module, module.forward)
        self.patch(apply)

    def block_path(self, n, path=""):
        at = f"{LAYOUTS[self.tiny.layout].layers}.{n}"
        return f"{at}.{path}" if path else at

    def weight_name(self, path, what="weight"):
        """Of a module by its path from the base model, in the state dict of the whole."""
        names = [name for name in self.weights if name.endswith(f"{path}.{what}")]
        assert len(names) == 1, (path, what, names)
        return names[0]

    def wire(self, n):
        return self.wires.setdefault(n, Wires())

    # ------------------------------------------------------------------ running

    def build(self):
        config = copy.deepcopy(self.config)
        model = self.tiny.auto_class().from_config(config).eval()
        missing, unexpected = model.load_state_dict(self.weights, strict=False)
        assert not unexpected and all("lm_head" in name for name in missing), (missing, unexpected)
        buffers = {name: value.clone() for name, value in model.named_buffers() if "inv_freq" in name}
        model = model.to(self.dtype)
        for name, value in buffers.items():  # rotary stays in float32, as from_pretrained has it
            find(model, name.rpartition(".")[0], whole=True)._buffers[name.rpartition(".")[2]] = value
        for function in self.patches:
            function(model)
        return model

    def inputs(self):
        if not self.padded:
            inputs = {"input_ids": torch.tensor(self.tokens)}
        else:
            ids, mask, positions = models.padded(self.tokens)
            inputs = {"input_ids": ids, "position_ids": positions, "attention_mask": mask}
            if not self.key_mask:
                inputs["attention_mask"] = torch.ones_like(mask)
        if self.shift_positions:
            positions = inputs.get("position_ids", torch.arange(inputs["input_ids"].shape[1])[None])
            inputs["position_ids"] = positions + self.shift_positions
        if self.token_types is not None:
            inputs["token_type_ids"] = torch.tensor(self.token_types)
        return inputs

    def companions(self):
        if not self.padded:
            return {"tokens": torch.tensor(self.claimed or self.tokens)}
        ids, mask, positions = models.padded(self.claimed or self.tokens)
        return {"tokens": ids, "key_mask": mask, "positions": positions}

    @torch.no_grad()
    def run(self):
        """One pass: values by our names, and by those of modules."""
        torch.manual_seed(5)
        model = self.build()
        inputs = self.inputs()
        sizes = sizes_of(model.config, inputs["input_ids"].shape[1])
        layout = LAYOUTS[self.tiny.layout]
        with ModuleRecorder(model, layout) as raw, PatientRecorder(self, model, layout, sizes) as recorder:
            self.install_wires(model)
            for function in self.before:
                function(model)
            bert = self.tiny.layout == "bert"
            out = model(**inputs) if bert else model(**inputs, use_cache=False)
        recorder.finish(inputs["input_ids"], out)
        sites = {site: value for site, value in recorder.values.items() if site.rpartition(".")[2] not in self.omit}
        gone = {raw_name for site in self.omit for raw_name in module_names(model, self.tiny, site)}
        modules = {name: value for name, value in raw.values.items() if name not in gone}
        for function in self.after:
            function(sites, modules)
        return Values(self.without_second_names(sites), modules, recorder.merged)

    def without_second_names(self, sites):
        """One name for each value, the contract's earlier one."""
        kept = {}
        multiplied = getattr(self.config, "residual_multiplier", 1) != 1  # of the wrong code
        block = LAYOUTS[self.tiny.layout].block
        for site in sorted(sites, key=order):
            at, _, name = site.rpartition(".")
            if name == "attn_out" and not multiplied and block["attn_out"] == block["attn_proj"]:
                continue
            if name == "mlp_out" and not multiplied and block["mlp_out"] == block["mlp_proj"]:
                continue
            if name == "mlp_hidden" and not self.tiny.gated:
                continue
            if name == "resid_pre":
                continue
            if name in ("q_rot", "k_rot") and not rotated(self.tiny, int(at.split(".")[1])):
                continue
            if name == "embed" and self.tiny.embeds_only:
                kept["token_embed"] = sites[site]  # nothing stands between the two
                continue
            if name == "logits" and not head_changes(self.tiny.make_config()):
                continue
            kept[site] = sites[site]
        return kept

    def install_wires(self, model):
        blocks = model.base_model.get_submodule(LAYOUTS[self.tiny.layout].layers)
        for n, wires in self.wires.items():
            block = blocks[n]
            block.forward = rewired(self.tiny, block, wires)


@dataclass
class Values:
    sites: dict    # by our names
    modules: dict  # by those of transformers' modules
    merged: dict   # attn_mix as the output projection reads it


def rotated(tiny, n):
    """Cohere2's full blocks have no positions."""
    return tiny.name != "cohere2" or tiny.changes["layer_types"][n] == SLIDING


def head_changes(config):
    return (getattr(config, "final_logit_softcapping", None) or getattr(config, "logits_scaling", 1) != 1
            or getattr(config, "logit_scale", 1) != 1)


def find(model, path, whole=False):
    root = model if whole else model.base_model
    try:
        return root.get_submodule(path)
    except AttributeError:
        return model.get_submodule(path)


def rewired(tiny, block, wires):
    """The block's forward from its modules, with the sums that `wires` changes."""
    layout = LAYOUTS[tiny.layout]
    signature = inspect.signature(block.forward)
    factor = getattr(block, "residual_multiplier", 1)

    def times(value):
        return value * factor if factor != 1 else value

    def module(path):
        return block.get_submodule(path)

    def mlp(value):
        if tiny.layout != "opt":
            return block.mlp(value)
        flat = value.reshape(-1, value.shape[-1])
        return block.fc2(block.activation_fn(block.fc1(flat))).view(value.shape)

    def sum_of(mid, m, a, x):
        return {"gpt_neox": lambda: m + a + x, "phi": lambda: a + m + x, "falcon": lambda: x + (m + a)}.get(
            tiny.layout, lambda: x + a + m)()

    def forward(*args, **keywords):
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        named = dict(bound.arguments)
        named |= named.pop("kwargs", {})
        x = named.pop("hidden_states")
        before = tiny.wiring not in ("output",)
        read = wires.norm1(block, x) if wires.norm1 else (module(tiny.norm1)(x) if before else x)
        a = module(layout.attention)(hidden_states=read, **named)[0]
        if wires.post1:
            a = wires.post1(block, a)
        elif tiny.wiring == "sandwich":
            a = block.post_attention_layernorm(a)
        elif tiny.wiring == "output":
            a = module(tiny.norm1)(a)
        if tiny.wiring.startswith("parallel"):
            read2 = wires.norm2(block, x + a, x) if wires.norm2 else (
                module(tiny.norm2)(x) if tiny.norm2 else read)
            m = mlp(read2)
            return wires.add_mlp(x, m, a, read) if wires.add_mlp else sum_of(None, m, a, x)
        mid = wires.add_attn(x, times(a), read) if wires.add_attn else x + times(a)
        second = "pre_feedforward_layernorm" if tiny.wiring == "sandwich" else tiny.norm2
        read2 = wires.norm2(block, mid, x) if wires.norm2 else (module(second)(mid) if before else mid)
        m = mlp(read2)
        if wires.post2:
            m = wires.post2(block, m)
        elif tiny.wiring == "sandwich":
            m = block.post_feedforward_layernorm(m)
        elif tiny.wiring == "output":
            m = module(tiny.norm2)(m)
        return wires.add_mlp(mid, times(m), x, read2) if wires.add_mlp else mid + times(m)

    return forward


class PatientRecorder(Recorder):
    """Values by site; its attention and rotation are those of the patient's stages."""

    def __init__(self, patient, model, layout, sizes):
        super().__init__(model, layout, sizes)
        self.patient, self.model, self.current = patient, model, None
        for module, at in self.attentions.items():
            n = int(at.split(".")[1])
            self.handles.append(module.register_forward_pre_hook(self.enter_attention(n), with_kwargs=True))

    def enter_attention(self, n):
        def hook(*_):
            self.current = n
        return hook

    def __enter__(self):
        super().__enter__()  # its eager() or rotary() stands in for the module's
        self.rotate = None
        if hasattr(self.module, "apply_rotary_pos_emb") and self.patched != "apply_rotary_pos_emb":
            self.rotate = self.module.apply_rotary_pos_emb
            self.module.apply_rotary_pos_emb = self.turn
        return self

    def __exit__(self, *_):
        super().__exit__()
        if self.rotate:
            self.module.apply_rotary_pos_emb = self.rotate

    def turn(self, query, key, cos, sin, *args, **keywords):
        stage = self.patient.stages[self.current]
        if stage.rotate:
            return stage.rotate(self.rotate, query, key, cos, sin)
        return self.rotate(query, key, cos, sin, *args, **keywords)

    def rotary(self, query, key, cos, sin, *args, **keywords):
        """Falcon's, whose attention shows nothing else."""
        stage = self.patient.stages[self.current]
        at = f"blocks.{self.current}."
        if stage.rotate:
            query, key = stage.rotate(self.original, query, key, cos, sin)
        else:
            query, key = self.original(query, key, cos, sin, *args, **keywords)
        self.keep(at + "q_rot", query.transpose(1, 2))
        self.keep(at + "k_rot", key[:, :: key.shape[1] // self.sizes.kv].transpose(1, 2))
        return query, key

    def eager(self, module, query, key, value, mask, *args, **keywords):
        n = self.current
        stage, at = self.patient.stages[n], f"blocks.{n}."
        if stage.query_key:
            query, key = stage.query_key(query, key)
        if stage.value:
            value = stage.value(value)
        if self.rotates:
            self.keep(at + "q_rot", query.transpose(1, 2))
            self.keep(at + "k_rot", key.transpose(1, 2))
        scale = args[0] if args else keywords.get("scaling")
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        if stage.scale:
            scale = stage.scale(scale)
        heads = self.sizes.heads
        spread = stage.wide or (lambda kept, heads: kept.repeat_interleave(heads // kept.shape[1], 1))
        wide_key, wide_value = spread(key, heads), spread(value, heads)
        scores = torch.matmul(query, wide_key.transpose(2, 3)) * scale
        cap = keywords.get("softcap")
        if stage.cap:
            scores = stage.cap(scores)
        elif cap is not None:
            scores = torch.tanh(scores / cap) * cap
        if stage.scores:
            scores = stage.scores(scores)
        self.keep(at + "scores", scores)
        if stage.visible:
            mask = self.changed_mask(mask, stage.visible, scores)
        if stage.masked:
            scores = stage.masked(scores, mask)
        elif mask is not None:
            scores = scores + mask
        kind = self.config.model_type
        softmax_type = None if kind in SOFTMAX_AS_IS else torch.float32
        pattern = torch.softmax(scores, -1, dtype=softmax_type).to(query.dtype)
        if stage.pattern:
            pattern = stage.pattern(pattern)
        self.keep(at + "pattern", pattern)
        out = torch.matmul(pattern, wide_value).transpose(1, 2).contiguous()
        if stage.mix:
            out = stage.mix(out)
        self.mixed[at + "attn_mix"] = out.clone()
        return (stage.merge(out) if stage.merge else out), pattern

    @staticmethod
    def changed_mask(mask, visible, scores):
        lowest = torch.finfo(scores.dtype).min
        seen = torch.ones_like(scores[:, :1], dtype=torch.bool) if mask is None else mask[:, :1] == 0
        return torch.zeros_like(scores[:, :1]).masked_fill(~visible(seen), lowest)

    def finish(self, ids, out):
        # What the projection reads is the same but where heads are merged wrongly.
        self.merged = {site: self.values[site] for site in self.mixed}
        self.values |= self.mixed
        table = self.table
        self.values["token_embed"] = torch.nn.functional.embedding(ids, table).detach()
        self.values.setdefault("embed", self.values["blocks.0.resid_pre"])
        factor = getattr(self.config, "residual_multiplier", 1)
        for name in list(self.values):
            if factor != 1 and name.endswith(("attn_proj", "mlp_proj")):
                self.values[name.replace("_proj", "_out")] = self.values[name] * factor
        if hasattr(out, "logits"):
            self.values["logits"] = out.logits
            self.values.setdefault("head", out.logits)

    mixed = None

    def keep(self, site, value):
        if self.mixed is None:
            self.mixed = {}
        super().keep(site, value)


class ModuleRecorder:
    """What a user's forward hooks see: outputs of modules by their paths, and as PATH.input the inputs that are a step's
    value by the layout. Of a module that runs twice, the first run."""

    def __init__(self, model, layout):
        self.values, self.handles = {}, []
        wanted = tuple("." + path[1:] for path in layout.block.values() if isinstance(path, str) and path[0] == "<")
        for name, module in model.named_modules():
            if not name or "rotary" in name or "dropout" in name.lower():
                continue
            block = name.rpartition(".")[2].isdigit()
            self.handles.append(module.register_forward_hook(self.hook(name, block or name.endswith(wanted)),
                                                             with_kwargs=True))

    def hook(self, name, of_input):
        def keep(_, args, keywords, out):
            out = out[0] if isinstance(out, tuple) else out
            given = args[0] if args else keywords.get("hidden_states")
            if torch.is_tensor(out) and name not in self.values:
                self.values[name] = out.detach().contiguous().clone()
            if of_input and torch.is_tensor(given) and name + ".input" not in self.values:
                self.values[name + ".input"] = given.detach().contiguous().clone()
        return keep

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()


def module_names(model, tiny, site):
    """Names of a step's value among the modules' of every block, and of what is computed from it alone."""
    path = LAYOUTS[tiny.layout].block.get(site)
    if not isinstance(path, str):
        return []
    base = "" if model.base_model is model else model.base_model_prefix + "."
    layers = LAYOUTS[tiny.layout].layers
    name = path[1:] + ".input" if path.startswith("<") else path
    return [f"{base}{layers}.{n}.{name}" for n in range(model.config.num_hidden_layers)]
