"""docs/python.md: every example is run, and prints what it is said to print."""

import doctest
import os
import pathlib
import re

import pytest

from conftest import FAMILIES, ROOT

# How large a round-off is depends on the machine.
ERROR = re.compile(r"\d\.\de[+-]\d\d")
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


class Checker(doctest.OutputChecker):
    def check_output(self, want, got, flags):
        return super().check_output(ERROR.sub("#", want), ERROR.sub("#", got), flags)


def test_the_examples_of_the_page(smollm, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    (tmp_path / MODEL).symlink_to(pathlib.Path(os.environ["MAINSTEM_MODELS"]).resolve() / MODEL)
    (tmp_path / "tiny-llama").symlink_to(FAMILIES / "llama")
    monkeypatch.chdir(tmp_path)
    # A fence ends the expected output, as an empty line does.
    text = re.sub(r"^```.*$", "", (ROOT / "docs/python.md").read_text(), flags=re.MULTILINE)
    text = text.replace("/tmp/", f"{tmp_path}/")
    test = doctest.DocTestParser().get_doctest(text, {}, "python.md", "docs/python.md", 0)
    assert len(test.examples) > 30
    printed = []
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=printed.append)
    assert runner.failures == 0, "".join(printed)
