"""Dumps as users bring them, out of a patient's values.

  ours     every step, by Mainstem's names
  hf       every module's output and input by its path, and what no module holds by Mainstem's names
  modules  what forward hooks see and nothing else
  layers   every step of two blocks, and what enters them
  blocks   outputs of blocks and of the head
"""

import torch
from safetensors.torch import save_file

import models  # noqa: F401
from patient import order
from tiny.sites import LAYOUTS

KINDS = ("ours", "hf", "modules", "layers", "blocks")
INSIDE = ("q_rot", "k_rot", "scores", "pattern")


def shown(values, tiny, kind, layers):
    """Steps that a dump of the kind holds, by our names: site -> value."""
    sites = dict(values.sites)
    if kind == "ours" or kind == "hf" and not tiny.own_attention:
        if kind == "hf":
            sites = {site: value for site, value in sites.items() if visible_to_hooks(tiny, site) or inside(site)}
        return sites
    if kind in ("hf", "modules"):
        # The projection's input stands for attn_mix.
        sites |= values.merged
        return {site: value for site, value in sites.items()
                if visible_to_hooks(tiny, site) or kind == "hf" and inside(site)}
    if kind == "blocks":
        return {site: value for site, value in sites.items() if site.endswith("resid_post") or site in ("head", "logits")}
    first = min(layers)
    return {site: value for site, value in sites.items()
            if site.startswith((f"blocks.{first}.", f"blocks.{first + 1}."))}


def inside(site):
    return site.endswith(tuple("." + name for name in (*INSIDE, "attn_mix")))


def visible_to_hooks(tiny, site):
    layout, name = LAYOUTS[tiny.layout], site.rpartition(".")[2]
    if not site.startswith("blocks."):
        if name == "token_embed":  # Gemma's module gives them scaled
            return tiny.config.model_type not in ("gemma", "gemma2", "gemma3_text")
        return name in layout.outer or name in layout.head or name in ("embed", "logits")
    names = {part for key in layout.block for part in key.split(",")}
    if name in ("attn_out", "mlp_out") and layout.block[name] == layout.block[name.replace("_out", "_proj")]:
        return False  # a multiplier's result
    return name in names or name == "resid_post"


def tensors(values, tiny, kind, layers, companions):
    """What is written: name -> tensor."""
    sites = shown(values, tiny, kind, layers)
    if kind in ("ours", "layers"):
        named = dict(sites)
        if kind == "layers":
            first = min(layers)
            enters = ("token_embed" if tiny.embeds_only else "embed") if first == 0 else f"blocks.{first - 1}.resid_post"
            named[f"blocks.{first}.resid_pre"] = values.sites[enters]
    elif kind == "blocks":
        blocks = "." + LAYOUTS[tiny.layout].layers
        named = {name: value for name, value in values.modules.items()
                 if f".{name}".rpartition(".")[0].endswith(blocks) or name == "lm_head"}
        if "logits" in sites:
            named["logits"] = sites["logits"]
    else:
        named = dict(values.modules)
        if kind == "hf" and not tiny.own_attention:
            read = LAYOUTS[tiny.layout].block["attn_proj"] + ".input"
            named = {name: value for name, value in named.items() if not name.endswith(read)}
        if kind == "hf":
            named |= {site: value for site, value in sites.items()
                      if inside(site) and not (tiny.own_attention and site.endswith("attn_mix"))}
        if "logits" in sites:
            named["logits"] = sites["logits"]
    return named | companions


def write(path, values, tiny, kind, layers, companions):
    named = tensors(values, tiny, kind, layers, companions)
    save_file({name: value.contiguous().clone() for name, value in named.items()}, path)


def compared(value, site, right, mask):
    """The part that means something: rows of tokens, and scores of keys that may be seen."""
    name = site.rpartition(".")[2]
    if name in ("scores", "pattern"):
        if name == "scores" and right is not None:
            value = torch.where(right > 0, value, torch.zeros_like(value))
        return value if mask is None else value * mask[:, None, :, None]
    if mask is None:
        return value
    return value * mask.view(*mask.shape, *[1] * (value.dim() - 2))


def first_difference(right, wrong, tiny, kind, layers, mask=None):
    """The first step that both hold and that is not the same bits, and its relative difference."""
    ours, theirs = shown(right, tiny, kind, layers), shown(wrong, tiny, kind, layers)
    for site in sorted(theirs, key=order):
        if site not in ours:
            continue
        pattern = right.sites.get(site.replace("scores", "pattern")) if site.endswith("scores") else None
        a, b = (compared(value, site, pattern, mask) for value in (ours[site], theirs[site]))
        if not torch.equal(a, b):
            a, b = a.double(), b.double()
            return site, float((a - b).norm() / a.norm())
    return None, 0.0
