#!/usr/bin/env python3
"""Does `lockstep acceptance` plan, resume, end in time and report, whatever its units do?

usage: acceptance_test.py [GROUP...]   (GROUP: a class below)
LOCKSTEP_PROGRAM is the built program; stub_* replace the programs that measure.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ["LOCKSTEP_PROGRAM"]
# The units of --device cpu --quick: probes, calibration, 4 single ranks, calibration of two ranks, and 5
# strategies.
QUICK_UNITS = 12
H100 = "NVIDIA H100 80GB HBM3"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-acceptance-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "output"
        self.calls_file = self.folder / "calls"
        self.calls_file.touch()

    def environment(self, **stub):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STUB_", "LOCKSTEP_CALIBRATE"))}
        return {**clean, "LOCKSTEP_CALIBRATE": str(HERE / "stub_calibrate"),
                "LOCKSTEP_CALIBRATE_CUDA": str(HERE / "stub_probe"), "STUB_CALLS": str(self.calls_file), **stub}

    def start(self, *arguments, **stub):
        return subprocess.run(
            [PROGRAM, "acceptance", "--output", self.output, *arguments], env=self.environment(**stub),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)

    def quick(self, *arguments, stages="probes,models,validate,ranks,report", **more):
        return self.start("--device", "cpu", "--quick", "--stages", stages, *arguments, **more)

    def calls(self):
        return self.calls_file.read_text().splitlines()

    def report(self):
        return (self.output / "report.md").read_text()

    def listed(self, *arguments):
        """The names, estimates and states of the units."""
        run = self.start("--list", *arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return [re.split("  +", line) for line in run.stdout.splitlines()[1:-1]]


class Options(Case):
    def test_wrong_words_end_with_2_and_say_what_is_allowed(self):
        for words, hint in ((["--fast"], "--fast"),
                            (["--device"], "--device"),
                            (["--device", "gpu"], "--device: 'gpu' is not known; cpu, or cuda:0"),
                            (["--stages", "probes,train"], "--stages: 'train' is not measured here; allowed: probes"),
                            (["--models", "gpt2,resnet-50"], "did you mean 'resnet50'?"),
                            (["--device", "cpu", "--precisions", "tf32"], "allowed: fp32"),
                            (["--time-limit", "9"], "--time-limit: '9' needs a unit"),
                            (["--unit-limit", "0 s"], "--unit-limit: '0 s' is not possible")):
            with self.subTest(words):
                run = self.start(*words)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(hint, run.stderr)
                self.assertEqual(run.stdout, "")
                self.assertFalse(self.output.exists())

    def test_results_need_a_folder(self):
        run = subprocess.run([PROGRAM, "acceptance"], stderr=subprocess.PIPE, text=True)
        self.assertEqual((run.returncode, run.stderr),
                         (2, "--output: where do the results go?; for example -o results\n"))

    def test_a_folder_that_cannot_be_written_is_said_at_once(self):
        self.output.write_text("a file")
        run = self.quick()
        self.assertEqual(run.returncode, 74)
        self.assertEqual(run.stderr, f"lockstep: cannot write {self.output}: Not a directory\n")
        self.assertEqual(self.calls(), [])

    def test_the_list_runs_nothing_and_has_the_most_valuable_units_first(self):
        lines = self.listed()
        units = [name for name, _, state in lines]
        self.assertEqual(len(units), len(set(units)))
        self.assertEqual(units[:3], ["probes-device", "calibrate-resnet50-fp32", "calibrate-resnet50-amp-bf16"])
        place = units.index
        self.assertLess(place("step-beyond-resnet50-amp-bf16-48"), place("calibrate-vgg16-fp32"))
        self.assertLess(place("step-beyond-convnext_large-fp32-48"), place("ranks-ddp-resnet50-2"))
        self.assertLess(place("ranks-ps-ssp-resnet50-2"), place("calibrate-resnet50-tf32"))
        self.assertEqual(units[-1], "ranks-ps-ssp-gpt2-4")
        self.assertEqual({state for _, _, state in lines}, {"left"})
        self.assertTrue(all(re.fullmatch(r"\d+ (s|min)", about) and about != "0 s" for _, about, _ in lines))
        self.assertEqual(self.calls(), [])
        self.assertFalse(self.output.exists())

    def test_models_and_precisions_narrow(self):
        lines = self.listed("--models", "gpt2,resnet101", "--precisions", "tf32")
        self.assertEqual([name for name, *_ in lines], [
            "probes-device", "calibrate-gpt2-tf32", "step-between-gpt2-tf32-16", "step-beyond-gpt2-tf32-48",
            "step-calibrated-gpt2-tf32-8", "step-calibrated-gpt2-tf32-32", "step-other-resnet101-tf32-16"])

    def test_two_kinds_of_run_do_not_share_a_folder(self):
        self.assertEqual(self.quick(stages="report").returncode, 0)
        run = self.start("--device", "cpu", "--stages", "report")
        self.assertEqual(run.returncode, 2)
        self.assertIn("holds results of 'cpu --quick', this is 'cpu'; another folder", run.stderr)

    def test_a_broken_mark_is_told_by_its_place(self):
        self.output.mkdir()
        (self.output / "progress.yaml").write_text("device: cpu\nquick: true\nunits:\n  - {name: probes, state: dnoe}\n")
        run = self.quick()
        self.assertEqual(run.returncode, 2)
        self.assertIn("progress.yaml:4:27: units[0].state: ", run.stderr)
        self.assertIn("did you mean 'done'?", run.stderr)


class Resuming(Case):
    def test_what_a_time_limit_cut_goes_on_from_a_copy_of_the_folder(self):
        first = self.quick("--time-limit", "1.2 s", STUB_SECONDS="0.2")
        self.assertEqual(first.returncode, 3, first.stderr)
        self.assertRegex(first.stderr, r"[1-9]\d* units left; call again")
        self.assertIn("Not run yet", self.report())
        done = self.calls()
        self.assertGreaterEqual(len(done), 1)
        self.assertLess(len(done), QUICK_UNITS)

        shutil.move(self.output, self.folder / "elsewhere")
        self.output = self.folder / "elsewhere"
        second = self.quick()
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn(f"{len(done)} of {QUICK_UNITS} units are there already", second.stderr)
        counts = collections.Counter(self.calls())
        self.assertEqual(len(counts), QUICK_UNITS)
        self.assertEqual(set(counts.values()), {1})
        self.assertIn("Everything ran.", self.report())
        for name in ("profile/profile.yaml", "profile-ranks-2/profile.yaml", "real/step-beyond-lenet5-fp32-64.json",
                     "scenarios/ranks-fsdp-lenet5-2.yaml", "predicted/ranks-fsdp-lenet5-2.json"):
            self.assertTrue((self.output / name).exists(), name)

    def test_only_again_repeats(self):
        self.assertEqual(self.quick().returncode, 0)
        times = re.findall(r"seconds: (.*)", (self.output / "progress.yaml").read_text())
        self.assertEqual(len(times), QUICK_UNITS)
        self.assertTrue(all(re.fullmatch(r"\d+(\.\d)? s", time) for time in times), times)
        before = self.calls()
        self.assertEqual([state for *_, state in self.listed("--device", "cpu", "--quick")], ["done"] * QUICK_UNITS)
        self.assertEqual(self.quick().returncode, 0)
        self.assertEqual(self.calls(), before)
        self.assertEqual(self.quick("--again", stages="models").returncode, 0)
        self.assertEqual(len(self.calls()), len(before) + 1)
        self.assertIn("--models lenet5", self.calls()[-1])

    def test_a_record_that_was_cut_off_is_measured_again(self):
        self.assertEqual(self.quick(stages="models,validate").returncode, 0)
        (self.output / "real/step-beyond-lenet5-fp32-64.json").write_text('{"runs": [')
        self.assertEqual(self.quick(stages="models,validate").returncode, 0)
        self.assertEqual(len(self.calls()), 6)
        self.assertIn("--batch 64 ", self.calls()[-1])

    def test_several_ranks_are_predicted_from_layers_of_as_many(self):
        self.assertEqual(self.quick().returncode, 0)
        calls = [call for call in self.calls() if call.startswith("calibrate --")]
        self.assertEqual(len(calls), 2)
        self.assertIn("--ranks 1 --models lenet5 --batches 8,32 ", calls[0])
        self.assertIn("--ranks 2 --models lenet5 --batches 16 ", calls[1])
        self.assertTrue(calls[1].endswith("/profile-ranks-2"))
        for name, profile in (("step-between-lenet5-fp32-16", "profile"),
                              ("ranks-ddp-lenet5-2", "profile-ranks-2")):
            scenario = (self.output / f"scenarios/{name}.yaml").read_text()
            self.assertIn(f"profile: ../{profile}\n", scenario)

    def test_a_signal_keeps_what_is_there(self):
        process = subprocess.Popen(
            [PROGRAM, "acceptance", "-o", self.output, "--device", "cpu", "--quick", "--stages",
             "probes,models,report"], env=self.environment(STUB_HANG="--models"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = self.output / "logs" / "calibrate-lenet5-fp32.log"
        for _ in range(1000):
            if log.exists() and log.read_text():
                break
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 130)
        self.assertIn("calibrate-lenet5-fp32 (cut off)", self.report())
        self.assertEqual(self.quick(stages="probes,models").returncode, 0)
        self.assertEqual(len(self.calls()), 2)


class Failing(Case):
    def test_a_failure_is_reported_and_tried_again_by_the_next_call(self):
        first = self.quick(STUB_FAIL="--batch 64")
        self.assertEqual(first.returncode, 1, first.stderr)
        self.assertIn("- Failed: step-beyond-lenet5-fp32-64: `stand-in: out of memory`", self.report())
        self.assertEqual(len(self.calls()), QUICK_UNITS - 1)
        second = self.quick("--json")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(len(self.calls()), QUICK_UNITS)
        self.assertIn("Everything ran.", self.report())
        figures = json.loads(second.stdout)
        self.assertEqual(figures, json.loads((self.output / "report.json").read_text()))
        self.assertEqual((len(figures["runs"]), figures["failed"], figures["left"]), (9, [], []))
        self.assertEqual(figures["runs"][0]["real"], {"step_seconds": 0.1, "allocated_bytes": 1048576.0})
        self.assertGreater(figures["runs"][0]["predicted"]["step_seconds"], 0)

    def test_a_unit_that_hangs_is_stopped(self):
        run = self.quick("--unit-limit", "0.5 s", stages="models,validate,report", STUB_HANG="--batch 16")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("- Failed: step-between-lenet5-fp32-16: `stopped: it took longer than 0.5 s`", self.report())
        self.assertEqual(len(self.calls()), 4)

    def test_what_needs_more_than_a_whole_call_is_not_left_for_ever(self):
        codes = []
        while len(codes) < 6 and (not codes or codes[-1] == 3):  # each call measures other units meanwhile
            codes.append(self.quick("--time-limit", "1.2 s", stages="models,validate,report",
                                    STUB_HANG="--models lenet5").returncode)
        self.assertEqual((codes[0], codes[-1]), (3, 1), codes)
        self.assertIn("- Failed: calibrate-lenet5-fp32", self.report())
        self.assertEqual(len(self.calls()), 4)

    def test_without_a_profile_there_are_no_predictions(self):
        run = self.quick(stages="validate,report")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("no profile in", run.stderr)
        self.assertIn("- Without a prediction: step-between-lenet5-fp32-16\n", self.report())
        self.assertIn("calibrate-lenet5-fp32", self.report())

    def test_a_failed_prediction_is_a_failure(self):
        run = self.quick(stages="models,validate,report", STUB_DEVICE="h100-sxm5-80gb")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertRegex(self.report(), "- Without a prediction: step-between-lenet5-fp32-16: `.*h100-sxm5-80gb")


class Device(Case):
    """The options of --device cuda:0, with stand-ins for a GPU."""

    def gpu(self, *arguments, gpu=H100, **stub):
        return self.start("--quick", *arguments, STUB_GPU=gpu, **stub)

    def test_without_a_gpu_it_ends_with_77(self):
        run = self.start("--stages", "probes")
        self.assertEqual(run.returncode, 77, run.stderr)
        self.assertIn("no CUDA device", run.stderr)

    def test_without_the_probe_program_it_says_so(self):
        environment = self.environment()
        del environment["LOCKSTEP_CALIBRATE_CUDA"]
        run = subprocess.run([PROGRAM, "acceptance", "-o", self.output], env=environment,
                             stderr=subprocess.PIPE, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("lockstep-calibrate-cuda is not built; `calibrate/acceptance/bare_machine.sh build`", run.stderr)

    def test_copies_and_updates_are_measured_once_for_a_model(self):
        run = self.gpu("--stages", "probes,models")
        self.assertEqual(run.returncode, 0, run.stderr)
        probe, *calibrations = self.calls()
        self.assertIn("--quick", probe)
        self.assertEqual([call.split()[6:11:2] + [call.split()[-1] == "--layers-only"] for call in calibrations],
                         [[model, "8,32", precision, again]
                          for model in ("resnet50", "gpt2")
                          for precision, again in (("fp32", False), ("amp-bf16", True))])

    def test_results_of_two_gpus_do_not_get_mixed_up(self):
        self.assertEqual(self.gpu("--stages", "probes").returncode, 0)
        run = self.gpu("--stages", "models", gpu="NVIDIA H200")
        self.assertEqual(run.returncode, 2)
        self.assertIn(f"holds results of '{H100}', this is 'NVIDIA H200'", run.stderr)
        # The report needs no GPU.
        self.assertEqual(self.start("--quick", "--stages", "report").returncode, 0)

    def predict(self, **stub):
        run = self.gpu("--stages", "probes,validate,ranks,report", "--models", "resnet50",
                       "--precisions", "fp32", **stub)
        self.assertEqual(run.returncode, 0, run.stderr)
        predicted = json.loads((self.output / "predicted/step-beyond-resnet50-fp32-48.json").read_text())
        self.assertEqual(len(predicted["predictions"]), 1)
        self.assertFalse((self.output / "predicted/ranks-ddp-resnet50-2.json").exists())
        self.assertIn("  launch: 2.5 us\n", (self.output / "scenarios/platform.yaml").read_text())
        return (self.output / "scenarios/step-beyond-resnet50-fp32-48.yaml").read_text()

    def test_host_time_of_operators_comes_from_the_profile(self):
        self.assertRegex(self.predict(STUB_OPERATOR="8 us"), "operator_seconds: 8 us\n *backward_share: 0.5\n")

    def test_host_time_of_operators_without_python_where_it_is_not_measured(self):
        self.assertRegex(self.predict(), "operator_seconds: 10250 ns\n *backward_share: 1\n")


class Measured(Case):
    def test_what_a_gpu_really_did_is_predicted_within_the_bars(self):
        """Only the simulator can change this result: profile and real runs are files of the repository."""
        kept = pathlib.Path(os.environ["LOCKSTEP_DATA"]) / "platforms/measurements/h100-sxm5-80gb"
        shutil.copytree(kept, self.output)
        run = self.start("--device", "cuda:0", "--stages", "report", "--json")
        answer = json.loads(run.stdout)
        self.assertEqual(answer["without_prediction"], [], run.stderr)
        self.assertEqual({run["purpose"] for run in answer["runs"]}, {"calibrated", "between", "beyond", "other", "ranks"})
        for bar in answer["bars"]:
            self.assertGreaterEqual(bar["runs"], 20)
            self.assertLess(bar["median_error"], bar["bar"], bar["figure"])


if __name__ == "__main__":
    unittest.main()
