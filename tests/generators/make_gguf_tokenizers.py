#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/gguf_pre.json: the ids that llama.cpp gives for the texts of
make_tokenizers.py, for each name of a pre-tokenizer, with the vocabulary of base.json; and
pieces/gguf.json: the same for the SentencePiece models of make_piece_tokenizers.py, written as
its converter writes them.

    pip install gguf==0.19.0 llama-cpp-python==0.3.36 sentencepiece==0.2.3
    python tests/generators/make_gguf_tokenizers.py
"""
import json
import pathlib
import tempfile

import gguf
import llama_cpp
from make_piece_tokenizers import ALL_TEXTS, parts_of
from make_tokenizers import TEXTS

NAMES = ["gpt-2", "phi-2", "olmo", "llama-bpe", "llama3", "llama-v3", "dbrx", "qwen2", "stablelm2",
         "smollm", "command-r", "starcoder", "refact", "falcon", "mpt", "falcon3", "deepseek-r1-qwen"]
PIECES = {"bpe": "llama", "bpe_user": "llama", "unigram": "t5"}


def write_gguf(path: str, base: dict, pre: str) -> None:
    vocab = sorted(base["model"]["vocab"].items(), key=lambda item: item[1])
    control = {token["content"] for token in base["added_tokens"]}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([token for token, _ in vocab])
    writer.add_token_types([3 if token in control else 1 for token, _ in vocab])
    writer.add_token_merges([" ".join(pair) for pair in base["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def write_pieces(path: str, model: bytes, kind: str) -> None:
    pieces, rules = parts_of(model)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre("default")
    texts = [p.piece.replace("\u2581", " ") if p.type == 4 else p.piece for p in pieces]
    writer.add_token_list(texts)
    writer.add_token_scores([p.score for p in pieces])
    writer.add_token_types([p.type for p in pieces])
    writer.add_add_space_prefix(rules.add_dummy_prefix)
    if kind == "t5":
        writer.add_remove_extra_whitespaces(rules.remove_extra_whitespaces)
        if rules.precompiled_charsmap:
            writer.add_precompiled_charsmap(rules.precompiled_charsmap)
    writer.add_unk_token_id(next(i for i, p in enumerate(pieces) if p.type == 2))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main() -> None:
    write_pre()
    folder = pathlib.Path(__file__).parents[1] / "golden/tokenizers/pieces"
    lines = []
    for name, kind in PIECES.items():
        with tempfile.TemporaryDirectory() as scratch:
            path = f"{scratch}/vocab.gguf"
            write_pieces(path, (folder / f"{name}.model").read_bytes(), kind)
            model = llama_cpp.Llama(path, vocab_only=True, verbose=False)
            cases = [[text, model.tokenize(text.encode(), add_bos=True, special=True)]
                     for text in ALL_TEXTS]
        lines.append(json.dumps(name) + ": " + json.dumps(cases, separators=(",", ":")))
    (folder / "gguf.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_pre() -> None:
    folder = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
    base = json.loads((folder / "base.json").read_text())
    lines = []
    for name in NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            path = f"{scratch}/vocab.gguf"
            write_gguf(path, base, name)
            model = llama_cpp.Llama(path, vocab_only=True, verbose=False)
            cases = [[text, model.tokenize(text.encode(), add_bos=True, special=True)]
                     for text in TEXTS]
        lines.append(json.dumps(name) + ": " + json.dumps(cases, separators=(",", ":")))
    (folder / "gguf_pre.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
