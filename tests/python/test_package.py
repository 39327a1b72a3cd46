"""What pip installs."""

import importlib.metadata
import pathlib
import re

import mainstem as ms
from mainstem import _core

from conftest import ROOT

FOLDER = pathlib.Path(ms.__file__).parent


def test_the_package_is_typed():
    assert (FOLDER / "py.typed").is_file()
    stub = (FOLDER / "_core.pyi").read_text()
    for name in dir(_core):
        if not name.startswith("_"):
            assert re.search(rf"\b(class |def )?{name}\b", stub), name


def test_versions_agree():
    (version,) = re.findall(r"project\(mainstem VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert ms.__version__ == importlib.metadata.version("mainstem") == version


def test_only_the_package_is_installed():
    files = [str(path) for path in importlib.metadata.files("mainstem")]
    assert all(re.match(r"mainstem(-[\d.]+\.dist-info)?/", path) for path in files)
    assert not [path for path in files if path.endswith((".h", ".a", ".cc"))]


def test_every_public_name_has_a_docstring():
    for name in ms.__all__:
        value = getattr(ms, name)
        if callable(value) and name != "__version__":
            assert value.__doc__, name


def test_torch_and_transformers_are_not_imported_by_the_package():
    import subprocess
    import sys

    code = "import sys, mainstem; print([name for name in sys.modules if name.split('.')[0] in ('torch', 'transformers')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
