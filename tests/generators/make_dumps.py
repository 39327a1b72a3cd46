#!/usr/bin/env python3
"""Writes tests/golden/dumps: small dumps of each format, with the values they hold.

    pip install torch==2.13.0 transformers==5.24.0
    python tests/generators/make_dumps.py

torch.save's archives (also with protocol 5, without checksums, and in big-endian order) and its
older form, the model debugger's folder and its printed form, and the text of llama.cpp's
eval-callback in its older and newer layout. The layouts of the text are printed by this script as
llama.cpp's examples/eval-callback/eval-callback.cpp (2024) and common/debug.cpp (2026) print them.
"""
import collections
import io
import json
import pathlib
import pickle
import re
import shutil
import struct
import warnings
import zipfile

import torch
from transformers.model_debugging_utils import model_addition_debugger_context

OUT = pathlib.Path(__file__).resolve().parent.parent / "golden" / "dumps"


def described(tensor):
    values = tensor.detach().to(torch.float64).flatten().tolist()
    return {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape),
            "values": values}


def random(generator, *shape):
    return torch.randn(*shape, generator=generator)


def torch_tree(generator):
    base = random(generator, 4, 6)
    hidden = tuple(random(generator, 1, 2, 3) for _ in range(3))
    parameter = torch.nn.Parameter(random(generator, 3))
    parameter.note = 1  # written by another function than a plain one
    tree = {
        "base": base,
        "transposed": base.t(),
        "rows": base[1:3],
        "columns": base[:, 1::2],
        "permuted": random(generator, 2, 3, 4).permute(2, 0, 1),
        "expanded": torch.tensor([[1.5], [2.5]]).expand(2, 4),
        "scalar": torch.tensor(3.25),
        "empty": torch.zeros(0, 3),
        "half": random(generator, 5).to(torch.float16),
        "bfloat": random(generator, 5).to(torch.bfloat16),
        "double": random(generator, 2, 2).to(torch.float64),
        "input_ids": torch.tensor([[5, 7, -1]]),
        "int32": torch.tensor([1, 2], dtype=torch.int32),
        "bytes": torch.tensor([0, 255], dtype=torch.uint8),
        "mask": torch.tensor([True, False, True]),
        "uint16": torch.tensor([1, 65535], dtype=torch.uint16),
        "fp8": torch.tensor([1.0, -2.5]).to(torch.float8_e4m3fn),
        "parameter": parameter,
        "hidden_states": hidden,
        "layers": {0: {"q": random(generator, 2)}, 1: [random(generator, 2)]},
        "state": collections.OrderedDict(weight=torch.nn.Parameter(random(generator, 2))),
        "hooks": collections.defaultdict(list, {"mlp": [random(generator, 1, 2)]}),
        "tokens": [1, 2, 3],
        "rows_of_ids": [[1, 2], [3, 4]],
        "size": torch.Size([9, 8]),
        "complex": torch.ones(2, dtype=torch.complex64),
        "prompt": "a text", "loss": 0.5, "none": None, "flag": True, "dtype": torch.float32,
        "device": torch.device("cpu"), "raw": b"bytes", "big": 1 << 100,
    }
    return tree


def flat(value, name, out):
    if isinstance(value, torch.Tensor):
        if not value.is_complex():
            out[name] = described(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            flat(item, f"{name}.{key}" if name else str(key), out)
    elif isinstance(value, (list, tuple)):
        numbers = value[0] if value and isinstance(value[0], list) else value
        if numbers and all(type(number) is int for number in numbers):
            out[name] = described(torch.tensor(value))
            return
        for i, item in enumerate(value):
            flat(item, f"{name}.{i}", out)


def saved(value, name, **options):
    """The bytes of torch.save; the folder in the archive is called after the file."""
    path = OUT / name
    torch.save(value, path, **options)
    return path


def make_big_endian(source, target):
    """The same archive as a big-endian machine writes it."""
    with zipfile.ZipFile(source) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    folder = source.stem
    widths = {}
    code = members[f"{folder}/data.pkl"]

    class Finder(pickle.Unpickler):
        def persistent_load(self, identity):
            widths[identity[2]] = torch.tensor([], dtype=identity[1].dtype).element_size()
            return torch.storage.TypedStorage(wrap_storage=torch.UntypedStorage(4 * identity[4]),
                                              dtype=identity[1].dtype, _internal=True)

    Finder(io.BytesIO(code)).load()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            if name.endswith("/byteorder"):
                content = b"big"
            key = re.fullmatch(rf"{folder}/data/(\d+)", name)
            if key:
                width = widths[key[1]]
                content = b"".join(content[i:i + width][::-1] for i in range(0, len(content), width))
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)


def make_torch(expected):
    generator = torch.Generator().manual_seed(11)
    tree = torch_tree(generator)
    expected["tree.pt"] = {}
    flat(tree, "", expected["tree.pt"])
    saved(tree, "tree.pt")
    saved(tree, "protocol5.pt", pickle_protocol=5)
    expected["protocol5.pt"] = expected["tree.pt"]
    small = {"a": tree["base"], "b": tree["transposed"], "ids": tree["input_ids"],
             "half": tree["half"]}
    expected["small.pt"] = {name: described(tensor) for name, tensor in small.items()}
    path = saved(small, "small.pt")
    make_big_endian(path, OUT / "big_endian.pt")
    expected["big_endian.pt"] = expected["small.pt"]
    torch.serialization.set_crc32_options(False)
    saved(small, "no_checksums.pt")
    torch.serialization.set_crc32_options(True)
    expected["no_checksums.pt"] = expected["small.pt"]
    saved(tree["base"], "lone.pt")
    expected["lone.pt"] = {"lone": described(tree["base"])}
    shared = {"a": tree["base"], "b": tree["transposed"], "rows": [tree["rows"]]}
    path = saved(shared, "legacy.pt", _use_new_zipfile_serialization=False)
    # The key of the one storage is its address.
    content, count = re.subn(rb"X....\d{10,20}", b"X" + struct.pack("<I", 4) + b"key0",
                             path.read_bytes(), flags=re.DOTALL)
    assert count == 4
    path.write_bytes(content)
    expected["legacy.pt"] = {}
    flat(shared, "", expected["legacy.pt"])


class Twice(torch.nn.Module):
    """Small, with a module that is called twice, a tuple, and a tensor too large to print."""

    def __init__(self, generator):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.SiLU())
        self.wide = torch.nn.Linear(4, 400, bias=False)
        for parameter in self.parameters():
            parameter.data = random(generator, *parameter.shape)

    def forward(self, input_ids, mask=None):
        x = self.embed(input_ids)
        x = self.inner(self.inner(x))
        return {"logits": self.wide(x), "hidden": (x, x.to(torch.bfloat16))}


def make_debugger(expected):
    ids = torch.tensor([[1, 2, 6]])
    model = Twice(torch.Generator().manual_seed(12)).eval()
    for folder, use_repr in (("debugger", False), ("debugger_printed", True)):
        shutil.rmtree(OUT / folder, ignore_errors=True)
        with model_addition_debugger_context(model, debug_path=str(OUT / folder),
                                             do_prune_layers=False, use_repr=use_repr):
            model.forward(ids, mask=torch.tensor([True, True, False]))
    embedded = model.embed(ids)
    once = model.inner(embedded)
    twice = model.inner(once)
    wide = model.wide(twice)
    one = {"Twice.inputs.args.0": ids, "Twice.inputs.kwargs.mask": torch.tensor([True, True, False]),
           "Twice.embed.outputs": embedded, "Twice.inner.inputs.args.0": once,
           "Twice.inner.1.outputs": twice, "Twice.wide.outputs": wide}
    expected["debugger"] = {name: described(tensor) for name, tensor in one.items()}


def ggml_text(tensor, name, kind, op, operands, new):
    """One node as llama.cpp prints it; `tensor` is row-major with four dimensions."""
    def dims(shape):
        return ", ".join(str(size) for size in reversed(shape))

    head = "common_debug_cb_eval" if new else "ggml_debug"
    sources = [f"{source}{{{dims(shape)}}}" for source, shape in operands]
    line = f"{head}: {name:>24s} = ({kind}) {op:>10s}({sources[0] if sources else ''}, " \
           f"{sources[1] if len(sources) > 1 else ''}}}) = {{{dims(tensor.shape)}}}\n"
    total = tensor.to(torch.float32).sum().item()
    indents = ["    ", "        ", "            "] if new else [" " * 37, " " * 38, " " * 39]

    def kept(size):
        return list(range(size)) if size <= 6 else [0, 1, 2, None, size - 3, size - 2, size - 1]

    out = line
    for block in tensor:
        out += f"{indents[0]}[\n"
        for plane in kept(block.shape[0]):
            if plane is None:
                out += f"{indents[1]}..., \n"
                continue
            out += f"{indents[1]}[\n"
            for row in kept(block.shape[1]):
                if row is None:
                    out += f"{indents[2]}..., \n"
                    continue
                out += f"{indents[2]}["
                for at in kept(block.shape[2]):
                    if at is None:
                        out += "   ..., " if new else "..., "
                        continue
                    out += f"{block[plane, row, at].item():12.4f}"
                    out += ", " if at < block.shape[2] - 1 else ""
                out += "  ],\n" if new else "],\n"
            out += f"{indents[1]}],\n"
        out += f"{indents[0]}]\n{indents[0]}sum = {total:f}\n"
    return out


def make_llama(expected):
    generator = torch.Generator().manual_seed(13)
    infinite = random(generator, 1, 1, 2, 4)
    infinite[0, 0, 0, 1], infinite[0, 0, 1, 3] = float("inf"), float("nan")
    nodes = [
        (random(generator, 1, 1, 5, 8), "embd", "f32", "GET_ROWS",
         [("token_embd.weight", (1, 1, 50, 8)), ("inp_tokens", (1, 1, 1, 5))]),
        (random(generator, 1, 1, 5, 8), "Qcur-0", "f32", "MUL_MAT",
         [("blk.0.attn_q.weight", (1, 1, 8, 8)), ("attn_norm-0", (1, 1, 5, 8))]),
        (random(generator, 1, 5, 2, 4), "Qcur-0 (reshaped)", "f32", "RESHAPE", [("Qcur-0", (1, 1, 5, 8))]),
        (random(generator, 1, 5, 2, 4), "Qcur-0", "f32", "ROPE",
         [("Qcur-0 (reshaped)", (1, 5, 2, 4)), ("inp_pos", (1, 1, 1, 5))]),
        (random(generator, 1, 9, 7, 12), "kq-0", "f32", "MUL_MAT", []),
        (random(generator, 2, 1, 3, 7), "two", "f16", "CPY", []),
        (infinite, "odd", "f32", "ADD", []),
        (torch.arange(5.0).reshape(1, 1, 1, 5), "ids", "i32", "CONT", []),
        (1e3 * random(generator, 1, 1, 5, 8), "Qcur-0", "f32", "ROPE", []),
    ]
    for name, new in (("llama_new.txt", True), ("llama_old.txt", False)):
        text = "llama_model_loader: loaded meta data = (x)\nnumber of input tokens = 5\n"
        text += "".join(f"0.00.566.560 I   {i}\n" if new else f"  {i}\n" for i in (1, 44, 3, 9, 7))
        for node in nodes:
            text += ggml_text(*node, new)
            if node[1] == "embd":
                text += "\nsome other line: 1\n"
        text += ggml_text(torch.zeros(1, 1, 1, 2), "cache", "q8_0", "CPY", [], new).split("\n")[0] + "\n"
        text += "llama_perf_context_print:        load time =     123.45 ms\n"
        (OUT / name).write_text(text)
    expected["llama"] = [{"name": name, "type": kind, "op": op, "shape": list(tensor.shape),
                          "operands": [source for source, _ in operands],
                          "values": [str(value) for value in tensor.flatten().tolist()],
                          "sum": str(tensor.sum().item())}
                         for tensor, name, kind, op, operands in nodes]


def main():
    warnings.filterwarnings("ignore")
    OUT.mkdir(parents=True, exist_ok=True)
    expected = {}
    make_torch(expected)
    make_debugger(expected)
    make_llama(expected)
    with open(OUT / "expected.json", "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main()
