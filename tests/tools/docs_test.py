"""What README.md, CONTRIBUTING.md and docs/ say, held to what is there: links lead somewhere, commands
have the options they are shown with, and pasted code and output are the real ones. The command is
taken from the environment variable MAINSTEM_BINARY; without it what needs it is skipped."""

import os
import pathlib
import re
import shlex
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BINARY = os.environ.get("MAINSTEM_BINARY", "")


def run(*arguments):
    return subprocess.run(
        [BINARY, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def anchors(text):
    """The anchors that GitHub and others make of the headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def shown_commands(text):
    """Every `mainstem …` of a page: indented lines, blocks with a prompt, and inline code; a line that ends in a
    backslash goes on in the next."""
    text = re.sub(r"\\\n +", "", text)
    found = re.findall(r"^ {4}(mainstem .*)$", text, re.MULTILINE)
    found += re.findall(r"^\$ (mainstem .*)$", text, re.MULTILINE)
    found += re.findall(r"`(mainstem [^`]*)`", text)
    return [" ".join(command.split()) for command in found]


class Docs(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if re.match(r"[a-z]+:", link):
                    continue
                with self.subTest(page=page.name, link=link):
                    path, _, anchor = link.partition("#")
                    target = (page.parent / path) if path else page
                    self.assertTrue(target.exists())
                    if anchor:
                        self.assertIn(anchor, anchors(target.read_text()))

    def test_every_family_has_a_row(self):
        rows = re.findall(r"^\| (\w+) \| `", (ROOT / "docs/families.md").read_text(), re.MULTILINE)[1:]
        files = {path.stem for path in (ROOT / "src/models/families").glob("*.cc")} - {"families"}
        self.assertEqual(sorted(rows), sorted(files))

    def test_nothing_is_left_to_fill_in(self):
        for page in PAGES:
            self.assertNotRegex(page.read_text(), r"<!--|TODO|FIXME", page.name)

    def test_the_readme_has_two_commands(self):
        text = (ROOT / "README.md").read_text()
        self.assertEqual(re.findall(r"^ {4}(\./\w+)$", text, re.MULTILINE), ["./start", "./test"])

    def test_the_readmes_program_is_the_one_that_is_compiled(self):
        (code,) = re.findall(r"```cpp\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
        self.assertEqual(code, (ROOT / "tests/consumer/next_token.cc").read_text())

    @unittest.skipUnless(BINARY, "needs the command")
    def test_shown_options_exist(self):
        helps = {}
        for page in PAGES:
            for shown in shown_commands(page.read_text()):
                with self.subTest(page=page.name, command=shown):
                    words = shlex.split(shown.replace("…", ""))[1:]
                    if not words or words[0] in ("COMMAND", "--version"):
                        continue
                    depth = 2 if words[0] == "bench" and len(words) > 1 else 1
                    key = tuple(words[:depth])
                    if key not in helps:
                        result = run(*key, "--help")
                        self.assertEqual(result.returncode, 0, result.stderr)
                        helps[key] = result.stdout
                    for word in words[depth:]:
                        if word.startswith("-"):
                            self.assertRegex(helps[key], rf"(^|[\s,]){re.escape(word)}\b")

    @unittest.skipUnless(BINARY, "needs the command")
    def test_the_worked_example_is_what_the_command_prints(self):
        printed = run("example", "--markdown").stdout
        self.assertTrue((ROOT / "docs/worked_example.md").read_text().endswith("\n\n" + printed))
        lesson = (ROOT / "docs/lesson.md").read_text()
        table = re.search(r"\| tensor .*?\n\n", printed, re.DOTALL).group()
        self.assertIn(table, lesson)
        self.assertIn(printed[printed.index("**X2** ") :], lesson)


if __name__ == "__main__":
    unittest.main()
