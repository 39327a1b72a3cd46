#!/usr/bin/env python3
"""Writes tests/golden/tokenizers/pieces/: small WordPiece, SentencePiece BPE and unigram tokenizers,
and the ids that tokenizers and sentencepiece give for awkward texts.

    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    python tests/generators/make_piece_tokenizers.py

wordpiece.json, bpe.json, unigram.json   tokenizer.json files, trained here
variants.json                            per variant: its base, sections that replace those of the
                                         base, cases [[text, ids, decoded]]
bpe.model, …                             SentencePiece models; models.json: cases of each
vocab.txt, vocab.json                    the vocabulary of wordpiece.json; ids for unigram.model as
                                         Marian has them; files.json: cases of both
"""
import base64
import collections
import copy
import json
import pathlib
import sys
import tempfile

import sentencepiece
import tokenizers
from make_tokenizers import CORPUS, TEXTS, added, byte_level, sequence, split, template
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

VERSIONS = {"tokenizers": "0.23.3", "sentencepiece": "0.2.3"}

# Beside the texts of make_tokenizers.
MORE_TEXTS = [
    "unaffable", "\u2581marked\u2581text", " \u2581 x", "a" * 101 + " b", "a" * 99 + "b", "\u00c9t\u00e9 \u00e0 la plage",
    "don't do not it's ' n't n't . , ? !", "\uff28\uff45\uff4c\uff4c\uff4f \u2474 \ufdfa", "e\u0301\u0301 \u212b\u0323", "[MASK] [UNK] [CLS]x",
    "\u6f22a\u5b57b \U00020000 \uf900", "x \u00a0 y\u3000z\u2003w", "<unk> <s> </s>x</s> y", "<0x41> <0x0A>", "user[X]text [X] [X][X]  [X]",
    "\u0085\u000b\u000c", "\u0130I\u0131i \u03a3\u03c3\u03c2 \u1e9e", "hello\u00adworld\u200d\u200b", "\u0915\u094d\u0937\u093f \u0e33 \u1100\u1161",
    "\r\n\r \r\n", "1\u20442 \u00bc\u00b2", ">>de<< Hello", "\u00e9" * 60, "\u0301" * 30, "\u2581" * 9, "the[X]sea ", " [X] sea",
]
ALL_TEXTS = TEXTS + MORE_TEXTS

RULES = [  # of a charsmap, as sentencepiece's trainer reads them
    ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\u00ad", ""), ("\u200b", ""),
    ("\uff28", "H"), ("\uff45", "e"), ("\uff4c", "l"), ("\uff4f", "o"), ("e\u0301", "\u00e9"), ("\ufb01", "fi"), ("\u00bd", "1/2"),
    ("\u212b", "\u00c5"), ("...", "\u2026"), ("\ufdfa", "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647"),
]


def train_sentencepiece(kind: str, **options) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder) / "corpus.txt"
        corpus.write_text(CORPUS)
        rules = pathlib.Path(folder) / "rules.tsv"
        rules.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b)
                                 + "\n" for a, b in RULES))
        if options.pop("rules", False):
            options["normalization_rule_tsv"] = str(rules)
        else:
            options["normalization_rule_name"] = "identity"
        prefix = str(pathlib.Path(folder) / "model")
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=prefix, model_type=kind, num_threads=1, minloglevel=2,
            hard_vocab_limit=False, **options)
        model = pathlib.Path(prefix + ".model").read_bytes()
    # The names of the trainer's files are not the same twice.
    from sentencepiece import sentencepiece_model_pb2 as proto
    parsed = proto.ModelProto.FromString(model)
    parsed.trainer_spec.ClearField("input")
    parsed.trainer_spec.ClearField("model_prefix")
    parsed.normalizer_spec.ClearField("normalization_rule_tsv")
    return parsed.SerializeToString()


def sentencepiece_models() -> dict:
    return {
        # Llama 2, Mistral: byte tokens, a space before the text, nothing else changed.
        "bpe": train_sentencepiece("bpe", vocab_size=700, byte_fallback=True, character_coverage=0.98,
                                   remove_extra_whitespaces=False, split_digits=True),
        # Gemma: no space before the text; runs of spaces and line ends are user-defined.
        "bpe_user": train_sentencepiece("bpe", vocab_size=700, byte_fallback=True, character_coverage=0.98,
                                        remove_extra_whitespaces=False, add_dummy_prefix=False,
                                        allow_whitespace_only_pieces=True,
                                        user_defined_symbols=["[X]", "\u2581\u2581", "\u2581\u2581\u2581\u2581", "\n", "\n\n"]),
        # Marian, T5: rules, one space for many, unknown characters.
        "unigram": train_sentencepiece("unigram", vocab_size=420, character_coverage=0.98, rules=True,
                                       pad_id=3, user_defined_symbols=["[X]"]),
        "unigram_bytes": train_sentencepiece("unigram", vocab_size=620, character_coverage=0.98,
                                             byte_fallback=True, bos_id=-1),
        "bpe_plain": train_sentencepiece("bpe", vocab_size=420, character_coverage=0.98, rules=True),
    }


def with_unused(model: bytes) -> bytes:
    """Every fourth long piece becomes unused: it is then only a step to longer ones."""
    from sentencepiece import sentencepiece_model_pb2 as proto
    parsed = proto.ModelProto.FromString(model)
    long_pieces = [p for p in parsed.pieces if p.type == p.NORMAL and len(p.piece) > 1]
    for piece in long_pieces[::4]:
        piece.type = piece.UNUSED
    return parsed.SerializeToString()


def parts_of(model: bytes):
    from sentencepiece import sentencepiece_model_pb2 as proto
    parsed = proto.ModelProto.FromString(model)
    return parsed.pieces, parsed.normalizer_spec


def bpe_json(model: bytes) -> dict:
    """As transformers converts a SentencePiece BPE: every way to split a piece is a merge, by score."""
    pieces, _ = parts_of(model)
    ids = {p.piece: i for i, p in enumerate(pieces)}
    merges = []
    for i, piece in enumerate(pieces):
        text = piece.piece
        ways = [(text[:n], text[n:]) for n in range(1, len(text)) if text[:n] in ids and text[n:] in ids]
        ways.sort(key=lambda way: (ids[way[0]], ids[way[1]]))
        merges += [(-piece.score, i, list(way)) for way in ways if piece.type == 1]
    merges.sort(key=lambda merge: merge[:2])
    special = [{"id": i, "content": p.piece, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i, p in enumerate(pieces) if p.type in (2, 3)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None,
            "post_processor": template("<s>", "A", special={"<s>": 1}),
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True,
                      "ignore_merges": False, "vocab": ids, "merges": [merge[2] for merge in merges]}}


def metaspace(scheme: str, cut: bool = True) -> dict:
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}


def unigram_json(model: bytes) -> dict:
    pieces, rules = parts_of(model)
    special = [{"id": i, "content": p.piece, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": p.type != 4} for i, p in enumerate(pieces) if p.type in (2, 3, 4)]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": special,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(rules.precompiled_charsmap).decode()},
                {"type": "Strip", "strip_left": False, "strip_right": True},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]},
            "pre_tokenizer": metaspace("always"),
            "post_processor": template("A", "</s>", special={"</s>": 2}),
            "decoder": metaspace("always"),
            "model": {"type": "Unigram", "unk_id": 0, "vocab": [[p.piece, p.score] for p in pieces],
                      "byte_fallback": False}}


def word_piece_vocab() -> dict:
    """Characters of some lines (so that others are unknown) and the parts of words that are most
    frequent. The library's own trainer does not give the same twice."""
    normalizer, words = normalizers.BertNormalizer(), collections.Counter()
    for line in CORPUS.splitlines()[:10]:
        pieces = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(line))
        words.update(word for word, _ in pieces)
        words.update(word for word in line.split() if word.isalpha())  # some with upper case
    counts = collections.Counter()
    for word, count in words.items():
        for begin in range(len(word)):
            for end in range(begin + 1, len(word) + 1):
                counts[("##" if begin else "") + word[begin:end]] += count
    letters = sorted(piece for piece in counts if len(piece.removeprefix("##")) == 1)
    longer = sorted(counts.keys() - set(letters), key=lambda piece: (-counts[piece] * len(piece), piece))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return {piece: id for id, piece in enumerate(special + letters + longer[:300])}


def word_piece_json() -> dict:
    tokenizer = Tokenizer(models.WordPiece(word_piece_vocab(), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    result = json.loads(tokenizer.to_str())
    result["post_processor"] = template("[CLS]", "A", "[SEP]", special={"[CLS]": 2, "[SEP]": 3})
    result["decoder"] = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    result["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
    result["padding"] = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None,
                         "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"}
    return result


def bert_normalizer(**changes) -> dict:
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True} | changes


def decoder_of(*steps) -> dict:
    return {"type": "Sequence", "decoders": list(steps)}


def variants(bases: dict) -> dict:
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    to_space = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    no_strip = decoder_of(to_space, {"type": "ByteFallback"}, {"type": "Fuse"})
    spaces = added(bases["bpe"], ("  ", {}), ("[X]", {"normalized": True}), ("\n\n", {}))
    bytes_gone = copy.deepcopy(bases["bpe"]["model"]["vocab"])
    for byte in ("<0xC3>", "<0xE2>", "<0xF0>"):
        del bytes_gone[byte]

    def forms(*names):
        return {"type": "Sequence", "normalizers": [{"type": name} for name in names]}
    return {
        "bert": ("wordpiece", {}),
        "bert_cased": ("wordpiece", {"normalizer": bert_normalizer(lowercase=False),
                                     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False}}),
        "bert_raw": ("wordpiece", {"normalizer": bert_normalizer(clean_text=False, handle_chinese_chars=False,
                                                                 strip_accents=False),
                                   "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
                                   "decoder": None}),
        "bert_short_words": ("wordpiece", {"model": {"max_input_chars_per_word": 5},
                                           "pre_tokenizer": {"type": "Whitespace"}}),
        "bert_forms": ("wordpiece", {"normalizer": forms("NFKD", "StripAccents", "Lowercase", "NFC"),
                                     "pre_tokenizer": {"type": "WhitespaceSplit"}}),
        "llama_legacy": ("bpe", {}),
        "llama": ("bpe", {"normalizer": None, "pre_tokenizer": metaspace("first", False)}),
        "mistral": ("bpe", {"normalizer": None, "pre_tokenizer": metaspace("always", True)}),
        "gemma": ("bpe", {"normalizer": replace, "decoder": no_strip, "added_tokens": spaces,
                          "pre_tokenizer": split({"String": " "}, "MergedWithPrevious")}),
        "no_prefix": ("bpe", {"normalizer": None, "pre_tokenizer": metaspace("never", True),
                              "model": {"ignore_merges": True}}),
        "few_bytes": ("bpe", {"model": {"vocab": bytes_gone, "fuse_unk": False}}),
        "no_bytes": ("bpe", {"model": {"byte_fallback": False}}),
        "t5": ("unigram", {}),
        "t5_words": ("unigram", {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, metaspace("always"))}),
        "first_word": ("unigram", {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, metaspace("first")),
                                   "decoder": metaspace("never")}),
        "unigram_nfkc": ("unigram", {"normalizer": forms("NFKC", "NFD")}),
        "unigram_raw": ("unigram", {"normalizer": {"type": "Prepend", "prepend": "\u2581"}, "pre_tokenizer": None}),
    }


def apply(base: dict, overrides: dict) -> dict:
    result = copy.deepcopy(base)
    for section, value in overrides.items():
        if section == "model":
            result["model"].update(value)
        else:
            result[section] = value
    return result


def write(path: pathlib.Path, entries: dict) -> None:
    path.write_text("{\n" + ",\n".join(json.dumps(name) + ": " + json.dumps(value, separators=(",", ":"))
                                       for name, value in entries.items()) + "\n}\n")


def marian_vocabulary(model: bytes) -> dict:
    """Ids in another order; some pieces of the model are not there, and a few others are."""
    pieces, _ = parts_of(model)
    names = [p.piece for p in pieces if p.type in (1, 4)]
    kept = [name for i, name in enumerate(names) if i % 7 != 3]
    return {name: id for id, name in enumerate(
        ["</s>", "<unk>", ">>de<<"] + kept[::-1] + ["\u2581target", "<pad>"])}


def main() -> None:
    for module in (tokenizers, sentencepiece):
        if module.__version__ != VERSIONS[module.__name__]:
            sys.exit(f"needs {module.__name__} {VERSIONS[module.__name__]}, found {module.__version__}")
    folder = pathlib.Path(__file__).parents[1] / "golden/tokenizers/pieces"
    folder.mkdir(parents=True, exist_ok=True)
    trained = sentencepiece_models()
    trained["bpe_unused"] = with_unused(trained["bpe"])
    trained["unigram_unused"] = with_unused(trained["unigram"])

    bases = {"wordpiece": word_piece_json(), "bpe": bpe_json(trained["bpe"]),
             "unigram": unigram_json(trained["unigram"])}
    for name, base in bases.items():
        (folder / f"{name}.json").write_text(json.dumps(base) + "\n")
    entries = {}
    for name, (base, overrides) in variants(bases).items():
        tokenizer = Tokenizer.from_str(json.dumps(apply(bases[base], overrides)))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        cases = []
        for text in ALL_TEXTS:
            ids = tokenizer.encode(text).ids
            cases.append([text, ids, tokenizer.decode(ids)])
        entries[name] = {"base": base, "overrides": overrides, "cases": cases}
    write(folder / "variants.json", entries)

    entries = {}
    for name, model in trained.items():
        (folder / f"{name}.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = [processor.encode(text) for text in ALL_TEXTS]
        entries[name] = [[text, row, processor.decode(row)] for text, row in zip(ALL_TEXTS, ids)]
    write(folder / "models.json", entries)

    vocab = sorted(bases["wordpiece"]["model"]["vocab"].items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(text + "\n" for text, _ in vocab))
    marian = marian_vocabulary(trained["unigram"])
    (folder / "vocab.json").write_text(json.dumps(marian) + "\n")
    processor = sentencepiece.SentencePieceProcessor(model_proto=trained["unigram"])
    cases = []
    for text in ALL_TEXTS:
        if any(token in text for token in ("<unk>", "</s>", "<pad>", ">>")):
            continue  # transformers cuts these out of the text by rules of its own
        pieces = processor.encode(text, out_type=str)
        cases.append([text, [marian.get(piece, marian["<unk>"]) for piece in pieces] + [marian["</s>"]]])
    write(folder / "files.json", {"marian": cases})


if __name__ == "__main__":
    main()
