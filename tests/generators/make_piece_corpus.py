#!/usr/bin/env python3
"""Writes fuzz/corpus/sentencepiece and fuzz/corpus/vocab_txt: small files to start fuzzing from.

    python tests/generators/make_piece_corpus.py
"""
import pathlib
import struct

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TRAINER, NORMALIZER = 2, 3  # fields of ModelProto
UNIGRAM, BPE = b"\x18\x01", b"\x18\x02"


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text: str, score: float, kind: int) -> bytes:
    return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + b"\x18" + bytes([kind]))


def pieces(texts: list) -> bytes:
    return b"".join(piece(text, -i, NORMAL) for i, text in enumerate(texts))


def models() -> dict:
    special = piece("<unk>", 0, UNKNOWN) + piece("<s>", 0, CONTROL) + piece("</s>", 0, CONTROL)
    base = special + pieces(["\u2581", "t", "h", "e", "th", "\u2581th", "\u2581the", "s", "a", "ea", "sea"])
    byte_pieces = b"".join(piece(f"<0x{byte:02X}>", 0, BYTE) for byte in range(256))
    units = [0] * 256
    units[0xC3] = 0xC3
    trie = struct.pack("<256I", *units)
    charsmap = struct.pack("<I", len(trie)) + trie + b"x\0"
    unused = b"".join(piece(text, -i, UNUSED if len(text) == 2 else NORMAL) for i, text in enumerate(
        ["t", "h", "e", "th", "the", "\u2581", "s", "ea", "sea", "a"]))
    return {
        "bpe": base + byte_pieces + field(TRAINER, BPE + b"\x98\x02\x01") + field(NORMALIZER, b"\x18\x01\x20\x00"),
        "unigram": base + field(TRAINER, UNIGRAM),
        "user": base + piece("[X]", 0, USER_DEFINED) + piece("\u2581\u2581", 0, USER_DEFINED)
        + piece("12", -3, UNUSED) + field(TRAINER, BPE),
        "rules": base + field(TRAINER, UNIGRAM) + field(NORMALIZER, field(2, charsmap)),
        "unused": special + unused + field(TRAINER, BPE),
        "empty": b"",
    }


def vocabularies() -> dict:
    return {
        "uncased": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nsea\n##s\n##ing\n\u00e9\n".encode()
        + b"\0The SEAs, [MASK] \xff\xc3\x89",
        "crlf": b"[UNK]\r\n\r\na\r\n##a\r\na\r\n\0aaa a",
        "no_unknown": b"a\n##b\0abc ab",
    }


def main() -> None:
    corpus = pathlib.Path(__file__).parents[2] / "fuzz/corpus"
    for name, files in (("sentencepiece", models()), ("vocab_txt", vocabularies())):
        (corpus / name).mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            (corpus / name / file).write_bytes(content)


if __name__ == "__main__":
    main()
