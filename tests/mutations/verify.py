#!/usr/bin/env python3
"""The kit against itself, without Mainstem: every mistake in every family that it fits.

    python tests/mutations/verify.py [--case GLOB]

For each: the right and the wrong model run on the same tokens; the first step in order that is not the same bits must
be the one that the table declares, and must differ by more than float32 rounds. Before that, the blocks that the kit
writes out in place of transformers' own must give the same bits as those.
"""

import argparse
import fnmatch
import sys

import torch
import transformers

import dump
import mistakes
import models
from cases import TYPES, Case, right_values
from patient import Patient

FAMILIES = 12
LEAST = 3e-7


def check_wiring(tiny):
    """Rewired blocks without a change."""
    plain = Patient(tiny).run()
    patient = Patient(tiny)
    for n in patient.layers:
        patient.wire(n)
    rewired = patient.run()
    wrong = [site for site, value in plain.sites.items() if not torch.equal(value, rewired.sites[site])]
    return [f"{tiny.name}: rewired, {wrong[0]} is another"] if wrong else []


def check_case(case):
    wrong = case.values()
    right = right_values(case.tiny.name, "f32" if case.mistake.cause == "precision.overflow" else case.dtype,
                         case.mistake.padded)
    declared = case.mistake.first(case.tiny, case.layers)
    if case.mistake.cause == "precision.overflow":
        found = next(site for site in sorted(wrong.sites, key=dump.order) if not wrong.sites[site].isfinite().all())
        size = 1.0
    else:
        found, size = dump.first_difference(right, wrong, case.tiny, "ours", case.layers, case.mask())
    if found != declared:
        return f"{case.name}: {found} differs first ({size:.1e}), declared is {declared}"
    if size == size and size < LEAST and case.dtype == "f32":
        return f"{case.name}: {found} differs by {size:.1e} only"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    table, failures, count = mistakes.load(), [], 0
    for tiny in models.MODELS:
        if tiny.wiring != "post" and not tiny.own_attention:
            failures += check_wiring(tiny)
    for mistake in table:
        fitting = [tiny for tiny in models.MODELS if mistake.fits(tiny)]
        if not fitting:
            failures.append(f"{mistake.name}: fits no family")
        for tiny in fitting:
            case = Case.widest(mistake, tiny)
            if not fnmatch.fnmatch(case.name, arguments.case):
                continue
            count += 1
            try:
                failure = check_case(case)
            except Exception as error:  # a broken mistake is a failure of the kit
                failure = f"{case.name}: {type(error).__name__}: {error}"
            if failure:
                print("WRONG", failure, flush=True)
                failures.append(failure)
    assert set(TYPES) == {"f32", "bf16", "f16"}
    causes = {mistake.cause for mistake in table} - {"unknown"}
    print(f"{len(table)} mistakes, {len(causes)} causes, {len(models.MODELS)} models; {count} pairs, {len(failures)} wrong")
    enough = arguments.case != "*" or len(causes) >= 40 and len(models.MODELS) >= FAMILIES
    sys.exit(1 if failures or not count or not enough else 0)


if __name__ == "__main__":
    main()
