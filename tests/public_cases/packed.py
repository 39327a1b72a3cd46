"""A GGUF file with quantised down projections, and the ways in which loaders misread its blocks.

The bytes are random; what they mean is what gguf-py makes of them. GGUF blocks as in ggml's table of types.
"""

import gguf
import numpy as np
import torch
import transformers as hf

import sizes  # noqa: F401  (puts the kit on the path)
import gguf_families
import models
from mistakes import mistake
from models import GROUPED, RMS, Tiny, rope

Kind = gguf.GGMLQuantizationType
# type -> (elements, offsets of the half floats that scale a block)
SCALES = {Kind.Q4_0: (0,), Kind.Q4_1: (0, 2), Kind.Q5_K: (0, 2), Kind.Q4_K: (0, 2)}


def random_blocks(kind, rows, columns, seed):
    """[rows, bytes]: every nibble and small scale at random, scales such that weights are about 0.1."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    data = generator.integers(0, 256, (rows * columns // block, size), dtype=np.uint8)
    step = {Kind.Q4_0: 2**-5, Kind.Q4_1: 2**-6}.get(kind, 2**-12)
    for at in SCALES[kind]:
        factor = step * (1 if at == 0 else 2 if block == 256 else -8)  # dmin is subtracted, m is added
        data[:, at:at + 2] = np.array([factor], np.float16).view(np.uint8)
    return data.reshape(rows, -1)


class Packed(Tiny):
    """Its down projections are of the type `kind` in a GGUF file."""

    kind = None

    def blocks(self, n):
        return random_blocks(self.kind, self.changes["hidden_size"], self.changes["intermediate_size"], 11 + n)

    def make_model(self):
        model = super().make_model()
        with torch.no_grad():
            for n, block in enumerate(model.model.layers):
                block.mlp.down_proj.weight.copy_(torch.tensor(gguf.quants.dequantize(self.blocks(n), self.kind)))
        return model

    def save(self, out):
        out.mkdir(parents=True)
        model = self.make_model()
        form = gguf_families.FORMS[model.config.model_type]
        writer = gguf.GGUFWriter(out / "model.gguf", gguf.MODEL_ARCH_NAMES[form.arch])
        gguf_families.common_words(writer, model.config)
        gguf_families.rotary_words(writer, model.config)
        form.words(writer, model.config)
        for name, data in gguf_families.gguf_tensors(model):
            if ".ffn_down.weight" in name:
                writer.add_tensor(name, self.blocks(int(name.split(".")[1])), raw_dtype=self.kind)
            else:
                writer.add_tensor(name, np.ascontiguousarray(data, dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return out / "model.gguf"


def packed(name, kind):
    tiny = Packed(name, "llama", hf.LlamaConfig, GROUPED | RMS | rope(700.0) | dict(
        intermediate_size=512, tie_word_embeddings=False))
    tiny.kind = kind
    models.BY_NAME[name] = tiny


for tiny_name, tiny_kind in (("llama_q4_0", Kind.Q4_0), ("llama_q4_1", Kind.Q4_1), ("llama_q4_k", Kind.Q4_K),
                             ("llama_q5_k", Kind.Q5_K)):
    packed(tiny_name, tiny_kind)


def misread(patient, layers, read):
    """read(blocks [count, bytes]) -> [count, elements]."""
    for n in layers:
        blocks = patient.tiny.blocks(n)
        _, size = gguf.GGML_QUANT_SIZES[patient.tiny.kind]
        name = patient.weight_name(patient.block_path(n, "mlp.down_proj"))
        values = np.ascontiguousarray(read(blocks.reshape(-1, size)), dtype=np.float32)
        patient.weights[name] = torch.tensor(values).view(patient.weights[name].shape)


def half(blocks, at):
    return blocks[:, at:at + 2].copy().view(np.float16).astype(np.float32)


def on(name):
    return lambda tiny: tiny.name == name


@mistake("weight.quant_layout", "mlp_proj", on=on("llama_q4_0"), dtypes=("f32",))
def q4_0_nibbles_as_neighbours(patient, layers):
    def read(blocks):
        quants = blocks[:, 2:]
        return (np.stack((quants & 15, quants >> 4), -1).reshape(len(blocks), 32).astype(np.float32) - 8) * half(blocks, 0)
    misread(patient, layers, read)


@mistake("weight.quant_layout", "mlp_proj", on=on("llama_q4_0"), dtypes=("f32",))
def q4_0_nibbles_as_signed(patient, layers):
    """Two's complement in the place of n - 8."""
    def read(blocks):
        quants = blocks[:, 2:]
        nibbles = np.concatenate((quants & 15, quants >> 4), 1).astype(np.float32)
        return np.where(nibbles > 7, nibbles - 16, nibbles) * half(blocks, 0)
    misread(patient, layers, read)


@mistake("weight.quant_layout", "mlp_proj", on=on("llama_q4_1"), dtypes=("f32",))
def q4_1_nibbles_as_neighbours(patient, layers):
    def read(blocks):
        quants = blocks[:, 4:]
        nibbles = np.stack((quants & 15, quants >> 4), -1).reshape(len(blocks), 32).astype(np.float32)
        return nibbles * half(blocks, 0) + half(blocks, 2)
    misread(patient, layers, read)


def scales_of_k(blocks):
    """Eight scales and eight minima of six bits in twelve bytes: [count, 8] each."""
    low, middle, high = (blocks[:, 4 + 4 * i:8 + 4 * i].astype(np.int32) for i in range(3))
    scales = np.concatenate((low & 63, high & 15 | low >> 6 << 4), 1)
    minima = np.concatenate((middle & 63, high >> 4 | middle >> 6 << 4), 1)
    return scales.astype(np.float32), minima.astype(np.float32)


@mistake("weight.quant_layout", "mlp_proj", on=on("llama_q5_k"), dtypes=("f32",))
def q5_k_in_sequence(patient, layers):
    """Element 2l of a chunk of 64 is the low nibble of its byte l, 2l + 1 the high one; scales go by the element's place."""
    def read(blocks):
        scales, minima = scales_of_k(blocks)
        high_bits, quants = blocks[:, 16:48].astype(np.int32), blocks[:, 48:].astype(np.int32)
        out = np.empty((len(blocks), 256), np.float32)
        for chunk in range(4):
            byte = quants[:, 32 * chunk:32 * chunk + 32]
            low = byte & 15 | (high_bits >> 2 * chunk & 1) << 4
            high = byte >> 4 | (high_bits >> 2 * chunk + 1 & 1) << 4
            out[:, 64 * chunk:64 * chunk + 64] = np.stack((low, high), -1).reshape(len(blocks), 64)
        scale, minimum = (np.repeat(half(blocks, at) * each, 32, 1) for at, each in ((0, scales), (2, minima)))
        return out * scale - minimum
    misread(patient, layers, read)


@mistake("weight.quant_layout", "mlp_proj", on=on("llama_q4_k"), dtypes=("f32",))
def only_the_first_block(patient, layers):
    """A return inside the loop over blocks: zeros behind the first 256 values."""
    def read(blocks):
        values = gguf.quants.dequantize(blocks, patient.tiny.kind)
        values[1:] = 0
        return values
    misread(patient, layers, read)
