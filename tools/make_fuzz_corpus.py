#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into fuzz/corpus/<target>/.

Small valid files of every feature, and files with one thing wrong each. The bytes depend on
nothing but this script, the templates in tests/generators and the dumps in tests/golden (standard
library only), so running it again changes nothing:

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


def word(key, value):
    if isinstance(value, bool):
        return kv(key, 7, bytes([value]))
    if isinstance(value, int):
        return kv(key, 4, struct.pack("<I", value))
    if isinstance(value, float):
        return kv(key, 6, struct.pack("<f", value))
    return kv(key, 8, text(value))


SIZES = dict(context_length=64, embedding_length=24, block_count=2, feed_forward_length=22)
HEADS = {"attention.head_count": 4, "attention.head_count_kv": 2}
RMS = {"attention.layer_norm_rms_epsilon": 0.5}
LAYER = {"attention.layer_norm_epsilon": 0.5}
ROPE = {"rope.freq_base": 700.0, "rope.dimension_count": 4}
WINDOW = {"attention.sliding_window": 3, "attention.sliding_window_pattern": 2}
ARCHS = {
    "llama": RMS | ROPE | {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "attention.key_length": 8,
                           "rope.scaling.original_context_length": 16, "vocab_size": 5},
    "granite": RMS | ROPE | {"attention.scale": 0.25, "embedding_scale": 3.0, "residual_scale": 0.5,
                             "logit_scale": 2.0},
    "qwen2": RMS | {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
    "qwen3": RMS | {"attention.key_length": 8, "attention.value_length": 8},
    "gemma": RMS,
    "gemma2": RMS | WINDOW | {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 7.0},
    "gemma3": RMS | WINDOW | {"rope.freq_base_swa": 90.0, "final_logit_softcapping": 7.0},
    "olmo": LAYER | ROPE | {"attention.clamp_kqv": 0.0},
    "olmo2": RMS | ROPE,
    "phi3": RMS | {"attention.sliding_window": 3, "rope.scaling.original_context_length": 16},
    "gpt2": LAYER,
    "gptneox": LAYER | ROPE | {"use_parallel_residual": True},
    "falcon": LAYER | {"tensor_data_layout": "jploski"},
    "stablelm": LAYER | ROPE | {"use_parallel_residual": False},
    "starcoder2": LAYER | {"attention.sliding_window": 3},
    "phi2": LAYER | ROPE,
    "command-r": LAYER | {"logit_scale": 0.5, "rope.scaling.type": "none"},
    "cohere2": LAYER | ROPE | WINDOW | {"logit_scale": 0.5},
    "bert": LAYER | {"attention.causal": False, "pooling_type": 1},
}


def words_file(arch, words, tensors=()):
    entries = [kv("general.architecture", 8, text(arch))]
    entries += [word(f"{arch}.{key}", value) for key, value in (SIZES | HEADS | words).items()]
    infos, data = [], b""
    for name, dims, kind, size in (("token_embd.weight", [24, 5], 24, 120), *tensors):
        data += b"\0" * (-len(data) % 32)
        infos.append(info(name, dims, kind, len(data)))
        data += b"\1" * size
    return gguf(entries, infos, data)


COMMON = dict(vocab_size=41, hidden_size=24, num_hidden_layers=2, num_attention_heads=4)
GROUPED = COMMON | dict(num_key_value_heads=2, intermediate_size=22, max_position_embeddings=64)
TYPES = ["sliding_attention", "full_attention"]
LONG = dict(rope_type="longrope", short_factor=[1.0, 1.5, 2], long_factor=[1, 3.0, 7.0], factor=4.0)
YARN = dict(rope_type="yarn", rope_theta=700.0, factor=4.0, beta_fast=3.0, beta_slow=0.5,
            original_max_position_embeddings=16, attention_factor=1.5)
LLAMA3 = dict(type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
CONFIGS = {
    "llama": GROUPED | dict(head_dim=6, rope_theta=700.0, rope_scaling=LLAMA3, attention_bias=True),
    "mistral": GROUPED | dict(sliding_window=3, rope_parameters=YARN),
    "granite": GROUPED | dict(embedding_multiplier=3.0, logits_scaling=2.0, attention_multiplier=0.25),
    "qwen2": GROUPED | dict(use_sliding_window=True, sliding_window=3, max_window_layers=1),
    "qwen3": GROUPED | dict(head_dim=8, layer_types=["full_attention"] * 2),
    "gemma": GROUPED | dict(head_dim=8, hidden_act="gelu"),
    "gemma2": GROUPED | dict(head_dim=8, layer_types=TYPES, attn_logit_softcapping=3.0, sliding_window=3),
    "gemma3_text": GROUPED | dict(head_dim=6, sliding_window_pattern=2, rope_parameters=dict(
        full_attention=dict(rope_type="linear", factor=2.0), sliding_attention=dict(rope_theta=90.0))),
    "gemma3": dict(text_config=GROUPED | dict(model_type="gemma3_text", head_dim=8), vision_config={}),
    "olmo2": GROUPED | dict(rms_norm_eps=0.5),
    "phi": GROUPED | dict(partial_rotary_factor=0.7, qk_layernorm=True, rope_parameters=None),
    "phi3": GROUPED | dict(rope_scaling=LONG, original_max_position_embeddings=16, sliding_window=None),
    "stablelm": GROUPED | dict(use_qkv_bias=True, qk_layernorm=True, partial_rotary_factor=0.7),
    "cohere": GROUPED | dict(use_qk_norm=True, logit_scale=0.5),
    "cohere2": GROUPED | dict(layer_types=TYPES, sliding_window=3),
    "gpt2": dict(vocab_size=41, n_embd=24, n_layer=2, n_head=4, n_inner=None, scale_attn_by_inverse_layer_idx=True),
    "gpt3": dict(vocab_size=41, n_embd=24, n_layer=2, n_head=4, band_width=3),
    "gptj": dict(vocab_size=41, n_embd=24, n_layer=2, n_head=4, rotary_dim=4),
    "gpt_neox": COMMON | dict(rotary_pct=0.7, rotary_emb_base=700, use_parallel_residual=False),
    "falcon": COMMON | dict(new_decoder_architecture=True, num_kv_heads=2, bias=True),
    "opt": COMMON | dict(ffn_dim=22, word_embed_proj_dim=14, do_layer_norm_before=False),
    "bert": COMMON | dict(architectures=["BertForMaskedLM"], type_vocab_size=3, hidden_act="gelu_new"),
    "marian": dict(vocab_size=41, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                   decoder_attention_heads=4, activation_function="swish", scale_embedding=True),
    "olmo": GROUPED,
    "starcoder2": GROUPED | dict(sliding_window=3),
    "torch_transformer": dict(vocab_size=41, d_model=24, nhead=4, num_encoder_layers=2, num_decoder_layers=2,
                              dim_feedforward=22, scale_embedding=True),
    "palm": dict(num_tokens=41, dim=24, depth=2, heads=4, dim_head=6, norm="rms"),
}


def model_words_seeds():
    """Words alone: a table of bytes for the vocabulary, and what else a reader looks at."""
    for arch, words in ARCHS.items():
        yield f"gguf_{arch}", words_file(arch, words)
    longrope = [(f"rope_factors_{kind}.weight", [3], 0, 12) for kind in ("long", "short")]
    yield "gguf_phi3_longrope", words_file("phi3", ARCHS["phi3"] | {"rope.scaling.attn_factor": 1.25}, longrope)
    yield "gguf_llama_freqs", words_file("llama", RMS, [("rope_freqs.weight", [3], 0, 12)])
    yield "gguf_gpt2_biases", words_file("gpt2", LAYER, [("blk.0.attn_qkv.bias", [72], 24, 72)])
    for kind, config in CONFIGS.items():
        yield f"config_{kind}", json.dumps({"model_type": kind} | config).encode()
    yield "config_falcon_alibi", json.dumps({"model_type": "falcon", "alibi": True} | COMMON).encode()


DUMPS = ROOT.parent.parent / "tests" / "golden" / "dumps"
NODE = "ggml_debug: a = (f32) ADD(b{2, 2, 1, 1}, }) = {%s}\n"
CALL = '{"module_path":"M","outputs":{"shape":"%s","dtype":"%s","value":%s}}'


def dump_seeds():
    for name in ("small.pt", "big_endian.pt", "no_checksums.pt", "lone.pt", "legacy.pt"):
        yield name.replace(".", "_"), (DUMPS / name).read_bytes()
    yield "llama", (DUMPS / "llama_new.txt").read_bytes()[:1500]
    yield "debugger", (CALL % ("torch.Size([2])", "torch.float32", '["tensor([1., 2.])"]')).encode()
    yield "npy", npy()
    yield "npz", npz({"a.npy": npy(), "text.npy": npy("<U2"), "o.npy": npy("|O")})
    yield "safetensors", safetensors({"a": entry("F32", [1], 0, 4), "c": entry("C64", [1], 4, 12)}, bytes(12))
    yield "tar", b"a" * 257 + b"ustar"
    yield "utf16", b"\xff\xfeg\0g\0"


def pickle_seeds():
    for name in ("tree", "protocol5", "small", "lone"):
        with zipfile.ZipFile(DUMPS / f"{name}.pt") as archive:
            yield name, archive.read(f"{name}/data.pkl")
    for name, body in {"code": b"cos\nsystem\n(X\x01\0\0\0xtR", "cycle": b"]q\1h\1a", "deep": b"]" * 99 + b"a" * 98,
                       "bomb": b"](Nq\1h\1e" + b"q\1](h\1h\1e" * 20, "tokens": b"](K\1K\2e", "rows": b"](](K\1e](K\2ee",
                       "mark": b"(((", "memo": b"Nj\1\0\0\0", "long": b"\x8b\xff\xff\xff\xff", "call": b"N)R",
                       "ordered": b"ccollections\nOrderedDict\n)R}b"}.items():
        yield name, b"\x80\x02" + body + b"."


def printed_text_seeds():
    yield "new", (DUMPS / "llama_new.txt").read_bytes()[:2500]
    yield "old", (DUMPS / "llama_old.txt").read_bytes()[:2500]
    rows = "[\n[\n[1.0, 2.0],\n[3.0, %s],\n],\n]\nsum = 10\n"
    for name, tail in {"plain": "4.0", "nan": "-nan(ind)", "inf": "inf", "gap": "..., 4.0", "gaps": "..., ...",
                       "word": "x", "more": "4.0, 5.0", "exponent": "1e999"}.items():
        yield name, (NODE % "2, 2, 1, 1" + rows % tail).encode()
    yield "huge", (NODE % "4611686018427387904, 4, 1, 1").encode()
    yield "three", (NODE % "2, 2, 1").encode()
    yield "blocks", (NODE % "2, 2, 1, 2" + 2 * (rows % "4.0")).encode()
    size, kind = "torch.Size([2, 2])", "torch.float32"
    for name, value in {"json": '["tensor([[1.0, 2.0],"," [3.0, 4.0]])"]', "json_file": '"./a.safetensors"',
                        "json_number": "7", "json_short": '["tensor([[1.0]])"]'}.items():
        yield name, (CALL % (size, kind, value)).encode()
    yield "json_scalar", (CALL % ("torch.Size([])", "torch.bool", '["tensor(True)"]')).encode()
    yield "json_empty", (CALL % ("torch.Size([0])", kind, '["tensor([])"]')).encode()
    yield "json_summary", (DUMPS / "debugger" / "Twice_debug_tree_SUMMARY.json").read_bytes()


def folder(files):
    """Files as fuzz/dump_folder_target.h reads them."""
    return b"".join(bytes([len(name)]) + name.encode() + struct.pack("<H", len(content)) + content
                    for name, content in files.items())


def dump_folder_seeds():
    yield "arrays", folder({"a.npy": npy(), "blocks/0/q.npy": npy("<f2", "(1, 2, 1)", bytes(4)), "note.txt": b"x"})
    yield "none", folder({"note.txt": b"x"})
    yield "text_array", folder({"a.npy": npy("<U2"), "b.npy": npy()})
    yield "short_array", folder({"a.npy": npy()[:-1]})
    yield "folder_array", folder({"a.npy/b.npy": npy()})
    yield "deep", folder({"/".join("d" * 18) + "/a.npy": npy()})
    yield "placeholder", folder({"a.npy": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"})
    value = safetensors({"data": entry("F32", [2], 0, 8)}, bytes(8))
    call = (CALL % ("torch.Size([2])", "torch.float32", '"./v.safetensors"')).encode()
    tree = "M_debug_tree_FULL_TENSORS.json"
    yield "debugger", folder({tree: call, "v.safetensors": value})
    yield "debugger_missing", folder({tree: call})
    yield "debugger_shape", folder({tree: call.replace(b"[2]", b"[3]"), "v.safetensors": value})
    yield "debugger_type", folder({tree: call.replace(b"float32", b"float16"), "v.safetensors": value})
    two = safetensors({"data": entry("F32", [1], 0, 4), "more": entry("F32", [1], 4, 8)}, bytes(8))
    yield "debugger_two", folder({tree: call, "v.safetensors": two})
    yield "debugger_outside", folder({tree: call.replace(b"./v", b"../v"), "v.safetensors": value})
    twice = b'{"module_path":"M","children":[' + call + b"," + call + b"]}"
    yield "debugger_twice", folder({tree: twice, "v.safetensors": value})
    yield "two_trees", folder({tree: call, "N" + tree: call, "v.safetensors": value})
    yield "summary", folder({"M_debug_tree_SUMMARY.json": call})


def name_map_seeds():
    yield "plain", b"my.q = blocks.0.q\nmy.k=blocks.1.k_rot\n"
    yield "comments", b"# names\n\n  a  =  logits  # not one\n"
    yield "equals", b"a = b = tokens\n"
    yield "twice", b"a = embed\na = logits\n"
    yield "no_site", b"a = blocks.0.nothing\n"
    yield "no_layer", b"a = blocks.99.q\n"
    yield "huge_layer", b"a = blocks.99999999999999999999.q\n"
    yield "empty", b""
    yield "half", b"a =\n= embed\n"
    yield "every_block", b"a.* = blocks.*.q\na.1 = blocks.0.q\nb = blocks.*.pattern\nc.* = encoder.blocks.*.q\n"
    yield "stars", b"*.* = blocks.*.q\n* = embed\na = blocks.*.*\na = *\n"
    yield "crlf", b"a = embed\r\nb = blocks.0.resid_pre\r\n"
    yield "stacks", b"a = encoder.blocks.0.q\nb = decoder.blocks.0.cross_q\nc = decoder.logits\n"
    yield "modules", (b"model.layers.0.self_attn.q_proj.output.0\ntransformer.h.1.attn.c_attn\n"
                      b"model.layers.0.mlp.inputs.args.0\nhidden_states.2\nencoder_hidden_states.0\n"
                      b"cross_attentions.1\nlast_hidden_state\nx.vision.layers.0.mlp\n")
    yield "hooks", b"blocks.0.hook_resid_pre\nblocks.1.attn.hook_pattern\nhook_embed\nblocks.0.hook_out\nln_final.hook_scale\n"
    yield "nodes", b"Qcur-0\nQcur-0#ROPE\nl_out-1\nkqv_out-0\nQcur-0 (reshaped)\ninp_embd\nblk.0.attn_q.weight\nnorm-0#RMS_NORM\n"
    yield "inputs", b"input_ids\nattention_mask\ndecoder.input_ids\nposition_ids\nM.inputs.args.0\n"


def record(naming=0, value=0, layout=0, kind=0, what=0, edits=(), extra=b""):
    """A tensor as MadeDump::add_record in fuzz/made_dumps.h reads it; `extra` stands behind the value."""
    out = bytes([naming, value]) + extra + bytes([layout, kind, what, len(edits)])
    for at, number in edits:
        out += bytes([at % 256, at // 256, number])
    return out


def aligned_dump_seeds():
    ids = record(7, extra=b"\0\0")
    every = b"".join(record(value=value) for value in range(1, 23))
    for model in range(16):
        yield f"sound_{model}", bytes([model, 6, 1]) + every
    yield "tokens", bytes([0, 8, 0]) + ids + every
    for naming, name in enumerate(("modules", "hooks", "nodes"), 1):
        for model in (0, 1, 2, 6):
            yield f"{name}_{model}", bytes([model, 6, 1]) + b"".join(record(naming, v) for v in range(1, 23))
    for naming, name in ((4, "bridge"), (5, "more_hooks"), (6, "more_nodes")):
        yield name, bytes([0, 6, 1]) + b"".join(record(naming, v, extra=b"\0") for v in range(1, 23))
    yield "bf16", bytes([4, 8, 0]) + ids + b"".join(record(value=v, kind=4) for v in range(1, 23))
    yield "f16", bytes([1, 8, 0]) + ids + b"".join(record(value=v, kind=3) for v in range(1, 23))
    yield "nan", bytes([0, 6, 1]) + b"".join(record(value=v, edits=[(5, 0)] if v == 9 else []) for v in range(1, 23))
    yield "nan_other_name", bytes([0, 6, 1]) + b"".join(record(value=v, edits=[(5, 0)] if v == 14 else [])
                                                        for v in range(12, 18))
    yield "inf", bytes([3, 6, 1]) + b"".join(record(value=v, edits=[(7, 1)] if v == 12 else []) for v in range(1, 23))
    yield "scaled", bytes([2, 8, 0]) + ids + b"".join(record(value=v, what=2 + 4 * 17 if v == 6 else 0)
                                                     for v in range(1, 23))
    yield "layouts", bytes([0, 6, 1]) + b"".join(record(value=v, layout=(0, 1, 2, 5)[v % 4]) for v in range(1, 23))
    yield "odd_layouts", bytes([0, 6, 1]) + b"".join(record(value=v, layout=v % 12) for v in range(1, 23))
    yield "tokens_first", bytes([0, 8, 0]) + ids + b"".join(record(value=v, layout=3) for v in range(1, 23))
    yield "padded", bytes([0, 8, 0]) + ids + record(7, extra=b"\3\x0c") + every
    yield "padded_behind", bytes([0, 8, 0]) + ids + record(7, edits=[(4, 3)], extra=b"\3\2") + every
    yield "mask_nan", bytes([0, 8, 0]) + ids + record(7, kind=1, edits=[(1, 0)], extra=b"\3\2") + every
    yield "positions", bytes([1, 8, 0]) + ids + record(7, extra=b"\4\x0d") + every
    yield "types", bytes([2, 8, 0]) + ids + record(7, extra=b"\5\3") + every
    yield "layers", bytes([0, 6, 5, 1, 1]) + b"".join(record(value=v) for v in range(20, 43))
    yield "no_layers", bytes([0, 6, 5, 255, 9]) + every
    yield "declared", bytes([0, 6, 1 + 3 * 16]) + every
    yield "wrong_token", bytes([0, 6, 3, 255]) + every
    yield "map", bytes([0, 6, 1]) + b"".join(record(9, v) for v in range(1, 23))
    yield "map_of_blocks", bytes([0, 6, 1]) + b"".join(record(11, v) for v in range(1, 23))
    yield "stacked", bytes([0, 6, 1]) + record(12, 3) + record(12, 13)
    yield "one_in_float32", bytes([12, 6, 1]) + b"".join(record(value=v, kind=2 if v == 6 else 0) for v in range(1, 23))
    yield "types_mixed", bytes([0, 6, 1]) + b"".join(record(value=v, kind=1 + v % 4) for v in range(1, 23))
    yield "nan_in_second_call", bytes([0, 6, 1]) + record(value=12) + record(value=13) + record(value=12, edits=[(5, 0)])
    yield "own_map", bytes([0, 6, 1]) + record(10, 3, extra=b"\1a\5embed") + every
    yield "fused", bytes([6, 6, 1]) + record(72, 5, extra=b"\x2bgpt_neox.layers.0.attention.query_key_value") + every
    text = b"".join(record(3, v) + bytes([v % 16, v, 0]) for v in range(1, 20))
    for model in (0, 1, 4, 6):
        yield f"text_{model}", bytes([model, 9, 9]) + text


def main():
    for target, seeds in (("dump", dump_seeds), ("dump_folder", dump_folder_seeds), ("pickle", pickle_seeds),
                          ("name_map", name_map_seeds), ("aligned_dump", aligned_dump_seeds),
                          ("printed_text", printed_text_seeds),
                          ("safetensors", safetensors_seeds), ("gguf", gguf_seeds),
                          ("model_words", model_words_seeds),
                          ("npz", npz_seeds), ("json", json_seeds),
                          ("chat_template", chat_template_seeds)):
        folder = ROOT / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main()
