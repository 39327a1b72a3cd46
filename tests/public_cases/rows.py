"""What a public case is: how its dump is made, and what must be said of it."""

import json
import pathlib
from dataclasses import dataclass, field

import torch
from safetensors.torch import save_file

import sizes  # puts the kit on the path
import more
import packed  # noqa: F401  (its models and mistakes)
from cases import Case, right_values
import dump
import models
import texts
from passes import InPasses
from patient import Patient

FAR = 1e-4  # of a step that is another one, beside passes that add in another order


@dataclass
class Made:
    """`first`: the step that must be named first; None: none is wrong."""
    dump: pathlib.Path
    first: str | None
    layers: tuple = ()
    arguments: tuple = ()


@dataclass
class Row:
    id: str
    report: str
    did: str                 # what the user's code did
    model: str               # the tiny model's name
    make: object             # (folder) -> Made
    cause: str = ""
    also: tuple = ()
    status: str = "proved"   # or unknown, match, refused, incomparable
    says: dict = field(default_factory=dict)  # part of the report -> a text that it holds
    dtype: str = "f32"
    name: str = ""

    @property
    def family(self):
        return sizes.tiny(self.model).make_config().model_type


ROWS = []
MISTAKES = more.all_mistakes()


def add(row):
    row.name = f"{row.id}/{row.model}" + ("" if row.dtype == "f32" else "/" + row.dtype)
    while row.name in {each.name for each in ROWS}:
        row.name += "+"
    ROWS.append(row)


def kit(id, report, did, mistake, model, dtype="f32", kind="hf", layers=None, first=None, **more_words):
    """A mistake of the kit, or of more.py, in every block where it can be made. `first` where the first other value is
    none that means anything."""
    found, tiny = MISTAKES[mistake], sizes.tiny(model)
    assert found.on(tiny), (mistake, model)

    def make(folder):
        case = Case(found, tiny, dtype, kind, Case.blocks_of(found, tiny) if layers is None else layers)
        path = folder / "dump.safetensors"
        found_first, _ = case.write(path)
        assert found_first is not None, "the dump shows nothing of it"
        return Made(path, first or found_first, case.layers)
    add(Row(id, report, did, model, make, **(dict(cause=found.cause, also=found.also, dtype=dtype) | more_words)))


def sound(id, report, did, mistake, model, dtype="f32", **more_words):
    """Of which nothing may be said, though the values be others than those of the right code in the same type."""
    found, tiny = MISTAKES[mistake], sizes.tiny(model)
    assert found.on(tiny), (mistake, model)

    def make(folder):
        case = Case(found, tiny, dtype, "hf", Case.blocks_of(found, tiny))
        wrong, right = case.values(), right_values(model, dtype, found.padded)
        same = all(torch.equal(value, wrong.sites[site]) for site, value in right.sites.items() if site in wrong.sites)
        assert dtype == "f32" or not same, "nothing differs"
        path = folder / "dump.safetensors"
        dump.write(path, wrong, tiny, "hf", case.layers, case.companions)
        return Made(path, None)
    add(Row(id, report, did, model, make, status="match", dtype=dtype, **more_words))


def tokens(id, report, did, pair, model="gemma", **more_words):
    """The dump names the right ids and embeds others."""
    def make(folder):
        right, wrong = pair
        patient = Patient(sizes.tiny(model))
        patient.claimed, patient.tokens = [right], [wrong]
        path = folder / "dump.safetensors"
        dump.write(path, patient.run(), patient.tiny, "hf", (), patient.companions())
        return Made(path, "token_embed" if patient.tiny.embeds_only else "embed")
    add(Row(id, report, did, model, make, cause="input.tokens", **more_words))


def own_tokens(id, report, did, pair, model="llama", **more_words):
    """The dump names the ids it embeds; the user gives the right ones beside it."""
    def make(folder):
        right, wrong = pair
        patient = Patient(sizes.tiny(model))
        patient.tokens = [wrong]
        path = folder / "dump.safetensors"
        dump.write(path, patient.run(), patient.tiny, "hf", (), patient.companions())
        return Made(path, None, arguments=("--tokens", ",".join(map(str, right))))
    add(Row(id, report, did, model, make, status="incomparable", **more_words))


def passes(id, report, did, cuts, first, model="llama", positions=None, stage=None, **more_words):
    """Several passes with a cache. `first`: the step's name in the first block."""
    def make(folder):
        tiny = sizes.tiny(model)
        patient = InPasses(tiny, cuts, positions=positions)
        if stage:
            stage(patient)
        values, right = patient.run(), Patient(tiny).run()
        differ = [site for site in sorted(values.sites, key=dump.order) if far(site, values.sites[site], right)]
        assert differ and differ[0] == f"blocks.0.{first}", differ[:3]
        path = folder / "dump.safetensors"
        dump.write(path, values, tiny, "hf", tuple(patient.layers), patient.companions())
        return Made(path, differ[0], tuple(patient.layers))
    add(Row(id, report, did, model, make, **more_words))


def far(site, value, right):
    pattern = right.sites.get(site.replace("scores", "pattern")) if site.endswith("scores") else None
    a, b = (dump.compared(each, site, pattern, None).double() for each in (right.sites[site], value))
    return float((a - b).norm()) > FAR * float(a.norm())


def states(id, report, did, normed, model="llama", **more_words):
    """A list of hidden states whose last is the stream after the last norm, or before it: the step that it is taken for."""
    last = "final_norm" if normed else f"blocks.{sizes.tiny(model).changes['num_hidden_layers'] - 1}.resid_post"

    def make(folder):
        patient = Patient(sizes.tiny(model))
        net = patient.build()
        with torch.no_grad():
            out = net(**patient.inputs(), output_hidden_states=True)
            held = list(out.hidden_states)
            if not normed:
                hook = net.model.norm.register_forward_pre_hook(lambda _, args: held.__setitem__(-1, args[0].clone()))
                net(**patient.inputs())
                hook.remove()
        named = {f"hidden_states.{n}": value.contiguous() for n, value in enumerate(held)}
        path = folder / "dump.safetensors"
        save_file(named | {"logits": out.logits} | patient.companions(), path)
        return Made(path, None)
    add(Row(id, report, did, model, make, status="match", says={"sites": last}, **more_words))


def refused(id, report, did, change, model, error):
    """The files contradict each other: loading ends with an error that says how."""
    def make(folder):
        out = folder / "model"
        sizes.tiny(model).make_model().save_pretrained(out)
        change(out)
        path = folder / "dump.safetensors"
        save_file({"tokens": torch.tensor([models.TOKENS])}, path)
        return Made(path, None, arguments=("MODEL", str(out)))
    add(Row(id, report, did, model, make, status="refused", says={"error": error}))


def change_config(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return change


def pair(*rules, text=texts.TEXT):
    return texts.both(text, *rules)
