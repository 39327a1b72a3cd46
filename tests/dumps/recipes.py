"""The code of docs/dump_recipes.md, which is what runs."""

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "dump_recipes.md"


def blocks(title, language="python"):
    """The code under a heading."""
    section = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.S | re.M)
    if section is None:
        raise KeyError(f"no heading '{title}' in {PAGE.name}")
    found = re.findall(rf"```{language}\n(.*?)```", section.group(1), re.S)
    if not found:
        raise KeyError(f"no {language} under '{title}' in {PAGE.name}")
    return found


def run(code, **variables):
    """Runs it with these variables; what it leaves in them."""
    exec(compile(code, str(PAGE), "exec"), variables)  # our own page
    return variables
