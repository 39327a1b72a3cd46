"""Writes tests/golden/random.json: what torch's CPU generator gives, call after call.

Versions: Python 3.11, torch 2.13.0 (CPU), numpy 2.4.6, on a processor with AVX2. The same bytes on every run.

    python tests/generators/make_random.py tests/golden/random.json

Each case is one generator and a list of calls on it. A call has its arguments, the number of values,
the 64-bit FNV-1a hash of their bytes, and the bits of the first values, which show where a
difference begins.
"""

import json
import sys

import torch

FIRST = 8


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def record(call, values, **arguments):
    data = values.detach().contiguous().numpy()
    words = data.view("u4" if data.itemsize == 4 else "u8").ravel()
    return {
        "call": call,
        **arguments,
        "count": data.size,
        "fnv1a": fnv1a(data.tobytes()),
        "first_bits": [int(w) for w in words[:FIRST]],
    }


def linear(fan_in, fan_out):
    layer = torch.nn.Linear(fan_in, fan_out)
    values = torch.cat([layer.weight.detach().ravel(), layer.bias.detach()])
    return record("linear", values, fan_in=fan_in, fan_out=fan_out)


def attention(width):
    layer = torch.nn.MultiheadAttention(width, 2)
    parts = [layer.in_proj_weight, layer.in_proj_bias, layer.out_proj.weight, layer.out_proj.bias]
    return record("attention", torch.cat([p.detach().ravel() for p in parts]), width=width)


def case(seed):
    torch.manual_seed(seed)
    calls = [record("randn", torch.randn(n)) for n in (3, 16, 17, 5, 40007, 1)]
    calls.append(record("uniform", torch.empty(1001).uniform_(-0.37, 1.9), low=-0.37, high=1.9))
    calls.append(record("rand", torch.rand(33)))
    calls.append(record("rand64", torch.rand(33, dtype=torch.float64)))
    # One word below 2^28, two from there on.
    for low, high in ((-5, 1000), (0, 2**28 - 1), (0, 2**28), (-(2**40), 2**41), (-(2**63), 2**63 - 1)):
        calls.append(record("randint", torch.randint(low, high, (50,)), low=low, high=high))
    calls += [record("randperm", torch.randperm(n)) for n in (1, 2, 1000)]
    calls += [linear(i, o) for i, o in ((8, 4), (7, 3), (49, 5), (576, 3))]
    calls += [attention(w) for w in (8, 24, 40)]
    calls.append(record("randn", torch.randn(2)))
    return {"seed": seed, "calls": calls}


def main(path):
    with open(path, "w") as file:
        json.dump({"cases": [case(s) for s in (0, 42, 2**32 - 1, 2**40 + 3)]}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
