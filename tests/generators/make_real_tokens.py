#!/usr/bin/env python3
"""Writes the token ids of real models for the strings of tests/golden/real/smollm2_tokenizer.json:
gemma3_tokenizer.json by llama.cpp, minilm_tokenizer.json by tokenizers.

    pip install tokenizers==0.23.3 llama-cpp-python==0.3.36
    python tests/generators/make_real_tokens.py --gemma3 gemma-3-270m-q4_k_m.gguf --minilm FOLDER

FOLDER is all-MiniLM-L6-v2's, with its tokenizer.json.
"""
import argparse
import json
import pathlib

import llama_cpp
import tokenizers


def write(path: pathlib.Path, about: str, rows: list) -> None:
    lines = [json.dumps({"text": text, "ids": ids}) for text, ids in rows]
    path.write_text('{\n "about": ' + json.dumps(about) + ',\n "strings": [\n  ' + ",\n  ".join(lines)
                    + "\n ]\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gemma3", required=True)
    parser.add_argument("--minilm", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    folder = pathlib.Path(__file__).parents[1] / "golden/real"
    texts = [row["text"] for row in json.loads((folder / "smollm2_tokenizer.json").read_text())["strings"]]

    model = llama_cpp.Llama(arguments.gemma3, vocab_only=True, verbose=False)
    write(folder / "gemma3_tokenizer.json",
          "Token ids of Gemma 3 270M by llama.cpp (llama-cpp-python 0.3.36, add_bos and special on), which "
          "are sentencepiece's. transformers 5.24 differs in a run of 40 spaces.",
          [(text, model.tokenize(text.encode(), add_bos=True, special=True)) for text in texts])

    tokenizer = tokenizers.Tokenizer.from_file(str(arguments.minilm / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    write(folder / "minilm_tokenizer.json",
          "Token ids of all-MiniLM-L6-v2 by tokenizers 0.23.3, without the padding and the cut to 128 "
          "tokens that its tokenizer.json records.",
          [(text, tokenizer.encode(text).ids) for text in texts])


if __name__ == "__main__":
    main()
