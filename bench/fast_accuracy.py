"""What `--compute fast` costs in accuracy on SmolLM2: logits and perplexity beside `f32`.

    python bench/fast_accuracy.py --mainstem build/release/src/mainstem --model FILE.gguf

Reads the prompts of tests/golden/real/smollm2.json. Needs numpy.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

import numpy

GOLDEN = pathlib.Path(__file__).parents[1] / "tests/golden/real/smollm2.json"


def logits(options, ids, compute, folder):
    """[T,V] in float64."""
    out = pathlib.Path(folder) / "logits.npz"
    subprocess.run(
        [options.mainstem, "trace", options.model, "--tokens", ",".join(map(str, ids)),
         "--sites", "logits", "--compute", compute, "--out", out],
        check=True, stdout=subprocess.DEVNULL)
    with numpy.load(out) as values:
        return values["logits"][0].astype(numpy.float64)


def loss(rows, ids):
    """Sum of the negative log-likelihoods of ids[1:]."""
    top = rows.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + numpy.log(numpy.exp(rows - top).sum(axis=1))
    return sum(log_sum[t] - rows[t, ids[t + 1]] for t in range(len(ids) - 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mainstem", required=True)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    prompts = json.loads(GOLDEN.read_text(encoding="utf-8"))["prompts"]
    total = {"f32": 0.0, "fast": 0.0}
    predicted, squares, count, largest = 0, 0.0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for prompt in prompts.values():
            ids = prompt["ids"]
            rows = {compute: logits(options, ids, compute, folder) for compute in total}
            for compute, values in rows.items():
                total[compute] += loss(values, ids)
            difference = rows["fast"] - rows["f32"]
            predicted += len(ids) - 1
            squares += float((difference**2).sum())
            count += difference.size
            largest = max(largest, float(abs(difference).max()))
    for compute, value in total.items():
        print(f"{compute:5} loss {value / predicted:.4f}  perplexity {math.exp(value / predicted):.2f}")
    print(f"logits differ by {math.sqrt(squares / count):.3f} (rms), {largest:.2f} at most, "
          f"over {predicted} predicted tokens")


if __name__ == "__main__":
    main()
