"""Ids of a text by two tokenizers that differ in one rule, by the tokenizers package."""

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors

BEGIN, MARK, SPACE = "<s>", "<|user|>", "\u2581"
PIECES = [BEGIN, MARK, "<unk>", SPACE, "<", "|", ">", "user", "add", "and", "to", "the", "sum", "of", "three", "numbers",
          "please", *"0123456789", "333", "777", "123", "456", "3333", "777777"]
TEXT = "please add 3333 and 777777 to the sum of three numbers 123456"
MARKED = f"{MARK}add 3 and 7{MARK}to the sum of the numbers{MARK}please add 1"


def tokenizer(digits="three", begin=1, marks=True, prefix=False):
    """`digits`: three at a time, one, or all; `begin`: how many begin tokens; `marks`: special tokens are found in the text;
    `prefix`: a space before every piece of text between them."""
    made = Tokenizer(models.WordLevel({piece: n for n, piece in enumerate(PIECES)}, unk_token="<unk>"))
    split = {"three": Regex(r"\p{N}{1,3}"), "one": Regex(r"\p{N}"), "all": Regex(r"\p{N}+")}[digits]
    steps = [pre_tokenizers.Whitespace(), pre_tokenizers.Split(split, "isolated")]
    if prefix:
        steps = [pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Split(SPACE, "isolated"), *steps]
    made.pre_tokenizer = pre_tokenizers.Sequence(steps)
    if marks:
        made.add_special_tokens([AddedToken(MARK, special=True, normalized=False)])
    if begin:
        made.post_processor = processors.TemplateProcessing(single=[BEGIN] * begin + ["$A"], special_tokens=[(BEGIN, 0)])
    return made


def ids(text, **rules):
    return tokenizer(**rules).encode(text).ids


def both(text, right, wrong, count=12):
    """The first `count` ids by each."""
    pair = ids(text, **right), ids(text, **wrong)
    assert pair[0][:count] != pair[1][:count] and min(map(len, pair)) >= count, pair
    return pair[0][:count], pair[1][:count]
