#!/usr/bin/env python3
"""Does the Python package give the program's answers? python_test.py PROGRAM [unittest options] tests the package in
sim/python; with --installed first, it tests the installed package."""

import ast
import contextlib
import importlib.util
import io
import itertools
import json
import os
import pickle
import re
import runpy
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = "--installed" in sys.argv
if INSTALLED:
    sys.argv.remove("--installed")
else:
    sys.path.insert(0, str(ROOT / "sim/python"))
PROGRAM = os.path.abspath(sys.argv.pop(1))
os.environ["LOCKSTEP_PROGRAM"] = PROGRAM
os.environ.setdefault("LOCKSTEP_DATA", str(ROOT))

import lockstep  # noqa: E402

VGG16 = ROOT / "scenarios/ovi2026/vgg16.yaml"
SMALL = {
    "name": "small <b>",
    "model": "lenet5",
    "batch": {"per_gpu": 8},
    "platform": "a100-sxm4-80gb-x4",
    "gpus": [1, 2],
    "strategies": ["ddp", {"fsdp": {"version": 2}}],
}


def printed(*words):
    return json.loads(subprocess.run([PROGRAM, *words], capture_output=True, check=True).stdout)


class Run(unittest.TestCase):
    def test_is_what_the_program_prints(self):
        result = lockstep.run(VGG16)
        self.assertEqual(result, printed("run", str(VGG16), "--json"))
        self.assertEqual(lockstep.run(str(VGG16), jobs=1), result)
        json.dumps(result)

    def test_overrides_are_fields_of_the_file(self):
        result = lockstep.run(VGG16, overrides={"batch": {"global": 256}, "gpus": [2, 4], "strategies": ["ddp"]})
        self.assertEqual([row["gpus"] for row in result["predictions"]], [2, 4])
        self.assertEqual({row["global_batch"] for row in result["predictions"]}, {256})
        self.assertEqual(
            lockstep.run({**SMALL, "precision": "amp-bf16", "name": "é, \"x\" 1..2"}),
            lockstep.run(SMALL, {"precision": "amp-bf16", "name": "é, \"x\" 1..2"}),
        )

    def test_an_override_inside_an_entry_leaves_the_others(self):
        vgg16 = {**SMALL, "model": "vgg16"}
        both = lockstep.run(vgg16, {"strategies.ddp.bucket_size": "1 GiB"})["predictions"]
        before = lockstep.run(vgg16)["predictions"]
        self.assertNotEqual(both[1]["step_seconds"], before[1]["step_seconds"])
        self.assertEqual(both[2:], before[2:])

    def test_lists_are_alternatives(self):
        result = lockstep.run(SMALL, {"platform": ["a100-sxm4-80gb-x4", "p4d.24xlarge"]})
        rows = result.rows()
        self.assertEqual(len(rows), 8)
        self.assertEqual({row["chosen.platform"] for row in rows}, {"a100-sxm4-80gb-x4", "p4d.24xlarge"})
        self.assertIn("chosen.platform", result._repr_html_())

    def test_what_does_not_fit_is_an_answer(self):
        result = lockstep.run({**SMALL, "model": "vgg16", "platform": "g5.xlarge", "gpus": 1, "batch": {"micro": 600}})
        self.assertFalse(any(row["fits"] for row in result["predictions"]))

    def test_one_alternative_that_cannot_be_is_a_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = lockstep.run({**SMALL, "batch": {"global": [6, 7]}, "gpus": 2})
        self.assertEqual({row["chosen.batch.global"] for row in result.rows()}, {"6"})
        self.assertEqual([w.category for w in caught], [lockstep.LockstepWarning])
        self.assertIn("batch.global: 7", str(caught[0].message))

    def test_rows_are_flat(self):
        row = lockstep.run(VGG16).rows()[0]
        self.assertEqual(row["strategy"], "ddp")
        self.assertGreater(row["memory.device_bytes"], row["memory.allocated_bytes"])
        self.assertFalse(any(isinstance(value, dict) for value in row.values()))


class Sweep(unittest.TestCase):
    def test_is_every_combination(self):
        rows = lockstep.sweep(SMALL, {"gpus": [1, 2, 4], "batch.per_gpu": "8..32*2"})
        self.assertEqual(len(rows), 2 * 3 * 3)
        self.assertEqual({(row["set.gpus"], row["set.batch.per_gpu"]) for row in rows}, {(g, b) for g in (1, 2, 4) for b in (8, 16, 32)})
        self.assertEqual(len({tuple(sorted(row)) for row in rows}), 1)  # the same keys: a table

    def test_agrees_with_run(self):
        vgg16 = {**SMALL, "model": "vgg16"}
        swept = lockstep.sweep(vgg16, {"strategies.ddp.bucket_size": ["1 GiB"]})
        ran = lockstep.run(vgg16, {"strategies.ddp.bucket_size": "1 GiB"})["predictions"]
        self.assertEqual([row["step_s"] for row in swept], [row["step_seconds"] for row in ran])

    def test_combinations_that_cannot_be_are_rows(self):
        rows = lockstep.sweep(SMALL, {"batch": [{"global": 6}, {"global": 7}], "gpus": [2]})
        self.assertEqual({row["kind"] for row in rows}, {"answer", "refused"})
        self.assertTrue(all(row["reason"] for row in rows if row["kind"] == "refused"))
        self.assertIn("refused", rows._repr_html_())

    def test_a_sample_is_the_same_for_the_same_seed(self):
        grid = {"batch.per_gpu": range(1, 500)}
        once, again, other = (lockstep.sweep(SMALL, grid, sample=5, seed=seed, jobs=1) for seed in (1, 1, 2))
        self.assertEqual(len(once), 5)
        self.assertEqual(once, again)
        self.assertNotEqual(once, other)


class Mistakes(unittest.TestCase):
    def test_are_told_at_their_place(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "my.yaml")
            path.write_text(json.dumps(SMALL).replace('"lenet5"', '"lenet6"'))
            with self.assertRaises(lockstep.ConfigError) as caught:
                lockstep.run(path)
        self.assertEqual(caught.exception.code, 2)
        [problem] = caught.exception.problems
        self.assertEqual((problem.file, problem.line), (str(path), 1))
        self.assertIn("lenet5", problem.message)
        self.assertIn(f"{path}:1:", str(caught.exception))

    def test_in_overrides_too(self):
        for ask in (lockstep.run, lockstep.sweep):
            with self.assertRaises(lockstep.ConfigError) as caught:
                ask(SMALL, {"batch.per_gpus": [3]})
            [problem] = caught.exception.problems
            self.assertTrue(problem.file.startswith("--set batch.per_gpus="))
            self.assertIn("per_gpu", problem.message)
        for wrong in ({"strategies.hsdp.units": 1}, {"strategies[7].label": "x"}, {"gpus[9]": 1}, {"": 1}):
            with self.assertRaises(lockstep.ConfigError):
                lockstep.run(SMALL, wrong)

    def test_files_that_are_not_there(self):
        with self.assertRaises(lockstep.ConfigError):
            lockstep.run("--version")
        os.environ["LOCKSTEP_PROGRAM"] = "/nonexistent/lockstep"
        try:
            with self.assertRaisesRegex(lockstep.LockstepError, "cannot start /nonexistent/lockstep"):
                lockstep.run(VGG16)
        finally:
            os.environ["LOCKSTEP_PROGRAM"] = PROGRAM


class Documentation(unittest.TestCase):
    def test_every_example_runs(self):
        """Examples run in a folder with `scenarios/` and a `my.yaml`; without pandas a table is a list of rows."""
        examples = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertTrue(examples)
        if not importlib.util.find_spec("pandas"):
            sys.modules["pandas"] = types.SimpleNamespace(DataFrame=list)
            self.addCleanup(sys.modules.pop, "pandas")
        self.addCleanup(os.chdir, os.getcwd())
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            Path("scenarios").symlink_to(ROOT / "scenarios")
            Path("my.yaml").write_text(json.dumps({**SMALL, "batch": {"global": 64}}))
            for example in examples:
                with self.subTest(example=example):
                    names = {}
                    exec(compile(example, "docs/python.md", "exec"), names)
                    self.assertGreater(names["result"]["predictions"][0]["step_seconds"], 0)
                    self.assertEqual({row["gpus"] for row in names["rows"]}, {1, 2, 4, 8})
            os.chdir(ROOT)


class Configs(unittest.TestCase):
    DATA = ROOT / "tests/training_configs/data"

    def test_give_scenarios(self):
        imported = lockstep.import_config(self.DATA / "axolotl/hsdp4x2_tp2.yaml", platform="dgx-h100")
        self.assertEqual(imported["format"], "Axolotl")
        self.assertEqual(len(imported["keys"]), 30)
        self.assertIn("gpus: 16", imported["scenario"])
        with self.assertRaises(lockstep.ConfigError) as caught:
            lockstep.import_config(self.DATA / "llamafactory/gptq_lora.yaml")
        self.assertIn("llamafactory/gptq_lora.yaml", caught.exception.problems[0].file)

    def test_of_torchtitan_are_what_to_dict_says(self):
        from lockstep import torchtitan

        module = types.ModuleType("a_registry")
        module.a_run = lambda: types.SimpleNamespace(to_dict=lambda: {"model_spec": {"name": "x"}, "init": print})
        sys.modules["a_registry"] = module
        self.addCleanup(sys.modules.pop, "a_registry")
        text = torchtitan.config_json("a_registry", "a_run")
        self.assertEqual(json.loads(text)["model_spec"], {"name": "x"})
        self.assertIn("built-in function print", json.loads(text)["init"])
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "run.json")
            self.assertEqual(torchtitan.main(["--module", "a_registry", "--config", "a_run", "-o", file]), 0)
            self.assertEqual(Path(file).read_text(), text)
        with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
            self.assertEqual(torchtitan.main(["--module", "a_registry", "--config", "none"]), 2)

    def test_estimate_runs_for_skypilot(self):
        from lockstep import skypilot

        scenario = {**SMALL, "dataset": {"samples": 6000}, "strategies": ["ddp"]}
        estimate = skypilot.estimator(scenario, platforms={"A100": "p4d.24xlarge"})
        one = estimate(types.SimpleNamespace(accelerators={"A100": 1}))
        self.assertEqual(one, lockstep.run(scenario, {"gpus": [1], "platform": "p4d.24xlarge"})["predictions"][0]["total_seconds"])
        self.assertGreater(one, estimate(types.SimpleNamespace(accelerators={"A100": 8})))
        self.assertGreater(estimate(types.SimpleNamespace(accelerators=None)), 0)


class Snapshots(unittest.TestCase):
    def test_rise_to_the_predicted_peak(self):
        from lockstep import memory

        for strategy in ("ddp", "fsdp"):
            snapshot = memory.snapshot(SMALL, strategy=strategy, gpus=2)
            live, highest, blocks = 0, 0, {}
            for event in snapshot["device_traces"][0]:
                if event["action"] == "alloc":
                    self.assertNotIn(event["addr"], blocks)
                    blocks[event["addr"]] = event["size"]
                    live += event["size"]
                elif event["action"] == "free_completed":
                    live -= blocks.pop(event["addr"])
                highest = max(highest, live)
                self.assertGreater(event["size"], 0)
                self.assertTrue(event["frames"][0]["name"])
            prediction = [
                row for row in lockstep.run(SMALL)["predictions"] if (row["strategy"], row["gpus"]) == (strategy, 2)
            ][0]
            self.assertEqual(highest, prediction["memory"]["allocated_bytes"])

    def test_are_of_one_point(self):
        from lockstep import memory

        with self.assertRaisesRegex(ValueError, "4 fit"):
            memory.snapshot(SMALL)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "memory.pickle")
            memory.write_snapshot(SMALL, file, strategy="ddp", gpus=1)
            with open(file, "rb") as written:
                self.assertEqual(pickle.load(written), memory.snapshot(SMALL, strategy="ddp", gpus=1))


class FakeTrial:
    def __init__(self, number):
        self.params, self.number = {}, number

    def suggest_categorical(self, name, values):
        self.params[name] = values[self.number % len(values)]
        return self.params[name]

    def suggest_int(self, name, low, high):
        self.params[name] = low + self.number * (high - low) // 4
        return self.params[name]


class FakeStudy:
    """The part of optuna.Study that the example uses."""

    def optimize(self, objective, n_trials):
        trials = [FakeTrial(number) for number in range(n_trials)]
        values = [(objective(trial), trial.number) for trial in trials]
        self.best_params = trials[min(values)[1]].params


class FakeTuner:
    """The part of ray.tune.Tuner that the example uses."""

    def __init__(self, trainable, param_space):
        self.trainable, self.space = trainable, param_space

    def fit(self):
        configs = [dict(zip(self.space, values)) for values in itertools.product(*self.space.values())]
        rows = [(self.trainable(config), config) for config in configs]
        best = lambda metric, mode: types.SimpleNamespace(config=min(rows, key=lambda row: row[0][metric])[1])
        return types.SimpleNamespace(get_best_result=best)


class Searches(unittest.TestCase):
    """The examples with Optuna's and Ray Tune's own packages if these are installed, otherwise with stand-ins."""

    def output_of(self, name, modules):
        if importlib.util.find_spec(next(iter(modules))) is None:
            for module, stand_in in modules.items():
                sys.modules[module] = stand_in
                self.addCleanup(sys.modules.pop, module)
        printed_text = io.StringIO()
        before = os.getcwd()
        os.chdir(ROOT)
        self.addCleanup(os.chdir, before)
        with contextlib.redirect_stdout(printed_text):
            runpy.run_path(str(ROOT / "docs/examples" / name))
        return ast.literal_eval(printed_text.getvalue().splitlines()[-1])

    def test_optuna(self):
        optuna = types.ModuleType("optuna")
        optuna.create_study = lambda direction: FakeStudy()
        optuna.TrialPruned = RuntimeError
        self.assertEqual(set(self.output_of("optuna_search.py", {"optuna": optuna})), {"per_gpu", "bucket_mib"})

    def test_ray_tune(self):
        tune = types.ModuleType("ray.tune")
        tune.grid_search = list
        tune.Tuner = FakeTuner
        ray = types.ModuleType("ray")
        ray.tune = tune
        best = self.output_of("ray_tune.py", {"ray": ray, "ray.tune": tune})
        self.assertEqual(best["precision"], "amp-fp16")


class Package(unittest.TestCase):
    def test_a_notebook_shows_a_table_and_no_markup_of_the_file(self):
        text = lockstep.run(SMALL)._repr_html_()
        self.assertIn("small &lt;b&gt;", text)
        self.assertEqual(text.count("<tr>"), 5)

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "no pandas here")
    def test_pandas_takes_both(self):
        import pandas

        self.assertEqual(list(pandas.DataFrame(lockstep.run(SMALL).rows())["gpus"]), [1, 2, 1, 2])
        rows = lockstep.sweep(SMALL, {"batch.per_gpu": [8, 16]})
        self.assertEqual(list(pandas.DataFrame(rows)["set.batch.per_gpu"].unique()), [8, 16])

    def test_says_that_it_is_typed(self):
        self.assertTrue(Path(lockstep.__file__).with_name("py.typed").is_file())
        self.assertEqual(INSTALLED, "site-packages" in lockstep.__file__)

    def test_has_the_version_of_the_program(self):
        version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        self.assertIn(f'version = "{version}"', (ROOT / "sim/python/pyproject.toml").read_text())


def overhead():
    """Milliseconds that a call from Python takes longer than the program alone: the median over pairs of calls."""
    words = [PROGRAM, "run", "--json", str(VGG16)]
    pairs = []
    for _ in range(31):
        began = time.perf_counter()
        subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL)
        middle = time.perf_counter()
        lockstep.run(VGG16)
        pairs.append((middle - began, time.perf_counter() - middle))
    program, call = (sorted(column)[len(pairs) // 2] for column in zip(*pairs))
    print(f"program {1e3 * program:.1f} ms, call {1e3 * call:.1f} ms")


if __name__ == "__main__":
    if sys.argv[1:] == ["overhead"]:
        overhead()
    else:
        unittest.main(verbosity=2)
