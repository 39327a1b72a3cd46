"""One pair of a right model and a wrong dump, and a seeded sample of them."""

import functools
import random
from dataclasses import dataclass

import torch

import dump
import models
from patient import Patient

TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
TYPE_WEIGHTS = {"f32": 5, "bf16": 3, "f16": 1}
KIND_WEIGHTS = {"ours": 3, "hf": 3, "modules": 3, "layers": 2, "blocks": 1}


@functools.lru_cache(maxsize=64)
def right_values(name, dtype, padded):
    return Patient(models.BY_NAME[name], TYPES[dtype], padded).run()


@dataclass
class Case:
    mistake: object
    tiny: object
    dtype: str = "f32"
    kind: str = "ours"
    layers: tuple = ()

    @property
    def name(self):
        blocks = "-".join(map(str, self.layers)) or "outside"
        return f"{self.tiny.name}/{self.mistake.name}/{self.dtype}/{self.kind}/{blocks}"

    def patient(self):
        return Patient(self.tiny, TYPES[self.dtype], self.mistake.padded)

    def values(self):
        """Of the wrong model. What else the dump says stays in `companions`."""
        patient = self.patient()
        self.mistake.apply(patient, list(self.layers))
        values = patient.run()
        self.companions = patient.companions()
        return values

    def mask(self):
        return models.padded(self.patient().tokens)[1] if self.mistake.padded else None

    def write(self, path):
        """The dump; returns its first wrong step and by how much that differs."""
        wrong = self.values()
        dump.write(path, wrong, self.tiny, self.kind, self.layers, self.companions)
        if self.mistake.cause == "precision.overflow":
            shown = dump.shown(wrong, self.tiny, self.kind, self.layers)
            return next(site for site in sorted(shown, key=dump.order) if not shown[site].isfinite().all()), 1.0
        right = right_values(self.tiny.name, self.dtype, self.mistake.padded)
        return dump.first_difference(right, wrong, self.tiny, self.kind, self.layers, self.mask())

    @staticmethod
    def blocks_of(mistake, tiny):
        return () if mistake.where is None else tuple(mistake.where(Patient(tiny)))

    @staticmethod
    def widest(mistake, tiny):
        """All steps, in every block where it can be made."""
        return Case(mistake, tiny, mistake.dtypes[0], "ours", Case.blocks_of(mistake, tiny))


def pick(generator, weights, allowed):
    names = [name for name in weights if name in allowed]
    return generator.choices(names, [weights[name] for name in names])[0]


def draw(generator, mistake, used):
    """A case of the mistake, in the family that had the fewest so far."""
    fitting = [tiny for tiny in models.MODELS if mistake.fits(tiny)]
    generator.shuffle(fitting)
    tiny = min(fitting, key=lambda each: used.get(each.name, 0))
    used[tiny.name] = used.get(tiny.name, 0) + 1
    blocks = Case.blocks_of(mistake, tiny)
    if blocks and not mistake.at_once and generator.random() < 0.6:
        blocks = tuple(sorted(generator.sample(blocks, generator.choice((1, 1, min(2, len(blocks)))))))
    allowed = set(mistake.dumps or dump.KINDS) - (set() if blocks else {"layers"})
    if mistake.padded:
        allowed &= {"ours", "hf", "modules"}
    kind = pick(generator, KIND_WEIGHTS, allowed)
    dtype = pick(generator, TYPE_WEIGHTS, mistake.dtypes)
    return Case(mistake, tiny, dtype, kind, blocks)


def sample(table, count, seed):
    """Every mistake once, then again, in random order; no pair twice."""
    generator, used, cases = random.Random(seed), {}, {}
    while len(cases) < count:
        order = list(table)
        generator.shuffle(order)
        for mistake in order:
            case = draw(generator, mistake, used)
            if len(cases) < count:
                cases.setdefault(case.name, case)
    return list(cases.values())
