#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into fuzz/corpus/<target>/.

Small valid files of every feature, and files with one thing wrong each. The bytes depend on
nothing but this script and the templates in tests/generators (standard library only), so running
it again changes nothing:

    python3 tools/make_fuzz_corpus.py
"""

import io
import json
import pathlib
import struct
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "generators"))
import chat_expressions
import chat_templates

ROOT = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus"


def safetensors(header, data=b"", pad=True):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    if pad:
        text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    yield "empty", safetensors({})
    yield "one_f32", safetensors({"a": entry("F32", [2, 2], 0, 16)}, bytes(range(16)))
    yield "metadata", safetensors({"__metadata__": {"format": "pt", "ü": "\n"},
                                   "b": entry("BF16", [1], 0, 2)}, b"\x80\x3f")
    header, at = {}, 0
    sizes = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2,
             "U16": 2, "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8,
             "U64": 8, "C64": 8, "NEW": 3}
    for dtype, size in sizes.items():
        header[dtype.lower()] = entry(dtype, [], at, at + size)
        at += size
    yield "all_types", safetensors(header, bytes(at))
    yield "f4", safetensors({"a": entry("F4", [3, 4], 0, 6)}, bytes(6))
    yield "zero_size", safetensors({"a": entry("F32", [0, 3], 4, 4), "b": entry("F32", [1], 0, 4)}, bytes(4))
    yield "any_order", safetensors({"z": entry("U8", [2], 2, 4), "a": entry("U8", [2], 0, 2)}, bytes(4))
    yield "trailing", safetensors({"a": entry("U8", [2], 0, 2)}, bytes(5))
    yield "truncated", safetensors({"a": entry("U8", [9], 0, 9)}, bytes(5))
    yield "overlap", safetensors({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6))
    yield "huge_shape", safetensors({"a": entry("F64", [2**62, 4], 0, 0)})
    yield "huge_end", safetensors({"a": entry("U8", [1], 0, 2**64 - 1)}, bytes(1))
    yield "duplicate", safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
                                   b'"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    yield "huge_length", struct.pack("<Q", 2**64 - 1) + b"{}"
    yield "nul", safetensors(b"{}\0{", pad=False)
    yield "lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(entries=(), tensors=(), data=b"", version=3, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    out += b"".join(entries) + b"".join(tensors)
    if data:
        out += b"\0" * (-len(out) % alignment) + data + b"\0" * (-len(data) % alignment)
    return out


def kv(key, kind, payload):
    return text(key) + struct.pack("<I", kind) + payload


def array(key, kind, count, payload):
    return kv(key, 9, struct.pack("<IQ", kind, count) + payload)


def info(name, dims, kind, offset):
    return text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims) \
        + struct.pack("<IQ", kind, offset)


def gguf_seeds():
    scalars = [kv("u8", 0, b"\1"), kv("i8", 1, b"\xff"), kv("u16", 2, b"\1\2"), kv("i16", 3, b"\xff\xff"),
               kv("u32", 4, bytes(4)), kv("i32", 5, bytes(4)), kv("f32", 6, struct.pack("<f", 1.5)),
               kv("bool", 7, b"\1"), kv("s", 8, text("grüße")), kv("u64", 10, b"\xff" * 8),
               kv("i64", 11, bytes(8)), kv("f64", 12, struct.pack("<d", -2.0))]
    arrays = [array("tokens", 8, 3, text("a") + text("") + text("ccc")),
              array("scores", 6, 2, struct.pack("<ff", 0.5, float("nan"))),
              array("types", 5, 2, struct.pack("<ii", 1, -1)), array("b", 7, 3, b"\1\0\1"),
              array("heads", 4, 2, struct.pack("<II", 4, 8)), array("none", 10, 0, b"")]
    yield "empty", gguf()
    yield "version2", gguf(scalars[:1], version=2)
    yield "scalars", gguf(scalars)
    yield "arrays", gguf(arrays)
    blocks = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
              10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
              23: (256, 136), 24: (1, 1), 28: (1, 8), 30: (1, 2), 39: (32, 17)}
    tensors, data = [], b""
    for kind, (elements, size) in blocks.items():
        data += b"\0" * (-len(data) % 32)
        tensors.append(info(f"t{kind}", [elements, 2], kind, len(data)))
        data += bytes(range(2 * size)) if 2 * size < 256 else bytes(2 * size)
    yield "all_types", gguf(scalars[:2], tensors, data)
    one = [info("w", [4, 2], 0, 0)]
    yield "one", gguf([kv("general.architecture", 8, text("llama"))], one, bytes(32))
    yield "alignment", gguf([kv("general.alignment", 4, struct.pack("<I", 64))],
                            [info("a", [4], 24, 0), info("b", [4], 24, 64)], bytes(68), alignment=64)
    for value in (0, 3, 2**30):
        yield f"alignment_{value}", gguf([kv("general.alignment", 4, struct.pack("<I", value))], one, bytes(32))
    yield "big_endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    yield "dims9", gguf([], [text("w") + struct.pack("<I", 9) + bytes(84)], bytes(32))
    yield "wrap", gguf([], [info("w", [2**63 - 1, 2, 1, 1], 0, 0)], bytes(32))
    yield "overlap", gguf([], [info("a", [64], 24, 0), info("b", [8], 24, 32)], bytes(64))
    yield "nested", gguf([array("n", 9, 1, struct.pack("<IQ", 0, 1) + b"\1")])
    yield "array_2_63", gguf([array("n", 0, 2**63, b"\1")])
    yield "counts", b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60) + bytes(64)
    yield "scalar", gguf([], [info("s", [], 0, 0)], bytes(4))
    yield "trailing", gguf([], one, bytes(32)) + b"xyz"


def npy(descr="<f4", shape="(2,)", data=bytes(8), fortran="False", major=1):
    head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if major == 1 else "<I", len(head))
    return b"\x93NUMPY" + bytes([major, 0]) + length + head + data


def npz(members, method=zipfile.ZIP_STORED, zip64=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.compress_type = method
            with archive.open(member, "w", force_zip64=zip64) as stream:
                stream.write(content)
    return out.getvalue()


def npz_seeds():
    yield "npy", npy()
    yield "npy_v3", npy(major=3)
    yield "npy_fortran", npy("<i2", "(2, 3)", bytes(12), "True")
    yield "npy_big_endian", npy(">f8", "(1,)")
    yield "npy_bf16", npy("<V2", "(2, 2)")
    yield "npy_bool", npy("|b1", "()", b"\1")
    yield "npy_object", npy("|O", "(1,)", b"\x80\x04.")
    yield "npy_huge", npy(shape="(4611686018427387904, 4)")
    members = {"a.npy": npy(), "blocks.0/q.npy": npy("<f2", "(1, 4)"), "note.txt": b"x"}
    yield "stored", npz(members)
    yield "deflated", npz(members, zipfile.ZIP_DEFLATED)
    yield "zip64", npz(members, zip64=True)
    yield "empty", npz({})
    zeros = npy("|u1", "(100000,)", bytes(100000))
    yield "ratio", npz({"z.npy": zeros}, zipfile.ZIP_DEFLATED)
    broken = bytearray(npz(members, zipfile.ZIP_DEFLATED))
    broken[60] ^= 255
    yield "damaged", bytes(broken)
    yield "truncated", npz(members)[:-9]


def json_seeds():
    yield "config", json.dumps({"hidden_size": 576, "rope_theta": 1e5, "tie": True, "x": None,
                                "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
                                "architectures": ["A"], "n": -3}, indent=1).encode()
    yield "tokenizer", json.dumps({"model": {"type": "BPE", "vocab": {"Ġa": 0, "\u00e9": 1, "😀": 2},
                                             "merges": [["a", "b"], "c d"]}}).encode()
    for name, content in {"escapes": rb'["\u00e9\ud83d\ude00\n\"\\\/"]', "numbers": b"[0,-0,1.5e-3,18446744073709551615,1e999]",
                          "duplicate": b'{"a":1,"a":2}', "trailing": b"{}{}", "nul": b"{}\0x",
                          "nested": b"[" * 200, "bom": b"\xef\xbb\xbf{}", "utf8": b'"\xff"', "nan": b"NaN",
                          "empty": b""}.items():
        yield name, content


def chat_template_seeds():
    for name in ("llama31", "mistral3", "qwen3", "gemma", "granite", "macros"):
        template = chat_templates.TEMPLATES[name][0]
        messages = chat_templates.CONVERSATIONS["tools"]["messages"]
        yield name, template.encode() + b"\0" + json.dumps(messages).encode()
    for number, template in enumerate(chat_expressions.TEMPLATES[::12]):
        yield f"small_{number}", template.encode()


def main():
    for target, seeds in (("safetensors", safetensors_seeds), ("gguf", gguf_seeds),
                          ("npz", npz_seeds), ("json", json_seeds),
                          ("chat_template", chat_template_seeds)):
        folder = ROOT / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
