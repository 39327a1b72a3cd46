"""Mainstem and llama.cpp side by side: the same machine, file and threads, in alternation.

    python compare_llamacpp.py --mainstem build/release/src/mainstem --model FILE.gguf

Every run is a process of its own, so that each pays for its own load; the order is ours, theirs
without flash attention, theirs with it, and again from the start. Printed are medians over the
runs and what ours is of the better of the two rival settings. Needs llama-cpp-python 0.3.36,
compiled on this machine (tools/lane rivals does that).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

# They slow a current OpenBLAS down; no rival may run with them.
for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(variable, None)

TEXT = "The residual stream is a highway. " * 400


def status_mb(field):
    """A field of this process's memory status, in MB."""
    for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / 1e6
    raise KeyError(field)


def worker(options):
    """One run of llama.cpp in this process; prints one JSON object."""
    import llama_cpp

    before_mb = status_mb("VmRSS")
    start = time.perf_counter()
    model = llama_cpp.Llama(
        options.model,
        n_ctx=max(1024, options.prefill + options.decode + 8),
        n_threads=options.threads,
        n_threads_batch=options.threads,
        n_batch=512,
        n_ubatch=512,
        flash_attn=options.flash,
        verbose=False,
    )
    load_ms = (time.perf_counter() - start) * 1e3
    tokens = model.tokenize(TEXT.encode())[: options.prefill]
    assert len(tokens) == options.prefill

    # As `mainstem bench model` does it: rounds of a prompt and its continuation, the first of which
    # warms up.
    prefill, decode = [], []
    for _ in range(4):
        model.reset()
        start = time.perf_counter()
        model.eval(tokens)
        middle = time.perf_counter()
        for i in range(options.decode):
            model.eval([tokens[i % len(tokens)]])
        prefill.append(middle - start)
        decode.append(time.perf_counter() - middle)
    print(
        json.dumps(
            {
                "load_ms": load_ms,
                "prefill_tok_s": options.prefill / statistics.median(prefill[1:]),
                "decode_tok_s": options.decode / statistics.median(decode[1:]),
                "peak_rss_mb": status_mb("VmHWM") - before_mb,
            }
        )
    )


def run_json(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{' '.join(map(str, command))}\nended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)


def ours(options):
    return run_json(
        [options.mainstem, "bench", "model", options.model, "--json"]
        + ["--threads", str(options.threads)]
        + ["--prefill", str(options.prefill), "--decode", str(options.decode)]
    )


def theirs(options, flash):
    command = [sys.executable, __file__, "--worker", "--model", options.model]
    command += ["--threads", str(options.threads)]
    command += ["--prefill", str(options.prefill), "--decode", str(options.decode)]
    return run_json(command + (["--flash"] if flash else []))


def first_token_ms(options):
    """From the start of the process to the first token of an answer, file cache warm."""
    start = time.perf_counter()
    command = [options.mainstem, "run", options.model, "-p", "Hello", "-n", "1"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


ROWS = (
    # key, label, unit, digits, larger is better
    ("load_ms", "load", "ms", 0, False),
    ("prefill_tok_s", "prefill {prefill}", "tok/s", 0, True),
    ("decode_tok_s", "decode {decode}", "tok/s", 1, True),
    ("peak_rss_mb", "peak memory", "MB", 0, False),
)


def report(options, results, first_ms):
    sides = list(results)
    print(f"\n{pathlib.Path(options.model).name}, {options.threads} threads, medians of {options.runs}")
    print(f"{'':16}" + "".join(f"{side:>20}" for side in sides) + f"{'ours is':>16}")
    for key, label, unit, digits, larger in ROWS:
        medians = {side: statistics.median(run[key] for run in results[side]) for side in sides}
        rivals = [medians[side] for side in sides if side != "mainstem"]
        best = max(rivals) if larger else min(rivals)
        ratio = medians["mainstem"] / best if larger else best / medians["mainstem"]
        line = f"{label.format(**vars(options)):16}"
        line += "".join(f"{medians[side]:>13.{digits}f} {unit:6}" for side in sides)
        print(line + f"{ratio:>10.2f} times as {'fast' if unit != 'MB' else 'small'}")
    print(f"{'first token':16}{statistics.median(first_ms):>13.0f} ms    from the start of the process")
    last = results["mainstem"][-1]
    if last.get("peak_read_gb_s"):
        print(
            f"decode reads {last['read_gb_s']:.1f} GB/s of the {last['peak_read_gb_s']:.1f} GB/s "
            "that this machine's memory gives"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mainstem", default="build/release/src/mainstem")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--flash", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return

    # The first round warms the file cache and is not counted.
    results = {"mainstem": [], "llama.cpp": [], "llama.cpp -fa": []}
    for number in range(options.runs + 1):
        for side in results:
            one = ours(options) if side == "mainstem" else theirs(options, side.endswith("-fa"))
            if number:
                results[side].append(one)
                figures = ", ".join(f"{key} {one[key]:.1f}" for key, *_ in ROWS)
                print(f"run {number} {side}: {figures}", flush=True)
    report(options, results, [first_token_ms(options) for _ in range(options.runs)])


if __name__ == "__main__":
    main()
