#!/usr/bin/env python3
"""Time and memory of doctor on the dump of a large model: the figures of docs/diff.md.

    python bench/large_dump.py --mainstem build/release/src/mainstem --work FOLDER

Makes a Llama 2 7B of random bfloat16 weights in FOLDER (13.5 GB; kept for the next time), lets trace write a dump of 64 tokens
with a mistake in it, and asks doctor for two blocks near either end, then for all. Memory is the peak of what the process
has beside its mapped files. --size tiny makes the same of a small model, to try the script. Needs numpy.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import numpy

# Blocks, width, hidden width, heads, vocabulary.
SIZES = {"7b": (32, 4096, 11008, 32, 32000), "tiny": (4, 64, 176, 4, 320)}
TOKENS = 64
POOL = 1 << 24


def config(size):
    blocks, width, hidden, heads, vocabulary = SIZES[size]
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": hidden,
            "num_hidden_layers": blocks, "num_attention_heads": heads, "num_key_value_heads": heads,
            "vocab_size": vocabulary, "rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "hidden_act": "silu",
            "tie_word_embeddings": False, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2}


def shapes(size):
    blocks, width, hidden, _, vocabulary = SIZES[size]
    yield "model.embed_tokens.weight", (vocabulary, width)
    for block in range(blocks):
        prefix = f"model.layers.{block}."
        yield prefix + "input_layernorm.weight", (width,)
        for name in "qkvo":
            yield f"{prefix}self_attn.{name}_proj.weight", (width, width)
        yield prefix + "post_attention_layernorm.weight", (width,)
        yield prefix + "mlp.gate_proj.weight", (hidden, width)
        yield prefix + "mlp.up_proj.weight", (hidden, width)
        yield prefix + "mlp.down_proj.weight", (width, hidden)
    yield "model.norm.weight", (width,)
    yield "lm_head.weight", (vocabulary, width)


def bfloat16(values):
    return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


def make_model(folder, size):
    """Every matrix is a stretch of the same random numbers: drawing all of them would take longer than all else."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config(size)))
    weights = folder / "model.safetensors"
    if weights.exists():
        return
    header, end = {}, 0
    for name, shape in shapes(size):
        begin, end = end, end + 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = numpy.random.default_rng(1)
    pool = bfloat16(generator.standard_normal(POOL) * 0.02)
    partial = weights.with_suffix(".partial")
    with partial.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in shapes(size):
            left, at = int(numpy.prod(shape)), int(generator.integers(0, POOL // 2))
            if len(shape) == 1:
                file.write(bfloat16(numpy.ones(left)).tobytes())
                continue
            while left:
                count = min(left, POOL - at)
                file.write(pool[at:at + count].tobytes())
                left, at = left - count, 0
    partial.rename(weights)


def anonymous_bytes(process):
    try:
        for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass  # it has ended
    return 0


def measured(command):
    """What it printed, seconds, and the largest memory that is no mapped file."""
    begin, most = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        while process.poll() is None:
            most = max(most, anonymous_bytes(process))
            time.sleep(0.02)
        output.seek(0)
        text = output.read()
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit code {process.returncode}")
    return text, time.monotonic() - begin, most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mainstem", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--size", choices=SIZES, default="7b")
    words = parser.parse_args()
    model, dump = words.work / words.size, words.work / f"{words.size}.safetensors"
    make_model(model, words.size)
    ids = ",".join(str((7 * t + 3) % SIZES[words.size][-1]) for t in range(TOKENS))
    if not dump.exists():
        subprocess.run([words.mainstem, "trace", model, "--tokens", ids, "--break", "rope.pairing", "--out", dump], check=True)
    blocks = SIZES[words.size][0]
    print(f"| blocks of {blocks} | seconds | GB beside the files | first wrong step | proved |\n|---|---|---|---|---|")
    for layers in (f"0:{min(2, blocks)}", f"{blocks - 2}:{blocks}", f"0:{blocks}"):
        text, seconds, most = measured([words.mainstem, "doctor", str(model), str(dump), "--layers", layers, "--json"])
        report = json.loads(text)
        proved = ", ".join(cause["id"] for cause in report["causes"] if cause["status"] == "proved")
        print(f"| {layers} | {seconds:.1f} | {most / 1e9:.2f} | {report['first']['site']} | {proved} |", flush=True)


if __name__ == "__main__":
    main()
