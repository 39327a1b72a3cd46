#!/usr/bin/env python3
"""Dumps of sound programs: what diff must not take for a mistake.

    python tests/dumps/make.py --out FOLDER [--models .cache/models] [RECIPE...]

Tiny random models of the mutation kit, and where they are there SmolLM2, Gemma 3 and all-MiniLM-L6-v2, as PyTorch runs
them (eager, sdpa, compiled, bfloat16, float16), as transformers hands them out, ONNX Runtime, OpenVINO, TransformerLens
and llama.cpp. Each dump stands in FOLDER/RECIPE/, with recipe.json: model, dump, arguments of diff, and the steps where a
known fault of that program is to be found. The code that dumps is that of docs/dump_recipes.md.

--list prints the recipes. A recipe whose packages or model are not there is skipped and named.
"""

import argparse
import fnmatch
import importlib
import json
import pathlib
import shutil
import sys
import traceback

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "mutations")]

import models  # noqa: E402
from programs import RECIPES, NotHere  # noqa: E402

for name in ("programs.pytorch", "programs.exported", "programs.lens", "programs.llama",
             "programs.plain"):
    importlib.import_module(name)


def tiny_folder(out, name):
    folder = out / "models" / name
    if not (folder / "config.json").exists():  # as a folder, which the programs read
        models.BY_NAME[name].make_model().save_pretrained(folder)
    return folder


def make(recipe, out, real):
    folder = out / recipe.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = tiny_folder(out, recipe.model) if recipe.model in models.BY_NAME else real / recipe.model
    if not model.exists():
        raise NotHere(f"no {model}")
    torch.manual_seed(0)
    dump = recipe.make(model, folder)
    if (folder / "model.gguf").exists():  # what the program ran in its place
        model = folder / "model.gguf"
    words = {"model": str(model.resolve()), "dump": dump.name, "arguments": list(recipe.arguments),
             "faults": list(recipe.faults)}
    (folder / "recipe.json").write_text(json.dumps(words, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--models", type=pathlib.Path, default=HERE.parents[1] / ".cache" / "models")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("recipes", nargs="*", default=["*"], help="names or patterns")
    arguments = parser.parse_args()
    chosen = [each for each in RECIPES if any(fnmatch.fnmatch(each.name, glob) for glob in arguments.recipes)]
    if arguments.list or not arguments.out:
        print("\n".join(each.name for each in chosen))
        return 0
    if not chosen:
        parser.error("no such recipe")
    failed = 0
    for recipe in chosen:
        try:
            make(recipe, arguments.out, arguments.models)
            print(f"{recipe.name}: written", flush=True)
        except (NotHere, ImportError) as error:
            shutil.rmtree(arguments.out / recipe.name, ignore_errors=True)
            print(f"{recipe.name}: skipped, {error}", flush=True)
        except Exception:  # the others go on
            shutil.rmtree(arguments.out / recipe.name, ignore_errors=True)
            traceback.print_exc()
            print(f"{recipe.name}: FAILED", flush=True)
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
