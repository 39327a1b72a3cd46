#!/usr/bin/env python3
"""Compares the file formats with the official Python packages, both ways.

    python3 tests/parity/io_parity.py --tool build/dev/tests/io_tool [FILE ...]

Files are written with safetensors 0.8.0, gguf 0.19.0 and numpy and listed by io_tool; files that
io_tool writes are read by the packages. Each FILE (.safetensors or .gguf) is listed by both.
Exit code 0 when all agree.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import zlib

import gguf
import numpy as np
import safetensors

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAILED = []


def check(name, ok, detail=""):
    print(("ok      " if ok else "FAILED  ") + name + ("" if ok else f"  {detail}"))
    if not ok:
        FAILED.append(name)


def crc(data):
    return f"{zlib.crc32(data):08x}"


class Tool:
    def __init__(self, path):
        self.path = path

    def run(self, *args):
        return subprocess.run([self.path, *map(str, args)], capture_output=True, text=True)

    def lines(self, *args):
        done = self.run(*args)
        if done.returncode != 0:
            return [done.stderr.strip()]
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def shape_text(shape):
    return "[" + ", ".join(str(int(d)) for d in shape) + "]"


# ---- safetensors

ST_TYPES = {"bool": ("BOOL", 1), "uint8": ("U8", 1), "int8": ("I8", 1), "float8_e5m2": ("F8_E5M2", 1),
            "float8_e4m3fn": ("F8_E4M3", 1), "float8_e8m0fnu": ("F8_E8M0", 1), "int16": ("I16", 2),
            "uint16": ("U16", 2), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "int32": ("I32", 4),
            "uint32": ("U32", 4), "float32": ("F32", 4), "complex64": ("C64", 8),
            "float64": ("F64", 8), "int64": ("I64", 8), "uint64": ("U64", 8)}


def official_safetensors(tensors, metadata):
    """tensors: name -> (dtype, shape, bytes)"""
    keep, specs = [], {}
    for name, (dtype, shape, data) in tensors.items():
        buffer = np.frombuffer(data, np.uint8).copy()
        keep.append(buffer)
        specs[name] = safetensors.TensorSpec(dtype=dtype, shape=list(shape),
                                             data_ptr=buffer.ctypes.data, data_len=len(data))
    return safetensors.serialize(specs, metadata)


def read_header(path):
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def safetensors_lines(path):
    header, start = read_header(path)
    content = np.memmap(path, np.uint8, "r") if path.stat().st_size else b""
    result = set()
    for name, one in header.items():
        if name != "__metadata__":
            begin, end = one["data_offsets"]
            result.add((name, one["dtype"], shape_text(one["shape"]), crc(content[start + begin:start + end])))
    return result


def check_safetensors(tool, folder):
    rng = np.random.default_rng(7)
    tensors = {}
    for dtype, (_, size) in ST_TYPES.items():
        for shape in ((), (3,), (2, 5), (0, 4)):
            count = int(np.prod(shape))
            tensors[f"{dtype}.{len(shape)}.{count}"] = (dtype, shape, rng.bytes(count * size))
    path = folder / "all.safetensors"
    path.write_bytes(official_safetensors(tensors, {"format": "pt"}))
    listed = tool.lines("list", path)
    expected = {(n, ST_TYPES[d][0], shape_text(s), crc(b)) for n, (d, s, b) in tensors.items()}
    check("safetensors: all types are listed", set(listed) == expected, listed[:3])

    writable = {n: t for n, t in tensors.items() if t[0] not in ("float8_e8m0fnu", "complex64")}
    path.write_bytes(official_safetensors(writable, {"format": "ü \"\\\n\x1f\x7f"}))
    copy = folder / "copy.safetensors"
    done = tool.run("copy", path, copy)
    check("safetensors: the same bytes as the official writer",
          done.returncode == 0 and copy.read_bytes() == path.read_bytes(), done.stderr)

    from safetensors.numpy import load_file
    plain = {n: t for n, t in writable.items() if "float8" not in t[0] and t[0] != "bfloat16"}
    path.write_bytes(official_safetensors(plain, None))
    tool.run("copy", path, copy)
    loaded = load_file(copy)
    same = set(loaded) == set(plain) and all(
        loaded[n].tobytes() == b and loaded[n].dtype == np.dtype(d) and loaded[n].shape == s
        for n, (d, s, b) in plain.items())
    check("safetensors: the official reader reads ours", same)

    # The seeds of the fuzz target: who accepts what. The official reader refuses the type NEW,
    # which is listed here as not readable, and takes the last of two equal keys.
    differ = []
    for seed in sorted((ROOT / "fuzz" / "corpus" / "safetensors").iterdir()):
        try:
            safetensors.deserialize(seed.read_bytes())
            official = True
        except Exception:
            official = False
        target = folder / "seed.safetensors"
        target.write_bytes(seed.read_bytes())
        if official != (tool.run("list", target).returncode == 0):
            differ.append(seed.name)
    check("safetensors: seeds are judged alike", differ == ["all_types", "duplicate"], differ)


# ---- GGUF

def gguf_tensor_lines(path):
    lines = []
    for tensor in gguf.GGUFReader(path).tensors:
        shape = [int(d) for d in reversed(tensor.shape)]
        lines.append((tensor.name, tensor.tensor_type.name, shape_text(shape),
                      crc(np.ascontiguousarray(tensor.data).tobytes())))
    return lines


def gguf_meta_lines(path):
    lines = []
    for key, field in gguf.GGUFReader(path).fields.items():
        if key.startswith("GGUF."):
            continue
        kind = [{"FLOAT32": "f32", "FLOAT64": "f64", "UINT8": "u8", "INT8": "i8", "UINT16": "u16",
                 "INT16": "i16", "UINT32": "u32", "INT32": "i32", "UINT64": "u64", "INT64": "i64",
                 "BOOL": "bool", "STRING": "string", "ARRAY": "array"}[t.name] for t in field.types]
        is_array = kind[0] == "array"
        # The parts of a field: key, type, for arrays element type and length, then the values.
        values = field.parts[5 if is_array else 3:]
        data = b"".join(np.asarray(part).tobytes() for part in values)
        lines.append((key, kind[0], kind[-1], str(len(field.data) if is_array else 1), crc(data)))
    return lines


def check_gguf(tool, folder):
    path = folder / "all.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("k.u8", 200)
    writer.add_int8("k.i8", -3)
    writer.add_uint16("k.u16", 60000)
    writer.add_int16("k.i16", -3)
    writer.add_uint32("k.u32", 4000000000)
    writer.add_int32("k.i32", -3)
    writer.add_uint64("k.u64", 2**40)
    writer.add_int64("k.i64", -2**40)
    writer.add_float32("k.f32", 1.5)
    writer.add_float64("k.f64", 1e-300)
    writer.add_bool("k.bool", True)
    writer.add_string("k.string", "grüße")
    writer.add_array("k.strings", ["a", "bb", "ü"])
    writer.add_array("k.ints", [1, -2, 3])
    writer.add_array("k.floats", [0.5, -1.0])
    writer.add_array("k.bools", [True, False])
    rng = np.random.default_rng(8)
    types = gguf.GGMLQuantizationType
    for dtype in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        writer.add_tensor(f"t.{np.dtype(dtype).name}", (rng.standard_normal((3, 5)) * 10).astype(dtype))
    for kind in (types.BF16, types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0, types.MXFP4):
        data = gguf.quants.quantize(rng.standard_normal((3, 64)).astype(np.float32), kind)
        writer.add_tensor(f"t.{kind.name}", data, raw_dtype=kind)
    for kind in (types.Q2_K, types.Q3_K, types.Q4_K, types.Q5_K, types.Q6_K, types.IQ4_XS):
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        data = rng.integers(0, 256, (2, 2 * size), np.uint8)
        writer.add_tensor(f"t.{kind.name}", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    compare_gguf(tool, path, "gguf: what gguf-py writes")


def compare_gguf(tool, path, name):
    listed, expected = tool.lines("list", path), gguf_tensor_lines(path)
    check(f"{name}: tensors", listed == expected, (listed[:2], expected[:2]))
    listed, expected = tool.lines("meta", path), gguf_meta_lines(path)
    check(f"{name}: metadata", listed == expected, set(listed) ^ set(expected))


# ---- numpy

NPY_NAMES = {"bool": "bool", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16",
             "uint32": "u32", "int32": "i32", "uint64": "u64", "int64": "i64", "float16": "f16",
             "float32": "f32", "float64": "f64"}


def check_numpy(tool, folder):
    rng = np.random.default_rng(9)
    arrays = {}
    for dtype in NPY_NAMES:
        for shape in ((), (4,), (2, 3), (2, 3, 4), (0, 2)):
            arrays[f"{dtype}/{len(shape)}.{int(np.prod(shape))}"] = (
                rng.standard_normal(shape) * 50).astype(dtype) if shape else np.array(7, dtype)
    expected = {(n, NPY_NAMES[a.dtype.name], shape_text(a.shape), crc(a.tobytes())) for n, a in arrays.items()}
    for writer in (np.savez, np.savez_compressed):
        path = folder / "all.npz"
        writer(path, **arrays)
        check(f"npz: what numpy.{writer.__name__} writes", set(tool.lines("list", path)) == expected)
    copy = folder / "copy.npz"
    done = tool.run("copy", path, copy)
    with np.load(copy, allow_pickle=False) as loaded:
        same = set(loaded.files) == set(arrays) and all(
            loaded[n].dtype == a.dtype and loaded[n].shape == a.shape and loaded[n].tobytes() == a.tobytes()
            for n, a in arrays.items())
    check("npz: numpy reads ours", done.returncode == 0 and same, done.stderr)

    values = (rng.standard_normal((3, 4, 5)) * 50)
    cases = {"fortran": np.asfortranarray(values.astype("<f4")), "big_endian": values.astype(">f4"),
             "both": np.asfortranarray(values.astype(">i2")), "strided": values.astype("<f8")[:, ::2]}
    for name, array in cases.items():
        path = folder / f"{name}.npy"
        np.save(path, array)
        native = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="))
        line = (name, NPY_NAMES[native.dtype.name], shape_text(array.shape), crc(native.tobytes()))
        check(f"npy: {name}", tool.lines("list", path) == [line])
    path, copy = folder / "bf16.npy", folder / "copy.npy"
    raw = np.frombuffer(rng.bytes(12), "V2").reshape(2, 3)  # the form ml_dtypes gives bfloat16
    np.save(path, raw)
    check("npy: bfloat16", tool.lines("list", path) == [("bf16", "bf16", "[2, 3]", crc(raw.tobytes()))])
    tool.run("copy", path, copy)
    check("npy: numpy reads our bfloat16", np.load(copy).tobytes() == raw.tobytes())
    np.save(folder / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    check("npy: objects are refused", tool.run("list", folder / "object.npy").returncode == 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    tool = Tool(args.tool)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_safetensors(tool, folder)
        check_gguf(tool, folder)
        check_numpy(tool, folder)
    for path in args.files:
        if path.suffix == ".gguf":
            compare_gguf(tool, path, path.name)
        else:
            check(path.name, set(tool.lines("list", path)) == safetensors_lines(path))
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
