"""Unit tests of tools/check_includes.py: small trees, each with one thing wrong or nothing."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "check_includes.py"


class CheckIncludes(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            run = subprocess.run(
                [sys.executable, TOOL, folder], capture_output=True, text=True, check=False
            )
            self.assertEqual(run.stderr, "")
            return run.returncode, run.stdout

    def test_downward_includes_pass(self):
        code, text = self.run_on(
            {
                "src/base/a.h": "#include <vector>\n",
                "src/io/b.cc": '#include "base/a.h"\n#include "io/c.h"\n#include <fmt/format.h>\n',
                "src/io/c.h": '#include "mainstem/tensor.h"\n',
                "include/mainstem/tensor.h": '#include "mainstem/error.h"\n',
                "include/mainstem/error.h": "",
            }
        )
        self.assertEqual((code, text), (0, "All includes point one way.\n"))

    def assert_wrong(self, files, place, problem):
        code, text = self.run_on(files)
        self.assertEqual(code, 1, text)
        self.assertIn(place, text)
        self.assertIn(problem, text)

    def test_upward_include_fails_with_its_line(self):
        self.assert_wrong(
            {"src/base/a.cc": '\n#include "io/b.h"\n', "src/io/b.h": ""},
            'src/base/a.cc:2:',
            "layer base may not use layer io",
        )

    def test_kernels_and_io_do_not_meet(self):
        self.assert_wrong(
            {"src/kernels/a.cc": '#include "io/b.h"\n', "src/io/b.h": ""},
            "src/kernels/a.cc:1:",
            "layer kernels may not use layer io",
        )
        self.assert_wrong(
            {"src/io/a.cc": '  # include "kernels/b.h"\n', "src/kernels/b.h": ""},
            "src/io/a.cc:1:",
            "layer io may not use layer kernels",
        )

    def test_public_header_has_a_layer(self):
        self.assert_wrong(
            {"src/program/a.cc": '#include "mainstem/session.h"\n', "include/mainstem/session.h": ""},
            "src/program/a.cc:1:",
            "layer program may not use layer runtime",
        )
        self.assert_wrong(
            {"include/mainstem/spec.h": "#include <mainstem/trace.h>\n", "include/mainstem/trace.h": ""},
            "include/mainstem/spec.h:1:",
            "layer program may not use layer runtime",
        )

    def test_private_header_in_a_public_one(self):
        self.assert_wrong(
            {"include/mainstem/model.h": '#include "base/a.h"\n', "src/base/a.h": ""},
            "include/mainstem/model.h:1:",
            "includes the private src/base/a.h",
        )

    def test_unknown_things_are_errors(self):
        self.assert_wrong({"include/mainstem/new.h": ""}, "include/mainstem/new.h:0:", "no layer")
        self.assert_wrong({"src/stray.cc": ""}, "src/stray.cc:0:", "no layer")
        self.assert_wrong({"src/base/a.cc": '#include "gone.h"\n'}, "src/base/a.cc:1:", "no such file")
        self.assert_wrong({}, "src:0:", "no source files")

    def test_the_project_itself(self):
        code, text = subprocess.getstatusoutput(f"{sys.executable} {TOOL} {ROOT}")
        self.assertEqual(code, 0, text)


if __name__ == "__main__":
    unittest.main()
