#!/usr/bin/env python3
"""Prints every node that llama.cpp computes in the form of its llama-eval-callback.

    pip install xllamacpp==2026.10.11549
    python tests/dumps/llama_callback.py MODEL.gguf 1,504,260 [--flash] [--full] > dump.txt

The package is a wheel whose one extension holds llama.cpp and exports its C functions; they are called directly, as the
package itself offers no callback. The scheduler calls it before a node (wanted: yes) and after it; the node's values are
then read out of its memory by its strides. Nodes that are not of numbers, as quantised ones, have a line and no values.
"""

import argparse
import ctypes
import importlib.util
import pathlib
import sys

import numpy as np

SHOWN = 3  # elements at each end of a dimension
ALL = 1 << 30
# enum ggml_type: what is printed.
TYPES = {0: np.float32, 1: np.float16, 24: np.int8, 25: np.int16, 26: np.int32, 27: np.int64}
F16 = 1
FLASH_OFF, FLASH_ON = 0, 1
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)
LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Tensor(ctypes.Structure):
    """struct ggml_tensor of ggml.h."""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * 4), ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * 16), ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(Tensor) * 10), ("view_src", ctypes.POINTER(Tensor)), ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p), ("name", ctypes.c_char * 64)]


class ContextParams(ctypes.Structure):
    """struct llama_context_params of llama.h; what follows the callback is handed on as it came."""
    _fields_ = [(name, ctypes.c_uint32) for name in (
        "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq", "n_outputs_max", "n_outputs_max_per_seq")] + [
        (name, ctypes.c_int32) for name in (
            "n_threads", "n_threads_batch", "ctx_type", "rope_scaling_type", "pooling_type", "attention_type",
            "flash_attn_type")] + [
        (name, ctypes.c_float) for name in (
            "rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast",
            "yarn_beta_slow")] + [
        ("yarn_orig_ctx", ctypes.c_uint32), ("defrag_thold", ctypes.c_float), ("cb_eval", CALLBACK),
        ("cb_eval_user_data", ctypes.c_void_p), ("type_k", ctypes.c_int), ("type_v", ctypes.c_int),
        ("rest", ctypes.c_uint8 * 256)]

    def is_known(self):
        """Whether the library's defaults stand where this layout says."""
        return (self.n_ctx, self.n_batch, self.yarn_beta_fast, self.defrag_thold, self.type_k, self.type_v) == (
            512, 2048, -1.0, -1.0, F16, F16) and not self.cb_eval


class ModelParams(ctypes.Structure):
    """struct llama_model_params, as it comes and larger than it is."""
    _fields_ = [("bytes", ctypes.c_uint8 * 256)]


class Batch(ctypes.Structure):
    """struct llama_batch."""
    _fields_ = [("n_tokens", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in (
        "token", "embd", "pos", "n_seq_id", "seq_id", "logits")]


def library():
    """llama.cpp, or ImportError."""
    package = importlib.util.find_spec("xllamacpp")
    if package is None:
        raise ImportError("no package xllamacpp")
    path = next(pathlib.Path(package.origin).parent.glob("xllamacpp*.so"))
    llama = ctypes.CDLL(str(path))
    llama.ggml_op_desc.restype = llama.ggml_type_name.restype = ctypes.c_char_p
    llama.ggml_op_desc.argtypes = [ctypes.c_void_p]
    llama.ggml_nbytes.restype = ctypes.c_size_t
    llama.ggml_nbytes.argtypes = [ctypes.c_void_p]
    llama.llama_model_default_params.restype = ModelParams
    llama.llama_context_default_params.restype = ContextParams
    llama.llama_model_load_from_file.restype = llama.llama_init_from_model.restype = ctypes.c_void_p
    llama.llama_model_load_from_file.argtypes = [ctypes.c_char_p, ModelParams]
    llama.llama_init_from_model.argtypes = [ctypes.c_void_p, ContextParams]
    llama.llama_batch_get_one.restype = Batch
    llama.llama_batch_get_one.argtypes = [ctypes.POINTER(ctypes.c_int32), ctypes.c_int32]
    llama.llama_decode.argtypes = llama.llama_encode.argtypes = [ctypes.c_void_p, Batch]
    llama.llama_model_has_decoder.restype = ctypes.c_bool
    llama.llama_free.argtypes = llama.llama_model_free.argtypes = [ctypes.c_void_p]
    llama.llama_log_set.argtypes = [LOG_CALLBACK, ctypes.c_void_p]
    return llama


def dims(tensor):
    return "{" + ", ".join(str(size) for size in tensor.ne) + "}"


def operand(pointer):
    return f"{pointer.contents.name.decode()}{dims(pointer.contents)}" if pointer else ""


def values(tensor, size_bytes):
    """[ne3,ne2,ne1,ne0], whatever its strides."""
    kind = np.dtype(TYPES[tensor.type])
    memory = (ctypes.c_uint8 * size_bytes).from_address(tensor.data)
    return np.ndarray(tuple(reversed(tensor.ne)), kind, memory, strides=tuple(reversed(tensor.nb))).astype(np.float32)


def ends(count, shown):
    """Indices that are shown; None for the dots between them."""
    if count <= 2 * shown:
        return list(range(count))
    return [*range(shown), None, *range(count - shown, count)]


def row_text(row, shown):
    number = "{:12.4f}" if shown == SHOWN else "{:.9g}"
    text = ""
    for i in ends(len(row), shown):
        text += "   ..., " if i is None else number.format(row[i]) + (", " if i < len(row) - 1 else "")
    return text


def print_values(array, shown, out):
    # Added up one after the other in float32, as there.
    total = np.add.accumulate(array.ravel(), dtype=np.float32)[-1]
    for plane in array:
        out.write("    [\n")
        for i2 in ends(len(plane), shown):
            if i2 is None:
                out.write("        ..., \n")
                continue
            out.write("        [\n")
            for i1 in ends(len(plane[i2]), shown):
                out.write("            ..., \n" if i1 is None else f"            [{row_text(plane[i2, i1], shown)}  ],\n")
            out.write("        ],\n")
        out.write(f"    ]\n    sum = {total:f}\n")


def printer(llama, shown, out):
    def callback(pointer, ask, _):
        if ask:
            return True
        node = Tensor.from_address(pointer)
        sources = ", ".join(operand(node.src[i]) for i in range(2))
        out.write(f"common_debug_cb_eval: {node.name.decode():>24s} = ({llama.ggml_type_name(node.type).decode()}) "
                  f"{llama.ggml_op_desc(pointer).decode():>10s}({sources}}}) = {dims(node)}\n")
        if node.type in TYPES and node.data and (shown == SHOWN or node.type != F16):  # caches of 512 rows
            print_values(values(node, llama.ggml_nbytes(pointer)), shown, out)
        return True
    return CALLBACK(callback)


def run(path, tokens, flash, shown, out):
    """0 when llama.cpp has run the tokens."""
    llama = library()
    quiet = LOG_CALLBACK(lambda *_: None)
    llama.llama_log_set(quiet, None)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp does not load {path}")
    options = llama.llama_context_default_params()
    if not options.is_known():
        sys.exit("this version of llama.cpp has another llama_context_params; take the one this file names")
    options.n_ctx = options.n_batch = options.n_ubatch = 512
    callback = printer(llama, shown, out)  # kept alive until the end
    options.cb_eval = callback
    options.flash_attn_type = FLASH_ON if flash else FLASH_OFF
    context = llama.llama_init_from_model(model, options)
    if not context:
        sys.exit(f"llama.cpp has no context for {path}")
    out.write(f"number of input tokens = {len(tokens)}\n" + "".join(f"  {token}\n" for token in tokens))
    ids = (ctypes.c_int32 * len(tokens))(*tokens)
    status = llama.llama_decode(context, llama.llama_batch_get_one(ids, len(tokens)))
    out.flush()
    llama.llama_free(context)
    llama.llama_model_free(model)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("tokens", help="ids, separated by commas")
    parser.add_argument("--flash", action="store_true", help="flash attention, as llama.cpp has it by default")
    parser.add_argument("--full", action="store_true", help="every element, and nine digits of it")
    arguments = parser.parse_args()
    return run(arguments.model, [int(token) for token in arguments.tokens.split(",")], arguments.flash,
               ALL if arguments.full else SHOWN, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
