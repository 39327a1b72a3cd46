"""One module for each kind of program; each adds its recipes to RECIPES."""

from dataclasses import dataclass

RECIPES = []

# Lengths unlike any power of two.
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 35, 8, 9, 7, 9, 32, 38, 46, 26, 43, 0, 12, 50]
SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = "gemma-3-270m-q4_k_m.gguf"
MINILM = "all-MiniLM-L6-v2"
# "The main stem of the plant grows towards the light." and more, as their tokenizers have it; any ids would do.
REAL_TOKENS = {
    SMOLLM2: [504, 1894, 7193, 282, 260, 3133, 6403, 2957, 260, 1420, 30, 1094, 314, 260, 9, 1297, 282, 3885, 42, 339],
    GEMMA3: [2, 818, 1646, 9347, 529, 506, 4247, 21022, 4091, 506, 2214, 236761, 1030, 563, 506, 3768, 529, 6481],
    MINILM: [101, 1996, 2364, 7872, 1997, 1996, 3269, 7502, 2875, 1996, 2422, 1012, 102],
}


class NotHere(Exception):
    """Something that the recipe needs is missing."""


@dataclass
class Recipe:
    name: str
    model: str        # a tiny one's name, or a file among the real ones
    make: object      # (model's path, folder) -> path of the dump
    arguments: tuple  # of diff
    faults: tuple     # steps that are wrong by a known fault of the program


def recipe(name, model, make, arguments=(), faults=()):
    RECIPES.append(Recipe(name, model, make, tuple(arguments), tuple(faults)))


def tokens_of(model):
    return REAL_TOKENS.get(model.name, TOKENS)
