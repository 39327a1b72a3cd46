#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/: a small byte-level BPE and the ids that the tokenizers library
gives for awkward texts, under several structures of tokenizer.json.

    pip install tokenizers==0.23.3
    python tests/generators/make_tokenizers.py

base.json      a tokenizer.json, trained here
variants.json  per variant: sections that replace those of base.json (a section "model" is merged
               key by key), tokens taken out of the vocabulary, and cases [{text, ids}]
"""
import copy
import json
import pathlib
import sys

import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VERSION = "0.23.3"

CORPUS = """
The residual stream carries the sum of everything that the layers before it have written.
Attention reads it and writes back into it; so does the MLP. Nothing is ever erased.
It's a river: the main stem takes its tributaries in, and we'll follow it down to the sea.
for (int i = 0; i < 10; ++i) { x[i] = x[i] + f(norm(x[i])); }    // four    spaces
def attend(q, k, v):
    return softmax(q @ k.T / sqrt(d)) @ v
1 12 123 1234 12345 2024-10-07 3.14159 100,000,000
Größe, naïve, café, señor, Ångström, İstanbul, Привет мир, καλημέρα κόσμε
漢字とかな交じり文、一二三四五。 中文字符测试，你好世界！ 한국어 문장입니다.
مرحبا بالعالم  שלום עולם  नमस्ते दुनिया  สวัสดีชาวโลก
😀 👍🏽 👩‍👩‍👧‍👦 🇩🇪 don't can't we're I've she'll he'd
""" * 3

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"

TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", " \n \n  \n", "a\r\nb\r\n\r\nc",
    "Hello world", " Hello", "Hello ", "  two  spaces  ", "tab\tand\t\ttabs", "\u00a0nbsp\u00a0\u00a0x",
    "\u3000ideographic\u3000space", "\u2028line\u2029paragraph\u0085next\u000bvt\u000cff",
    "\u1680ogham\u200bzero\u200cwidth\u200djoiner\ufeffbom",
    "don't DON'T we'RE I'll he'd 'tis 'S 's ''s it's's", "it'\u017f and it\u2019s", "'", "''", "'s", "s'",
    "0", "00", "1234", "12345678901", "3.14159", "1,000,000", "a1b22c333d4444", " 42", "   42",
    "\u0661\u0662\u0663 \u0967\u0968\u0969 \uff11\uff12\uff13 \u2160\u2161 \u00bd\u00b2\u00b3 \u2460\u2461",
    "line 1\nline 22\nline 333\n", "x = y+1;", "for (int i=0; i<10; ++i) {}", "!!!???...", "$100 + 20% = <b>&amp;</b>",
    "`code` ^caret~ |pipe|", "a_b__c", "snake_case CamelCase HTTPServer iPhone XMLHttp2", "e-mail: a.b@c.de/f?g=h#i",
    "// comment\n\n/* more */\n", "path/to/file\n/next\r\n", "C:\\dir\\n", "\"quoted\" \u201ccurly\u201d \u00abguillemets\u00bb",
    "caf\u00e9 cafe\u0301 e\u0301\u0327\u0323 A\u030a \u212b", "\u1e9b\u0323 \u0344 \u0958 \u2126 \uac00 \u1100\u1161\u11a8",
    "\u0301 leading mark", "x\u0300\u0301\u0302\u0303\u0304\u0305\u0306\u0307\u0308", "q\u0323\u0307 q\u0307\u0323",
    "\u6f22\u5b57\u3068\u304b\u306a", "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5", "\u4e00\u4e8c\u4e09123\u56db",
    "\u20000\u30000\U00020000\U00030000", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd 123 \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u202eright-to-left\u202c",
    "\U0001f600", "\U0001f44d\U0001f3fd \U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", "\u2764\ufe0f \u2603",
    "\u01c5 \u01f2 titlecase", "\u02b0\u02b1 modifier", "\u00aa\u00ba ordinal", "\u0345 \u24d0\u24d1 \u24b6", "\u00df \ufb01 \u0130 \u0131",
    "\x00", "\x01\x02\x03\x1b[0m\x7f", "a\x00b", "\u0080\u009f", "\ufffd\ufffe\uffff\U0010ffff", "\ue000\uf8ff private", "\ud7ff\ue000",
    "\u0378\u0380 unassigned \U000e0001\U000e0061", "a" * 100, " " * 40 + "x", "\n" * 33, "ab" * 60, "=" * 77, "1" * 50,
    "the " * 30, "\u6f22" * 40, "\U0001f600" * 12, "a\u0301" * 20, "word\n" * 9,
    "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|><|im_start|>", "<|im_start|", "x<|im_end|>y <|im_end|> z",
    "<mask>", "a <mask> b", "a  <mask>  b", "\n<mask>\t", "a<mask>b", "ALONE", "xALONE", "ALONEx", " ALONE.", "ALONE ALONE", "\u00e9ALONE",
    "\u212bngstrom", "A\u030angstrom", "\u00c5ngstrom", "<long", "<longer", "<longest>", "<long<longer<longest>",
    "  <right>  next", "<right>\n\n<mask>", "<right>   <mask> <right>",
]


def base_tokenizer() -> dict:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=640, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<s>", "</s>", "<|im_start|>", "<|im_end|>"])
    tokenizer.train_from_iterator(CORPUS.splitlines(keepends=True), trainer)
    return json.loads(tokenizer.to_str())


def byte_level(prefix=False, regex=True) -> dict:
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern: dict, behavior="Isolated", invert=False) -> dict:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*steps) -> dict:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def pattern_only(regex: str) -> dict:
    return sequence(split({"Regex": regex}), byte_level(regex=False))


def added(base: dict, *tokens) -> list:
    first = len(base["model"]["vocab"])
    result = copy.deepcopy(base["added_tokens"])
    for offset, (content, flags) in enumerate(tokens):
        token = {"id": first + offset, "content": content, "single_word": False, "lstrip": False,
                 "rstrip": False, "normalized": False, "special": False}
        result.append(token | flags)
    return result


def template(*items, special: dict) -> dict:
    def item(name):
        if name == "A":
            return {"Sequence": {"id": "A", "type_id": 0}}
        return {"SpecialToken": {"id": name, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [item(name) for name in items],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [id], "tokens": [name]}
                               for name, id in special.items()}}


def variants(base: dict) -> dict:
    flags = added(base, ("<mask>", {"lstrip": True, "special": True}), ("ALONE", {"single_word": True}),
                  ("\u00c5ngstrom", {"normalized": True}), ("<right>", {"rstrip": True}),
                  ("<long", {}), ("<longer", {}), ("<longest>", {}), ("  ", {"normalized": True}))
    digits = {"type": "Digits", "individual_digits": True}
    digit_runs = {"type": "Digits", "individual_digits": False}
    return {
        "gpt2": {},
        "smollm": {"pre_tokenizer": sequence(digits, byte_level())},
        "llama3": {"pre_tokenizer": pattern_only(LLAMA3), "model": {"ignore_merges": True},
                   "post_processor": {"type": "Sequence", "processors": [
                       {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False,
                        "use_regex": True},
                       template("<s>", "A", special={"<s>": 0})]}},
        "qwen2": {"pre_tokenizer": pattern_only(QWEN2), "normalizer": {"type": "NFC"}},
        "o200k": {"pre_tokenizer": pattern_only(O200K)},
        "bloom": {"pre_tokenizer": pattern_only(BLOOM)},
        "falcon": {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": "Contiguous"},
                                             byte_level(), digit_runs,
                                             split({"Regex": "[0-9][0-9][0-9]"}))},
        "prefix_space": {"pre_tokenizer": byte_level(prefix=True),
                         "post_processor": template("<s>", "A", "</s>", special={"<s>": 0, "</s>": 1})},
        "prefix_space_late": {"pre_tokenizer": sequence(digits, byte_level(prefix=True))},
        "roberta": {"post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0],
                                       "trim_offsets": True, "add_prefix_space": False}},
        "added_flags": {"added_tokens": flags, "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]}},
        "behaviors": {"pre_tokenizer": sequence(split({"String": " "}, "MergedWithNext"),
                                                split({"Regex": "[.,!?]"}, "MergedWithPrevious"),
                                                split({"String": "\n"}, "Removed"),
                                                split({"Regex": r"\d"}, "Contiguous"),
                                                split({"Regex": r"\w+"}, "Isolated", True),
                                                byte_level(regex=False))},
        "inverted": {"pre_tokenizer": sequence(split({"Regex": r"\w+|[^\w\s]+"}, "Removed", True),
                                               byte_level(regex=False))},
        "merged_next": {"pre_tokenizer": sequence(split({"Regex": r"\p{Lu}"}, "MergedWithNext"),
                                                  split({"Regex": r"[^\p{Ll}]"}, "MergedWithPrevious", True),
                                                  byte_level(regex=False))},
        "lines": {"pre_tokenizer": sequence(split({"Regex": "(?i)^[a-k]+|(?<=[a-z])[s\\x{74}]$|(?<![a-z]).{2,3}?"}),
                                            byte_level(regex=False))},
        "unknown": {"model": {"unk_token": "<s>"}},
        "unknown_fused": {"model": {"unk_token": "<s>", "fuse_unk": True}},
        "dropped": {},
    }


# Tokens (in byte-level characters) taken out of the vocabulary, to see what becomes of such bytes.
WITHOUT = ["\u0100", "\u0101", "\u0102", "\u00f4", "\u0121", "=", "`"]


def apply(base: dict, overrides: dict, without: list) -> dict:
    result = copy.deepcopy(base)
    for section, value in overrides.items():
        if section == "model":
            result["model"].update(value)
        else:
            result[section] = value
    gone = [token for token in result["model"]["vocab"] if any(c in token for c in without)]
    for token in gone:
        del result["model"]["vocab"][token]
    result["model"]["merges"] = [pair for pair in result["model"]["merges"]
                                 if not any(c in half for half in pair for c in without)]
    return result


def main() -> None:
    if tokenizers.__version__ != VERSION:
        sys.exit(f"needs tokenizers {VERSION}, found {tokenizers.__version__}")
    folder = pathlib.Path(__file__).parents[1] / "golden/tokenizers"
    folder.mkdir(parents=True, exist_ok=True)
    base = base_tokenizer()
    (folder / "base.json").write_text(json.dumps(base, ensure_ascii=True, indent=None) + "\n")
    lines = []
    for name, overrides in variants(base).items():
        without = WITHOUT if name in ("unknown", "unknown_fused", "dropped") else []
        tokenizer = Tokenizer.from_str(json.dumps(apply(base, overrides, without)))
        cases = [[text, tokenizer.encode(text).ids] for text in TEXTS]
        lines.append(json.dumps(name) + ": " + json.dumps(
            {"overrides": overrides, "without": without, "cases": cases}, separators=(",", ":")))
    (folder / "variants.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
