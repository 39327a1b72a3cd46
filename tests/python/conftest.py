"""The package as it is installed. Tests of torch modules need torch (and transformers); tests of real models
take them from the folder MAINSTEM_MODELS."""

import os
import pathlib

import numpy as np
import pytest

import mainstem as ms

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = ROOT / "tests/golden/families"


@pytest.fixture(scope="session")
def llama():
    return ms.load(FAMILIES / "llama")


@pytest.fixture(scope="session")
def smollm():
    path = pathlib.Path(os.environ.get("MAINSTEM_MODELS", "")) / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not path.is_file():
        pytest.skip("needs SmolLM2 in the folder MAINSTEM_MODELS")
    return ms.load(path)


@pytest.fixture
def block_spec():
    return ms.BlockSpec(
        width=8,
        attention=ms.AttentionSpec(heads=2, head_width=4, rotary=ms.RotarySpec(width=4)),
        mlp=ms.MlpSpec(hidden=10),
    )


@pytest.fixture
def block_weights(block_spec):
    random = np.random.default_rng(5)
    return {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in ms.Block.weight_shapes(block_spec).items()
    }
