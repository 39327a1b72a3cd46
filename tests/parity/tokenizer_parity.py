#!/usr/bin/env python3
"""Compares token ids with the tokenizers library (or llama.cpp, or sentencepiece) on generated texts.

    python tests/parity/tokenizer_parity.py --tool BUILD/tests/tokenize_tool --tokenizer DIR/tokenizer.json
    python tests/parity/tokenizer_parity.py --tool … --tokenizer MODEL.gguf       # against llama.cpp
    python tests/parity/tokenizer_parity.py --tool … --tokenizer tokenizer.model  # sentencepiece
    python tests/parity/tokenizer_parity.py --command BUILD/src/mainstem --count 50 …

With --tool all texts go through one process (tests/models/tokenize_tool.cc); with --command each is one
call of `mainstem tokenize MODEL -p TEXT --json`. --variants takes the structures and models of
tests/golden/tokenizers instead of a file. Exit code 1 if any ids differ.

Three kinds of differences are counted apart and do not fail, since the reference is at fault or
knows another version of Unicode: code points that Python's unicodedata does not know (tokenizers
has digits of Unicode 17, llama.cpp has tables of Unicode 15); texts whose normalization form in
tokenizers is not that of unicodedata (combining classes of an old version), or which it knows as
marks for StripAccents; and, for GGUF files, texts with
bytes that the vocabulary lacks (llama.cpp does not merge what such a byte stood between).

Needs tokenizers==0.23.3; for GGUF files llama-cpp-python==0.3.36, for models sentencepiece==0.2.3.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

FRAGMENTS = [
    " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", " \n", "\u00a0", "\u3000", "\u2028", "\u0085", "'s", "'S", "'ll", "'RE", "'",
    "don't", "the", " the", "The", "THE", " attention", "HTTPServer", "0", "7", "42", "123", "2024", "1,000", "3.14", "\u0664",
    "\u00bd", "\u00b2", "\u2167", "!", "?!", "...", "--", "==", "()", "{};", "//", "\\", "\"", "\u201c", "\u2019", "$", "\u20ac", "+", "^",
    "`", "|", "~", "_", "@", "#", "%", "&", "*", "<", ">", "\u00e9", "e\u0301", "\u0301", "\u00df", "\u0130", "\u01c5", "\u02b0", "\u03a9",
    "\u0431", "\u05d0", "\u0639", "\u0e2a", "\u0928\u0940", "\u4e2d", "\u6587\u5b57", "\u3042", "\ud55c", "\U00020000", "\U0001f600",
    "\U0001f468\u200d\U0001f469", "\U0001f3fd", "\ufe0f", "\u200d", "\u202e", "\u00ad", "\ufeff", "\ufffd", "\ue000", "\U0010ffff",
    "\u2581", "##", "[MASK]", "[X]", "<unk>", "<0x41>", "n't", "a" * 101, "\u00c5", "A\u030a", "\uff21", "\u00bc", "\u2028",
    "\x00", "\x07", "\x1b[0m", "\x7f", "<|im_start|>", "<|im_end|>", "<s>", "</s>",
]


def random_text(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return "".join(rng.choice(FRAGMENTS) for _ in range(rng.randint(1, 24)))
    if kind < 0.7:  # long runs
        return "".join(rng.choice(FRAGMENTS) * rng.randint(1, 80) for _ in range(rng.randint(1, 3)))
    if kind < 0.85:  # any code points of one block, with separators
        start = rng.randrange(0x0, 0x20000, 0x80)
        points = [start + rng.randrange(0x80) for _ in range(rng.randint(1, 30))]
        points = [32 if rng.random() < 0.15 else p for p in points]
    else:
        points = [rng.randrange(0x110000) for _ in range(rng.randint(1, 16))]
    return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)


def reference(path: pathlib.Path):
    """Functions text -> ids and text -> is a difference excused."""
    def is_newer(text):
        return any(unicodedata.category(c) == "Cn" for c in text)
    if path.suffix == ".gguf":
        import llama_cpp
        model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
        def encode(text):
            return model.tokenize(text.encode(), add_bos=True, special=True)
        return encode, lambda text: is_newer(text) or model.detokenize(encode(text)) != text.encode()
    if path.suffix == ".model":
        import sentencepiece
        processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
        return processor.encode, lambda text: False
    import tokenizers
    from tokenizers import normalizers
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    used = path.read_text()
    forms = [name for name in ("NFC", "NFD", "NFKC", "NFKD")
             if f'"{name}"' in used or (name == "NFD" and "BertNormalizer" in used)]

    def is_other_form(text):
        without = "".join(c for c in text if unicodedata.category(c)[0] != "M")
        if '"StripAccents"' in used and normalizers.StripAccents().normalize_str(text) != without:
            return True
        return any(getattr(normalizers, form)().normalize_str(text) != unicodedata.normalize(form, text)
                   for form in forms)
    return (lambda text: tokenizer.encode(text).ids,
            lambda text: is_newer(text) or is_other_form(text))


def ours(arguments, path: pathlib.Path, texts: list) -> list:
    if arguments.tool:
        # The references drop bytes without a token; sentencepiece knows no special tokens in text.
        flags = ["--drop-missing-bytes"]
        if path.suffix == ".model":
            flags += ["--no-special", "--special-is-text"]
        result = subprocess.run([arguments.tool, path] + flags, text=True, check=True,
                                input="".join(json.dumps(text) + "\n" for text in texts),
                                stdout=subprocess.PIPE)
        return [json.loads(line).get("ids", line) for line in result.stdout.splitlines()]
    ids = []
    for text in texts:
        result = subprocess.run([arguments.command, "tokenize", path, "-p", text, "--json"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ids.append(json.loads(result.stdout)["ids"] if result.returncode == 0 else result.stderr)
    return ids


def compare(arguments, path: pathlib.Path, name: str) -> int:
    rng = random.Random(arguments.seed)
    texts = [random_text(rng) for _ in range(arguments.count)]
    if not arguments.tool:
        texts = [text for text in texts if "\0" not in text and text]
    encode, is_excused = reference(path)
    differences = excused = 0
    got = ours(arguments, path, texts)
    if len(got) != len(texts):
        sys.exit(f"{name}: {len(got)} answers to {len(texts)} texts")
    for text, ids in zip(texts, got):
        expected = encode(text)
        if ids != expected and is_excused(text):
            excused += 1
        elif ids != expected:
            differences += 1
            if differences <= arguments.show:
                print(f"{name}: {text!r}\n  expected {expected}\n  got      {ids}")
    print(f"{name}: {differences} of {len(texts)} texts differ, {excused} more excused", flush=True)
    return differences


def all_variants(golden: pathlib.Path):
    """Name and contents of every tokenizer.json that the generators make."""
    import make_piece_tokenizers as pieces
    import make_tokenizers as maker
    base = json.loads((golden / "base.json").read_text())
    for name, overrides in maker.variants(base).items():
        without = maker.WITHOUT if name in ("unknown", "unknown_fused", "dropped") else []
        yield name, maker.apply(base, overrides, without)
    bases = {name: json.loads((golden / f"pieces/{name}.json").read_text())
             for name in ("wordpiece", "bpe", "unigram")}
    for name, (base_name, overrides) in pieces.variants(bases).items():
        yield name, pieces.apply(bases[base_name], overrides)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", help="path of tokenize_tool")
    parser.add_argument("--command", help="path of mainstem")
    parser.add_argument("--tokenizer", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="differences to print per tokenizer")
    arguments = parser.parse_args()
    if bool(arguments.tool) == bool(arguments.command):
        parser.error("give one of --tool and --command")

    differences = sum(compare(arguments, path, path.name) for path in arguments.tokenizer)
    if arguments.variants:
        golden = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
        sys.path.insert(0, str(golden.parents[1] / "generators"))
        for name, file in all_variants(golden):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "tokenizer.json"
                path.write_text(json.dumps(file))
                differences += compare(arguments, path, name)
        for path in sorted((golden / "pieces").glob("*.model")):
            differences += compare(arguments, path, path.name)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
