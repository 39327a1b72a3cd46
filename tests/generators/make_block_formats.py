"""Writes tests/golden/block_formats.json: blocks of every quantised type and what gguf-py makes of them.

Versions: Python 3.11, gguf 0.19.0, numpy 2.4.6. The same bytes on every run.

    python tests/generators/make_block_formats.py tests/golden/block_formats.json

The quants and sub-block scales are random bytes, so every bit of a layout is used. The
half-precision scales are chosen, since random ones would often be infinite or NaN: ordinary,
negative, subnormal, largest, both zeros, infinite and NaN.
"""

import json
import sys

import gguf
import numpy as np

# type: offsets of its half-precision scales
TYPES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
SPECIAL = (-0.0078125, 65504.0, 2.0**-24, -0.0, np.inf, np.nan)


def blocks_of(rng, size, offsets, ordinary):
    blocks = rng.integers(0, 256, (ordinary + len(SPECIAL), size), dtype=np.uint8)
    for i, block in enumerate(blocks):
        for j, offset in enumerate(offsets):
            scale = rng.normal() * 0.02 if i < ordinary else SPECIAL[(i - ordinary + j) % len(SPECIAL)]
            block[offset : offset + 2] = np.array([scale], np.float16).view(np.uint8)
    blocks[0, [k for k in range(size) if not any(k - o in (0, 1) for o in offsets)]] = 255
    return blocks


def main(path):
    rng = np.random.default_rng(20240607)
    document = {}
    for name, offsets in TYPES.items():
        dtype = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[dtype]
        blocks = blocks_of(rng, size, offsets, ordinary=6 if elements == 32 else 3)
        with np.errstate(invalid="ignore", over="ignore"):
            values = gguf.quants.dequantize(blocks, dtype)
        assert values.dtype == np.float32 and values.shape == (len(blocks), elements)
        document[name.lower()] = {
            "block_bytes": size,
            "block_elements": elements,
            "blocks": blocks.tobytes().hex(),
            "f32_bits": values.astype("<f4").tobytes().hex(),
        }
    with open(path, "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
