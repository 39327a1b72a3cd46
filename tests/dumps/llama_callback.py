#!/usr/bin/env python3
"""Prints every node that llama.cpp computes in the form of its llama-eval-callback, through llama-cpp-python.

    pip install llama-cpp-python==0.3.36
    python tests/dumps/llama_callback.py MODEL.gguf 1,504,260 [--flash] > dump.txt

The callback of the scheduler is called before a node (wanted: yes) and after it; the node's values are then read out of its
memory by its strides. Types other than float32 are skipped, as nobody compares them.
"""

import argparse
import ctypes
import sys

import llama_cpp
import numpy as np

MAX_DIMS, MAX_SOURCES, MAX_NAME, OP_PARAMS = 4, 10, 64, 16
F32, I32 = 0, 26
SHOWN = 3  # elements at each end of a dimension


class Tensor(ctypes.Structure):
    """struct ggml_tensor of ggml.h."""


Tensor._fields_ = [
    ("type", ctypes.c_int), ("buffer", ctypes.c_void_p), ("ne", ctypes.c_int64 * MAX_DIMS),
    ("nb", ctypes.c_size_t * MAX_DIMS), ("op", ctypes.c_int), ("op_params", ctypes.c_int32 * OP_PARAMS),
    ("flags", ctypes.c_int32), ("src", ctypes.POINTER(Tensor) * MAX_SOURCES), ("view_src", ctypes.POINTER(Tensor)),
    ("view_offs", ctypes.c_size_t), ("data", ctypes.c_void_p), ("name", ctypes.c_char * MAX_NAME)]


def ggml():
    """Functions of the library that the package has loaded."""
    import llama_cpp._ggml as module
    library = module.libggml
    library.ggml_op_desc.restype = ctypes.c_char_p
    library.ggml_op_desc.argtypes = [ctypes.POINTER(Tensor)]
    library.ggml_nbytes.restype = ctypes.c_size_t
    library.ggml_nbytes.argtypes = [ctypes.POINTER(Tensor)]
    return library


def dims(tensor):
    return "{" + ", ".join(str(size) for size in tensor.ne) + "}"


def operand(pointer):
    return f"{pointer.contents.name.decode()}{dims(pointer.contents)}" if pointer else ""


def values(tensor, size_bytes):
    """[ne3,ne2,ne1,ne0], whatever its strides."""
    memory = np.ctypeslib.as_array(ctypes.cast(tensor.data, ctypes.POINTER(ctypes.c_uint8)), (size_bytes,))
    return np.lib.stride_tricks.as_strided(memory.view(np.float32), tuple(reversed(list(tensor.ne))),
                                           tuple(reversed(list(tensor.nb))))


def ends(count):
    if count <= 2 * SHOWN:
        return list(range(count))
    return [*range(SHOWN), None, *range(count - SHOWN, count)]


def print_values(array, out):
    for i3 in range(array.shape[0]):
        out.write("    [\n")
        for i2 in ends(array.shape[1]):
            if i2 is None:
                out.write("        ..., \n")
                continue
            out.write("        [\n")
            for i1 in ends(array.shape[2]):
                if i1 is None:
                    out.write("            ..., \n")
                    continue
                row = ("..." if i0 is None else f"{array[i3, i2, i1, i0]:12.4f}" for i0 in ends(array.shape[3]))
                out.write("            [" + ", ".join(row) + " ],\n")
            out.write("        ],\n")
        out.write("    ]\n")
    out.write(f"    sum = {array.sum(dtype=np.float64):f}\n\n")


def printer(out):
    library = ggml()

    def callback(pointer, ask, _):
        if ask:
            return True
        node = ctypes.cast(pointer, ctypes.POINTER(Tensor))
        tensor = node.contents
        if tensor.type != F32 or not tensor.data:
            return True
        sources = ", ".join(operand(tensor.src[i]) for i in range(2))
        out.write(f"common_debug_cb_eval: {tensor.name.decode():>24s} = (f32) {library.ggml_op_desc(node).decode():>10s}"
                  f"({sources}}}) = {dims(tensor)}\n")
        print_values(values(tensor, library.ggml_nbytes(node)), out)
        return True
    return llama_cpp.ggml_backend_sched_eval_callback(callback)


def run(path, tokens, flash, out):
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp does not load {path}")
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = 512
    callback = printer(out)  # kept alive until the end
    options.cb_eval = callback
    options.flash_attn_type = 1 if flash else 0
    context = llama_cpp.llama_init_from_model(model, options)
    out.write(f"number of input tokens = {len(tokens)}\n" + "".join(f"  {token}\n" for token in tokens))
    ids = (llama_cpp.llama_token * len(tokens))(*tokens)
    status = llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(ids, len(tokens)))
    llama_cpp.llama_free(context)
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("tokens", help="ids, separated by commas")
    parser.add_argument("--flash", action="store_true", help="flash attention, as llama.cpp has it by default")
    arguments = parser.parse_args()
    quiet = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(quiet, None)
    return run(arguments.model, [int(token) for token in arguments.tokens.split(",")], arguments.flash, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
