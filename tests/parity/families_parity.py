#!/usr/bin/env python3
"""Tiny random models of every family from transformers, compared with mainstem at every step.

    python tests/parity/families_parity.py --mainstem build/dev/src/mainstem [CASE...]

The models are those of tests/generators/tiny: each form of a family that has rules of its own. For each:
  every step of `trace` in float32 and in double, transformers' float32 islands being made float64
  the same bits from shards with an index, and from a file in bfloat16
  the config's older words, read by both sides: rope_theta and rope_scaling, names that the class accepts
  a file that the class without a head wrote, for which every step before the head is compared
  every step of a batch of two sequences of different length, padded on the left on both sides
  greedy text of `run`, against transformers' generate: prefill, then one token at a time

Exit code 1 if anything differs. Needs torch==2.13.0, transformers==5.24.0, safetensors==0.8.0.
"""

import argparse
import json
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

from steps import BOUNDS, COMPANIONS, Mainstem, Tally, ids_words, unpadded
from tiny import old_words
from tiny.cases import CASES, ENCODER_TOKENS, TOKENS, Case, is_decoder, padded

GENERATED = 12  # past the original context of longrope too


def saved(case, model, folder, **keywords):
    if isinstance(case, Case):
        model.save_pretrained(folder, **keywords)
    else:
        case.save(model, folder)
    return folder


def trace(case, mainstem, folder, tokens, compute, encoder_tokens=None):
    """Encoder-decoders: the tokens are the decoder's, as in Case.record()."""
    if not case.encoder:
        return mainstem.trace(folder, tokens, compute)
    return mainstem.trace(folder, encoder_tokens or ENCODER_TOKENS, compute, "*",
                          *ids_words("--decoder-tokens", tokens))


def check_every_step(case, model, mainstem, folder, tally):
    for compute, bound in BOUNDS.items():
        record = case.record if compute == "f32" else case.record_in_double
        for length in case_lengths(case):
            tokens = TOKENS[:length]
            got = trace(case, mainstem, folder, tokens, compute)
            tally.compare(f"{case.name}, {length} tokens, {compute}", record(model, tokens), got, bound)


def case_lengths(case):
    """A short sequence too where positions go by the length."""
    return (len(TOKENS), 7) if case.name == "phi3_longrope" else (len(TOKENS),)


def check_storage(case, model, mainstem, folder, work, tally):
    """Shards, and weights in bfloat16 (which holds them exactly)."""
    want = trace(case, mainstem, folder, TOKENS, "f32")
    if isinstance(case, Case):
        shards = saved(case, model, work / "shards", max_shard_size="5KB")
        if not (shards / "model.safetensors.index.json").exists():
            tally.fail(f"{case.name}: no shards were written")
        tally.equal(f"{case.name}, shards", want, trace(case, mainstem, shards, TOKENS, "f32"))
    half = work / "bf16"
    half.mkdir()
    shutil.copy(folder / "config.json", half)
    weights = load_file(folder / "model.safetensors")
    save_file({name: value.bfloat16() for name, value in weights.items()}, half / "model.safetensors",
              metadata={"format": "pt"})
    tally.equal(f"{case.name}, bf16", want, trace(case, mainstem, half, TOKENS, "f32"))


def check_old_words(case, model, mainstem, folder, work, tally):
    """Both sides read the older config beside the same weights."""
    config = json.loads((folder / "config.json").read_text())
    for kind, old in old_words.variants(config):
        path = work / kind
        path.mkdir()
        (path / "config.json").write_text(json.dumps(old))
        shutil.copy(folder / "model.safetensors", path)
        read = case.auto_class().from_pretrained(path, attn_implementation=case.make_config()._attn_implementation)
        got = trace(case, mainstem, path, TOKENS, "f32")
        tally.compare(f"{case.name}, {kind}", case.record(read.eval(), TOKENS), got, BOUNDS["f32"])


def check_base_class(case, model, mainstem, folder, work, tally):
    model.base_model.save_pretrained(work / "base")
    got = mainstem.trace(work / "base", TOKENS, "f32")
    want = case.record(model, TOKENS)
    if "logits" in got or "head" in got:
        tally.fail(f"{case.name}: the base class has no head, yet a head was traced")
    tally.compare(f"{case.name}, without head", want, got, BOUNDS["f32"])


def batches(case):
    """The shorter sequence first. Which of longrope's lists holds goes by the longest row of a batch in
    transformers and by each row's own length here: all are longer than the original context, or none is."""
    lengths = ((17, len(TOKENS)), (4, 7)) if case.name == "phi3_longrope" else ((13, len(TOKENS)),)
    return [[TOKENS[::-1][:short], TOKENS[:long]] for short, long in lengths]


def check_padding(case, model, mainstem, folder, tally):
    """Rows of padding mean nothing on either side, and so do scores and patterns of keys that are padding."""
    encoder_sequences = [ENCODER_TOKENS, ENCODER_TOKENS[:5]] if case.encoder else None
    encoders = [encoder_sequences] if case.encoder else []
    for sequences in batches(case):
        lengths = [list(map(len, each)) for each in (sequences, *encoders)]
        for compute, bound in BOUNDS.items():
            record = case.record_batch if compute == "f32" else case.record_batch_in_double
            got = trace(case, mainstem, folder, sequences, compute, encoder_sequences)
            check_companions(case, got, sequences, encoders, tally)
            steps = {site: value for site, value in got.items() if site not in COMPANIONS}
            tally.compare(f"{case.name}, padded {lengths[0]}, {compute}",
                          unpadded(record(model, sequences, *encoders), *lengths), unpadded(steps, *lengths), bound)


def check_companions(case, got, sequences, encoders, tally):
    batches_of = {"decoder.": sequences, "encoder.": encoders[0]} if case.encoder else {"": sequences}
    for stack, batch in batches_of.items():
        _, mask, positions = padded(batch)
        tally.equal(f"{case.name}, padded", {"mask": mask.numpy(), "positions": positions.numpy()},
                    {"mask": got[stack + "key_mask"], "positions": got[stack + "positions"]})


def check_generation(case, model, mainstem, folder, tally):
    model.generation_config = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=GENERATED, pad_token_id=0, eos_token_id=None)
    prompt = torch.tensor([TOKENS[:6]])
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt))
    want = out[0, prompt.shape[1]:].tolist()
    got = mainstem.generate(folder, prompt[0].tolist(), GENERATED)
    tally.steps += 1
    if got != want:
        tally.fail(f"{case.name}: generated {got}, transformers {want}")


def check(case, mainstem, work, tally):
    model = case.make_model()
    folder = saved(case, model, work / "model")
    check_every_step(case, model, mainstem, folder, tally)
    check_storage(case, model, mainstem, folder, work, tally)
    check_padding(case, model, mainstem, folder, tally)
    if isinstance(case, Case):
        check_old_words(case, model, mainstem, folder, work, tally)
    if is_decoder(case):
        check_base_class(case, model, mainstem, folder, work, tally)
        check_generation(case, model, mainstem, folder, tally)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mainstem", required=True)
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    unknown = set(arguments.cases) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no case is called {', '.join(sorted(unknown))}")
    tally = Tally()
    for case in CASES:
        if arguments.cases and case.name not in arguments.cases:
            continue
        with tempfile.TemporaryDirectory() as temporary:
            work = pathlib.Path(temporary)
            check(case, Mainstem(arguments.mainstem, work), work, tally)
    tally.finish()


if __name__ == "__main__":
    main()
