#!/usr/bin/env python3
"""Does tests/prose/prose find each fault of style, and does it pass good prose?

Every test writes one or two files into a folder of its own, runs the checker there and compares the findings of one
rule. The tree itself is checked by .ci/run.
"""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import tempfile
import types
import unittest

LOADER = importlib.machinery.SourceFileLoader("prose", str(pathlib.Path(__file__).resolve().parent / "prose"))
prose = importlib.util.module_from_spec(importlib.util.spec_from_loader("prose", LOADER))
LOADER.exec_module(prose)
RULES = ("openings", "weak", "spelling", "beginnings", "width", "glossary")

GOOD_SOURCE = "// Buckets of gradients. DDP reduces each bucket when its last gradient is there.\nint buckets();\n"
GLOSSARY = "| word | meaning |\n| --- | --- |\n| lane | a rank |\n| way, route (of links) | links |\n"


class Prose(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_prose(self, *options):
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                code = prose.main(["--root", str(self.root), *options])
            except SystemExit as end:
                code = end.code
        return types.SimpleNamespace(returncode=code, stdout=output.getvalue(), stderr=errors.getvalue())

    def findings(self, rule, *paths):
        """(file, line) of each finding of a rule."""
        done = self.run_prose("--list", rule, *paths)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [(file, int(line)) for file, line in re.findall(r"^([^:]+):(\d+): ", done.stdout, re.MULTILINE)]

    def lines(self, rule, name, text):
        """Lines of the findings of a rule in a file with this text."""
        self.write(name, text)
        return [line for file, line in self.findings(rule) if file == name]

    def passes(self, name, text):
        self.write(name, text)
        for rule in RULES:
            self.assertEqual(self.findings(rule), [], rule)

    def test_spelling_is_british_but_for_names_of_the_field(self):
        good = "// A modelled centre of the optimizer's normalization. It keeps `neighbor` and \"utilization\".\n"
        self.assertEqual(self.lines("spelling", "sim/good.hpp", good), [])
        self.assertEqual(self.lines("spelling", "sim/bad.hpp", "// A modeled neighbor.\n// The other line.\n"), [1])

    def test_forbidden_openings(self):
        for word in ("Of", "What", "Who", "Whom", "Whose", "Whoever", "Whatever", "Those", "Nor"):
            self.assertEqual(self.lines("openings", "sim/a.cpp", f"{GOOD_SOURCE}// {word} all ranks wait.\n"), [3], word)
        self.passes("sim/a.cpp", GOOD_SOURCE + "// Offsets. Nora waits. Whole steps.\n")

    def test_an_opening_in_the_middle_of_a_comment(self):
        self.assertEqual(self.lines("openings", "sim/a.cpp", "int a;\n\n// All ranks\n// wait. Of course.\n"), [3])
        self.assertEqual(self.lines("openings", "sim/a.cpp", "int a;  // What a rank keeps.\n"), [1])

    def test_a_question_may_begin_with_what(self):
        self.passes("tests/a.cpp", "// What does a rank keep? Who waits for it?\nint a;\n")

    def test_words_that_name_nothing(self):
        for word in ("who", "whoever", "what", "whatever", "those", "of it", "of them"):
            self.assertEqual(self.lines("weak", "sim/a.cpp", f"{GOOD_SOURCE}// Ranks {word} wait.\n"), [3], word)
        self.passes("sim/a.cpp", GOOD_SOURCE + "// The part of items that `what` and `who` name. Do those wait?\n")

    def test_the_beginning_of_a_source(self):
        self.assertEqual(self.lines("beginnings", "sim/a.cpp", "int a;\n"), [1])
        self.assertEqual(self.lines("beginnings", "sim/a.cpp", "// See a.hpp.\nint a;\n"), [1])
        self.assertEqual(self.lines("beginnings", "sim/a.cpp", GOOD_SOURCE), [])
        self.assertEqual(self.lines("beginnings", "tests/a.cpp", "int a;\n"), [])

    def test_the_width_of_a_page(self):
        wide = "word " * 21
        self.assertEqual(self.lines("width", "docs/a.md", f"# Title\n\n{wide}\n"), [3])
        self.assertEqual(self.lines("width", "docs/a.md", "x" * 100 + "\n"), [])
        free = [f"| {wide} |", f"    {wide}", f"```\n{wide}\n```", f"<!-- begin x -->\n{wide}\n<!-- end -->",
                f"[{wide}](b.md)"]
        for text in free:
            self.assertEqual(self.lines("width", "docs/a.md", text + "\n"), [], text)

    def test_blocks_of_code_and_printed_output_are_skipped(self):
        text = ("Pages explain.\n\n```\nWhat a program prints of it\n```\n\n    Of indented code.\n\n"
                "<!-- begin lockstep list -->\nWho is slow.\n<!-- end -->\n")
        self.passes("docs/a.md", text)
        self.assertEqual(self.lines("openings", "docs/a.md", text + "\nWhat follows counts.\n"), [13])

    def test_items_and_cells_are_sentences(self):
        self.assertEqual(self.lines("openings", "docs/a.md", "Ranks:\n\n- a rank\n- Those of a node\n"), [4])
        self.assertEqual(self.lines("openings", "docs/a.md", "| a | b |\n| --- | --- |\n| 1 | Of a node |\n"), [3])

    def test_docstrings_and_comments_of_python(self):
        quotes = '"' * 3
        text = f"def f():\n    {quotes}Of a node.\n\n    Those of it.\n    {quotes}\n    return 1\n"
        self.assertEqual(self.lines("openings", "tests/a.py", text), [2, 2])
        self.assertEqual(self.lines("weak", "tests/a.py", text), [2])
        self.assertEqual(self.lines("openings", "tests/a.py", "a = 1\n# What a is.\n"), [2])

    def test_comments_of_shell_and_cmake(self):
        self.assertEqual(self.lines("openings", ".ci/run", "#!/usr/bin/env bash\n# What it runs.\nls\n"), [2])
        self.assertEqual(self.lines("openings", "a.sh", "# All.\nls  # Of a folder.\n"), [2])
        self.assertEqual(self.lines("openings", "CMakeLists.txt", "# Who links.\nset(a 1)\n"), [1])
        self.assertEqual(self.lines("weak", "CMakeLists.txt", "# Libraries of those that link.\nset(a 1)\n"), [])

    def test_comments_and_descriptions_of_scenarios(self):
        text = "name: Four ranks\n# Of four ranks.\ndescription: >-\n  All ranks wait.\n  What waits is slow.\nmodel: What\n"
        self.assertEqual(self.lines("openings", "scenarios/a.yaml", text), [2, 3])
        self.assertEqual(self.lines("openings", "scenarios/a.yaml", "description: Those are slow.\nmodel: a\n"), [1])
        self.assertEqual(self.lines("openings", "scenarios/a.yaml", "a:\n  description: |\n    Whoever waits.\n"), [2])
        self.assertEqual(self.lines("openings", "scenarios/a.yaml", "description: What waits?\nmodel: a\n"), [])
        self.assertEqual(self.lines("openings", "tests/a.yaml", "# Of foreign rows.\n"), [])

    def test_files_of_other_projects_are_left_out(self):
        self.passes("tests/room/data/run.sh", "#!/bin/bash\n# What others wrote.\n")

    def test_words_of_our_own_need_a_row_in_the_glossary(self):
        self.write("docs/glossary.md", GLOSSARY)
        self.write("tests/prose/own_words", "# Words.\nlane\nroute\n")
        self.assertEqual(self.findings("glossary"), [])
        self.write("tests/prose/own_words", "lane\ncourier\n")
        self.assertEqual(self.findings("glossary"), [("docs/glossary.md", 1)])

    def test_beyond_a_limit_it_fails_and_names_the_rule(self):
        self.write("sim/a.cpp", GOOD_SOURCE + "// What waits.\n")
        self.write("tests/prose/limits.ini", "[limits]\nopenings = 1\n")
        self.assertEqual(self.run_prose().returncode, 0)
        self.write("strict.ini", "[limits]\nopenings = 0\n")
        done = self.run_prose("--limits", str(self.root / "strict.ini"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(re.findall(r"^(\w+) .*TOO MANY", done.stdout, re.MULTILINE), ["openings"])

    def test_paths_narrow_the_search(self):
        self.write("sim/core/a.cpp", "// What waits.\n")
        self.write("sim/costs/a.cpp", "// What waits.\n")
        self.assertEqual(self.findings("openings", "sim/core"), [("sim/core/a.cpp", 1)])
        self.assertEqual(self.findings("openings", "sim/costs/a.cpp"), [("sim/costs/a.cpp", 1)])

    def test_wrong_usage(self):
        self.assertEqual(self.run_prose("--list", "grammar").returncode, 2)
        self.assertEqual(self.run_prose("--unknown").returncode, 2)
        done = self.run_prose("no/such/path")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no/such/path", done.stderr)


if __name__ == "__main__":
    unittest.main()
