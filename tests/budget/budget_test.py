#!/usr/bin/env python3
"""Does tests/budget/budget count right, and does it fail beyond each limit?"""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import re
import tempfile
import types
import unittest

LOADER = importlib.machinery.SourceFileLoader("budget", str(pathlib.Path(__file__).resolve().parent / "budget"))
budget = importlib.util.module_from_spec(importlib.util.spec_from_loader("budget", LOADER))
LOADER.exec_module(budget)
LIMITS = {"code_lines": 1000, "comment_share": 0, "tokens_per_line": 100, "function_lines": 4, "long_functions": 9,
          "header_lines": 3, "tiny_headers": 9, "member_functions": 2, "wide_types": 9}

SHORT_HEADER = """// A header of three lines.
#pragma once
int seconds(int step);
"""
TYPES = """// Types.
#pragma once

namespace lockstep {

// Two functions and a constructor: within the limit.
struct Narrow {
  explicit Narrow(int value);
  int first() const { return 1; }
  std::function<void(int)> told = {};  // no function
  int second() const;
};

class Wide final {
 public:
  int first() const { return 1; }
  bool operator==(const Wide& other) const;
  template <class Value>
  Value third(
      Value value) const {
    return value;
  }

 private:
  struct Inner {
    int only();
  };
};

}  // namespace lockstep
"""
FUNCTIONS = """#include "a.hpp"

namespace lockstep {
namespace {

constexpr int table[] = {
    1,
    2,
    3,
    4,
};

int four_lines(int a,
               int b) {
  return a + b;
}

}  // namespace

int five_lines() {
  const auto inner = [] {
    return "}, // no comment";  // a comment
  };
  return inner();
}

}  // namespace lockstep
"""


class Budget(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def run_budget(self, *options, **limits):
        self.write("limits.ini", "[limits]\n" + "".join(f"{key} = {value}\n"
                                                       for key, value in {**LIMITS, **limits}.items()))
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                code = budget.main(["--root", str(self.root), "--limits", str(self.root / "limits.ini"), *options])
            except SystemExit as end:
                code = end.code
        return types.SimpleNamespace(returncode=code, stdout=output.getvalue(), stderr=errors.getvalue())

    def exceeds(self, limit, **values):
        done = self.run_budget(**values)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(re.findall(r"^budget: (\w+) is", done.stderr, re.MULTILINE), [limit])

    def row(self, name):
        [row] = re.findall(rf"^{re.escape(name)} +(.*)$", self.run_budget().stdout, re.MULTILINE)
        return row.split()

    def test_lines_comments_and_tokens_of_a_room(self):
        self.write("sim/core/a.hpp", "// One.\n\n  // Two.\nint a = 1;  // one\nconst char* b = \"// no comment\";\n")
        # int a = 1 ; and const char * b = "..." ;
        self.assertEqual(self.row("sim/core"), ["1", "2", "2", "50.0%", "6.00"])

    def test_every_strategy_has_a_row(self):
        self.write("sim/strategies/table.hpp", "int a;\n")
        self.write("sim/strategies/ddp/ddp.cpp", "int a;\nint b;\n")
        self.write("sim/strategies/ddp/notes.txt", "no C++\n")
        self.write("tests/a.cpp", "int a;\n")
        self.assertEqual(self.row("sim/strategies")[:2], ["1", "1"])
        self.assertEqual(self.row("sim/strategies/ddp")[:2], ["1", "2"])
        self.assertEqual(self.row("together")[:2], ["2", "3"])

    def test_beyond_a_limit_it_fails_and_names_the_limit(self):
        self.write("sim/core/a.cpp", "// A comment.\nint a = 1;\nint b = 2;\n")
        self.assertEqual(self.run_budget(code_lines=2, comment_share=33, tokens_per_line=5).returncode, 0)
        self.exceeds("code_lines", code_lines=1)
        self.exceeds("comment_share", comment_share=34)
        self.exceeds("tokens_per_line", tokens_per_line=4.9)

    def test_functions_longer_than_the_limit(self):
        self.write("sim/core/a.cpp", FUNCTIONS)
        listed = self.run_budget("--list").stdout
        self.assertIn("   6  sim/core/a.cpp:20: five_lines", listed)
        self.assertNotIn("four_lines", listed)
        self.assertNotIn("table", listed)
        self.exceeds("long_functions", long_functions=0)

    def test_headers_that_are_too_short(self):
        self.write("sim/core/a.hpp", SHORT_HEADER)
        self.write("sim/core/a.cpp", SHORT_HEADER)
        self.write("sim/core/b.hpp", SHORT_HEADER + "int steps();\n")
        self.assertEqual(self.run_budget(tiny_headers=1).returncode, 0)
        self.exceeds("tiny_headers", tiny_headers=0)

    def test_types_of_strategies_with_many_member_functions(self):
        self.write("sim/core/types.hpp", TYPES)
        self.assertEqual(self.run_budget(wide_types=0).returncode, 0)
        self.write("sim/strategies/ddp/types.hpp", TYPES)
        listed = self.run_budget("--list").stdout
        self.assertIn("   3  sim/strategies/ddp/types.hpp:14: Wide", listed)
        self.assertNotIn("Narrow", listed)
        self.exceeds("wide_types", wide_types=0)

    def test_wrong_limits_are_no_limits(self):
        self.write("sim/core/a.cpp", "int a;\n")
        done = self.run_budget(lines=3)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown or missing: lines", done.stderr)


if __name__ == "__main__":
    unittest.main()
