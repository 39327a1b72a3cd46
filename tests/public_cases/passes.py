"""A text that goes through the model in several passes with a cache; one dump of all of them.

Rows of the passes follow each other as in a single pass; patterns and scores of early passes end where their
keys did, zeros behind.
"""

import torch
from transformers import DynamicCache

import sizes  # noqa: F401  (puts the kit on the path)
from patient import ModuleRecorder, Patient, PatientRecorder, Values
from tiny.sites import LAYOUTS, sizes_of

SQUARE = ("scores", "pattern")


class InPasses(Patient):
    """`cuts` are the tokens of each pass. `positions`: (first, count) -> those the wrong code uses; None: the right ones."""

    def __init__(self, tiny, cuts, dtype=torch.float32, positions=None):
        super().__init__(tiny, dtype)
        assert sum(cuts) == len(self.tokens[0])
        self.cuts, self.positions = cuts, positions

    @torch.no_grad()
    def run(self):
        torch.manual_seed(5)
        model = self.build()
        layout = LAYOUTS[self.tiny.layout]
        ids = torch.tensor(self.tokens)
        cache, first, passes = DynamicCache(config=model.config), 0, []
        for count in self.cuts:
            chunk = ids[:, first:first + count]
            words = {}
            if self.positions:
                words["position_ids"] = torch.tensor([self.positions(first, count)])
            sizes_here = sizes_of(model.config, count)
            with ModuleRecorder(model, layout) as raw, PatientRecorder(self, model, layout, sizes_here) as recorder:
                out = model(input_ids=chunk, cache=cache, use_cache=True, **words)
            recorder.finish(chunk, out)
            for name, value in recorder.values.items():
                if name.endswith(".k_rot"):  # attention reads all keys
                    recorder.values[name] = value[:, -count:]
            passes.append((recorder.values, raw.values, recorder.merged))
            first += count
        sites, modules, merged = ({name: self.joined(name, [each[which][name] for each in passes])
                                   for name in passes[0][which]} for which in range(3))
        return Values(self.without_second_names(sites), modules, merged)

    def joined(self, name, parts):
        if name.rpartition(".")[2] not in SQUARE:
            return torch.cat(parts, 1)
        total = sum(self.cuts)
        return torch.cat([torch.nn.functional.pad(part, (0, total - part.shape[-1])) for part in parts], 2)


def anchored_at_the_first_key(seen):
    """Row i of a pass sees the keys up to i, however many are cached."""
    rows, keys = seen.shape[-2:]
    return torch.ones(rows, keys, dtype=torch.bool).tril()[None, None].expand_as(seen)
