#!/usr/bin/env python3
"""Tests of calibrate/acceptance/gpu_acceptance.sh and calibrate/acceptance/acceptance_report.py.

usage: acceptance_test.py [GROUP...]   (a class below)
LOCKSTEP_PROGRAM is the built simulator; everything that measures is replaced by stub_*.
--write-golden writes data/partial.md anew.
"""
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRIPT = ROOT / "calibrate" / "acceptance" / "gpu_acceptance.sh"
REPORT = ROOT / "calibrate" / "acceptance" / "acceptance_report.py"
# Of --device cpu --quick: probes, calibration, 4 single ranks, calibration of two, 5 strategies.
QUICK_UNITS = 12


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-acceptance-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.output = self.folder / "output"
        self.calls_file = self.folder / "calls"
        self.calls_file.touch()
        self.build = self.folder / "build"
        for name, stub in (("sim/cli/lockstep", "stub_lockstep"),
                           ("calibrate/cli/lockstep-calibrate", "stub_calibrate"),
                           ("calibrate/cuda/lockstep-calibrate-cuda", "stub_probe")):
            (self.build / name).parent.mkdir(parents=True)
            (self.build / name).symlink_to(HERE / stub)

    def environment(self, **stub):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("STUB_", "LOCKSTEP_"))}
        return {**clean, "LOCKSTEP_BUILD_DIR": str(self.build), "STUB_CALLS": str(self.calls_file),
                **stub}

    def start(self, *arguments, output=None, **stub):
        return subprocess.run(
            [SCRIPT, "--output", output or self.output, *arguments], env=self.environment(**stub),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=100)

    def quick(self, *arguments, stages="probes,models,validate,ranks,report", **more):
        return self.start("--device", "cpu", "--quick", "--stages", stages, *arguments, **more)

    def calls(self):
        return self.calls_file.read_text().splitlines()

    def report(self):
        return (self.output / "report.md").read_text()


class Options(Case):
    def test_wrong_words_end_with_2_and_say_what_is_allowed(self):
        for words, hint in ((["--fast"], "unknown option --fast"),
                            (["--device"], "--device needs a value"),
                            (["--device", "gpu"], "cpu or cuda:0"),
                            (["--stages", "probes,train"], "no stage 'train'"),
                            (["--models", "resnet50,vgg"], "'vgg' is not measured here"),
                            (["--device", "cpu", "--precisions", "tf32"], "allowed: fp32"),
                            (["--time-limit", "9m"], "whole seconds"),
                            (["--unit-limit", "0"], "whole seconds"),
                            (["--deps", "nowhere"], "collect_deps.sh"),
                            (["--resume", "nowhere.tar.gz"], "cannot be read")):
            with self.subTest(words):
                run = self.start(*words)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertIn(hint, run.stderr)
                self.assertIn("--time-limit SECONDS", run.stderr)
                self.assertFalse(self.output.exists())

    def test_the_list_runs_nothing_and_has_the_most_valuable_units_first(self):
        run = self.start("--list")
        self.assertEqual(run.returncode, 0, run.stderr)
        units = [line.split()[1] for line in run.stdout.splitlines()]
        self.assertEqual(len(units), len(set(units)))
        self.assertEqual(units[:3], ["probes-device", "calibrate-resnet50-fp32",
                                     "calibrate-resnet50-amp-bf16"])
        place = units.index
        self.assertLess(place("real-step-beyond-resnet50-amp-bf16-48"),
                        place("calibrate-vgg16-fp32"))
        self.assertLess(place("real-step-beyond-convnext_large-fp32-48"),
                        place("real-ranks-ddp-resnet50-2"))
        self.assertLess(place("real-ranks-ps-ssp-resnet50-2"), place("calibrate-resnet50-tf32"))
        self.assertEqual(units[-1], "real-ranks-ps-ssp-gpt2-4")
        self.assertEqual(self.calls(), [])
        self.assertFalse(self.output.exists())

    def test_models_and_precisions_narrow(self):
        run = self.start("--list", "--models", "gpt2,resnet101", "--precisions", "tf32")
        units = [line.split()[1] for line in run.stdout.splitlines()]
        self.assertEqual(units, [
            "probes-device", "calibrate-gpt2-tf32", "real-step-between-gpt2-tf32-16",
            "real-step-beyond-gpt2-tf32-48", "real-step-calibrated-gpt2-tf32-8",
            "real-step-calibrated-gpt2-tf32-32", "real-step-other-resnet101-tf32-16"])

    def test_two_kinds_of_run_do_not_share_a_folder(self):
        self.assertEqual(self.quick(stages="report").returncode, 0)
        run = self.start("--device", "cpu", "--stages", "report")
        self.assertEqual(run.returncode, 2)
        self.assertIn("another --output", run.stderr)


class Resuming(Case):
    def test_what_a_time_limit_cut_goes_on_from_the_archive(self):
        first = self.quick("--time-limit", "3", "--archive", str(self.folder / "kept.tar.gz"),
                           STUB_SECONDS="0.5")
        self.assertEqual(first.returncode, 3, first.stderr)
        self.assertRegex(first.stderr, r"[1-9]\d* units left; call again")
        self.assertIn("Not run yet", self.report())
        done = self.calls()
        self.assertGreaterEqual(len(done), 1)
        self.assertLess(len(done), QUICK_UNITS)

        self.output = self.folder / "elsewhere"
        second = self.quick("--resume", str(self.folder / "kept.tar.gz"))
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn(f"{len(done)} of {QUICK_UNITS} units are there already", second.stderr)
        counts = collections.Counter(self.calls())
        self.assertEqual(len(counts), QUICK_UNITS)
        self.assertEqual(set(counts.values()), {1})
        self.assertIn("Everything ran.", self.report())
        with tarfile.open(self.output / "results.tar.gz") as archive:
            names = archive.getnames()
        for name in ("report.md", "profile/profile.yaml", "profile-ranks-2/profile.yaml",
                     "done/calibrate-lenet5-fp32", "real/step-beyond-lenet5-fp32-64.json",
                     "scenarios/ranks-fsdp-lenet5-2.yaml", "predicted/ranks-fsdp-lenet5-2.json"):
            self.assertIn(name, names)

        again = self.quick("--resume", str(self.folder / "kept.tar.gz"))
        self.assertEqual(again.returncode, 2)
        self.assertIn("is not empty", again.stderr)

    def test_only_again_repeats(self):
        self.assertEqual(self.quick().returncode, 0)
        before = self.calls()
        listed = self.quick("--list").stdout.splitlines()
        self.assertEqual(len(listed), QUICK_UNITS)
        self.assertTrue(all(line.startswith("there ") for line in listed), listed)
        self.assertEqual(self.quick().returncode, 0)
        self.assertEqual(self.calls(), before)
        self.assertEqual(self.quick("--again", stages="models").returncode, 0)
        self.assertEqual(len(self.calls()), len(before) + 1)
        self.assertIn("--models lenet5", self.calls()[-1])

    def test_several_ranks_are_predicted_from_layers_of_as_many(self):
        self.assertEqual(self.quick().returncode, 0)
        calls = [call for call in self.calls() if call.startswith("calibrate --")]
        self.assertEqual(len(calls), 2)
        self.assertNotIn("--ranks", calls[0])
        self.assertIn("--ranks 2 --models lenet5 --batches 16 ", calls[1])
        self.assertTrue(calls[1].endswith("/profile-ranks-2"))
        for name, profile in (("step-between-lenet5-fp32-16", "profile"),
                              ("ranks-ddp-lenet5-2", "profile-ranks-2")):
            scenario = (self.output / f"scenarios/{name}.yaml").read_text()
            self.assertIn(f"profile: ../{profile}\n", scenario)

    def test_predictions_are_made_again_when_the_profile_is_newer_or_at_request(self):
        self.assertEqual(self.quick(stages="models,validate,report").returncode, 0)
        prediction = self.output / "predicted/step-between-lenet5-fp32-16.json"
        for arguments, newer, anew in (([], False, False), ([], True, True), (["--again"], False, True)):
            prediction.write_text('{"predictions": []}')
            past = time.time() - (10 if newer else -10)
            os.utime(prediction, (past, past))
            self.assertEqual(self.quick(*arguments, stages="report").returncode, 0)
            self.assertEqual("step_seconds" in prediction.read_text(), anew)

    def test_a_signal_keeps_what_is_there(self):
        process = subprocess.Popen(
            [SCRIPT, "--output", self.output, "--device", "cpu", "--quick", "--stages",
             "probes,models,report"], env=self.environment(STUB_HANG="--models"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        log = self.output / "logs" / "calibrate-lenet5-fp32.log"
        for _ in range(500):
            if log.exists():
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 130)
        self.assertTrue((self.output / "results.tar.gz").exists())
        self.assertIn("calibrate-lenet5-fp32 (cut off)", self.report())


class Failing(Case):
    def test_a_failure_is_reported_and_tried_again_by_the_next_call(self):
        first = self.quick(STUB_FAIL="--batch 64")
        self.assertEqual(first.returncode, 1, first.stderr)
        self.assertIn("- Failed: real-step-beyond-lenet5-fp32-64: `stand-in: out of memory`",
                      self.report())
        self.assertEqual(len(self.calls()), QUICK_UNITS - 1)
        second = self.quick()
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(len(self.calls()), QUICK_UNITS)
        self.assertIn("Everything ran.", self.report())

    def test_a_unit_that_hangs_is_stopped(self):
        run = self.quick("--unit-limit", "2", stages="models,validate,report", STUB_HANG="--batch 16")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("- Failed: real-step-between-lenet5-fp32-16: `stopped: it took longer than 2 s`",
                      self.report())
        self.assertEqual(len(self.calls()), 4)

    def test_what_needs_more_than_a_whole_call_is_not_left_for_ever(self):
        codes = []
        while len(codes) < 6 and (not codes or codes[-1] == 3):  # the others follow meanwhile
            codes.append(self.quick("--time-limit", "4", stages="models,validate,report",
                                    STUB_HANG="--models lenet5").returncode)
        self.assertEqual((codes[0], codes[-1]), (3, 1), codes)
        self.assertIn("- Failed: calibrate-lenet5-fp32", self.report())
        self.assertEqual(len(self.calls()), 4)

    def test_without_a_profile_there_are_no_predictions(self):
        run = self.quick(stages="validate,report")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("no profile in", run.stderr)
        self.assertIn("- Without a prediction: step-between-lenet5-fp32-16, ", self.report())
        self.assertIn("calibrate-lenet5-fp32", self.report())

    def test_a_failed_prediction_is_a_failure(self):
        lockstep = self.build / "sim/cli/lockstep"
        lockstep.unlink()
        lockstep.write_text("#!/bin/sh\necho 'scenario: wrong' >&2\nexit 2\n")
        lockstep.chmod(0o755)
        run = self.quick(stages="models,validate,report")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("- Failed: predicted-step-between-lenet5-fp32-16: `scenario: wrong`",
                      self.report())


class Device(Case):
    """--device cuda:0, with stand-ins."""

    def gpu(self, *arguments, gpu="NVIDIA H100 80GB HBM3", **stub):
        return self.start("--quick", *arguments, STUB_GPU=gpu, **stub)

    def test_without_a_gpu_it_ends_with_77(self):
        run = self.start("--stages", "probes")
        self.assertEqual(run.returncode, 77, run.stderr)
        self.assertIn("no CUDA device", run.stderr)

    def test_without_the_probe_program_it_says_so(self):
        (self.build / "calibrate/cuda/lockstep-calibrate-cuda").unlink()
        run = self.start("--stages", "probes")
        self.assertEqual(run.returncode, 1)
        self.assertIn("stage build", run.stderr)

    def test_one_calibration_measures_all_precisions_of_a_model(self):
        run = self.gpu("--stages", "probes,models")
        self.assertEqual(run.returncode, 0, run.stderr)
        probe, *calibrations = self.calls()
        self.assertIn("--quick", probe)
        self.assertEqual(len(calibrations), 2)
        for model, call in zip(("resnet50", "gpt2"), calibrations):
            self.assertIn(f"--as h100-sxm5-80gb --models {model} --batches 8,32 "
                          "--precisions fp32,amp-bf16 ", call)

    def test_calibrations_that_failed_are_repeated_one_by_one(self):
        self.assertEqual(self.gpu("--stages", "probes,models", "--models", "gpt2",
                                  STUB_FAIL="fp32,amp-bf16").returncode, 1)
        self.assertEqual(self.gpu("--stages", "models", "--models", "gpt2").returncode, 0)
        self.assertEqual([call.split()[10] for call in self.calls()[1:]], ["fp32", "amp-bf16"])

    def test_results_of_two_gpus_do_not_get_mixed_up(self):
        self.assertEqual(self.gpu("--stages", "probes").returncode, 0)
        run = self.gpu("--stages", "models", gpu="NVIDIA H200")
        self.assertEqual(run.returncode, 2)
        self.assertIn("holds results of 'NVIDIA H100 80GB HBM3', this is 'NVIDIA H200'", run.stderr)

    def predict(self, **stub):
        """A real prediction of one real run, by the built simulator."""
        program = os.environ.get("LOCKSTEP_PROGRAM")
        if not program:
            self.skipTest("LOCKSTEP_PROGRAM is not set")
        lockstep = self.build / "sim/cli/lockstep"
        lockstep.unlink()
        lockstep.symlink_to(pathlib.Path(program).resolve())
        run = self.gpu("--stages", "probes,validate,ranks,report", "--models", "resnet50",
                       "--precisions", "fp32", **stub)
        self.assertEqual(run.returncode, 0, run.stderr)
        predicted = json.loads(
            (self.output / "predicted/step-beyond-resnet50-fp32-48.json").read_text())
        self.assertEqual(len(predicted["predictions"]), 1)
        self.assertFalse((self.output / "predicted/ranks-ddp-resnet50-2.json").exists())
        platform = (self.output / "scenarios/platform.yaml").read_text()
        self.assertIn("launch: 2.5e-06 s}", platform)
        return (self.output / "scenarios/step-beyond-resnet50-fp32-48.yaml").read_text()

    def test_host_time_of_operators_comes_from_the_profile(self):
        scenario = self.predict(STUB_OPERATOR="8 us")
        self.assertIn("framework: {operator_seconds: 8e-06 s, backward_share: 50%}", scenario)

    def test_host_time_of_operators_without_python_where_it_is_not_measured(self):
        scenario = self.predict()
        self.assertIn("framework: {operator_seconds: 10.25 us, backward_share: 100%}", scenario)
        self.assertIn("profile: ../profile", scenario)


def partial_folder(folder):
    """What a run that was cut leaves: records by hand, errors that are easy to see."""
    def write(name, text):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def record(kind, name, step, allocated, reserved, **more):
        write(f"{kind}/{name}.json", json.dumps({"runs" if kind == "real" else "predictions": [{
            "step_seconds": step, **more,
            "memory": {"allocated_bytes": allocated * 2**20, "reserved_bytes": reserved * 2**20}}]}))

    write("machine", "NVIDIA H100 80GB HBM3\n")
    write("profile/profile.yaml", "format: 1\ndevice: h100-sxm5-80gb\ndate: 2026-11-22\n"
          "settings:\n  - {name: layers_device, value: cuda:0}\nmodels: []\n"
          "host: {operator: 6 us, launch: 2.5 us}\ncomplete: true\n")
    write("plan", "\n".join([
        "probes-device", "calibrate-resnet50-fp32", "calibrate-gpt2-fp32",
        "real-step-between-resnet50-fp32-16", "real-step-beyond-resnet50-fp32-48",
        "real-step-calibrated-resnet50-fp32-8", "real-step-between-gpt2-fp32-16",
        "real-step-beyond-gpt2-fp32-48", "real-step-other-resnet101-fp32-16",
        "real-ranks-ddp-resnet50-2", "real-ranks-fsdp-resnet50-2"]) + "\n")
    write("done/probes-device", "")
    write("done/calibrate-resnet50-fp32", "")
    write("failed", "real-step-beyond-gpt2-fp32-48\n")
    write("cut", "real-ranks-fsdp-resnet50-2\n")
    write("logs/real-step-beyond-gpt2-fp32-48.log", "starting\nrank 0 is out of memory: `cuda:0`\n\n")
    measured = {"provenance": {"measured": 0.7, "interpolated": 0.3}}
    record("real", "step-calibrated-resnet50-fp32-8", 0.010, 1000, 1200)
    record("predicted", "step-calibrated-resnet50-fp32-8", 0.0102, 1000, 1200, **measured)
    record("real", "step-between-resnet50-fp32-16", 0.020, 2000, 2400)  # +1, +1, +10 %
    record("predicted", "step-between-resnet50-fp32-16", 0.0202, 2020, 2640, **measured)
    record("real", "step-beyond-resnet50-fp32-48", 0.050, 6000, 7000)  # -4, +3, -8 %
    record("predicted", "step-beyond-resnet50-fp32-48", 0.048, 6180, 6440,
           provenance={"modelled": 1.0})
    record("real", "step-other-resnet101-fp32-16", 0.040, 3000, 3500)  # +25, 0, 0 %
    record("predicted", "step-other-resnet101-fp32-16", 0.050, 3000, 3500,
           provenance={"modelled": 1.0})
    record("real", "step-between-gpt2-fp32-16", 0.100, 8000, 9000)  # without a prediction
    record("real", "ranks-ddp-resnet50-2", 0.2, 1000, 1200, each_loss=[7.0, 6.5],
           step_interval_seconds=[0.19, 0.22])
    write("predicted/ranks-fsdp-resnet50-2.json.part", "{")
    write("real/step-calibrated-gpt2-fp32-8.json", "{")  # was cut while it was copied


def report_of(folder):
    return subprocess.run([sys.executable, REPORT, folder], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


class Report(Case):
    def test_partial_results_give_the_report_written_down(self):
        partial_folder(self.folder / "partial")
        self.maxDiff = None
        self.assertEqual(report_of(self.folder / "partial"), (HERE / "data/partial.md").read_text())

    def test_the_bars_are_medians_of_what_was_not_calibrated(self):
        partial_folder(self.folder / "partial")
        rows = [line for line in report_of(self.folder / "partial").splitlines()
                if line.startswith(("| step ", "| allocated ", "| reserved "))]
        self.assertEqual(rows, ["| step | 4.0 % | 5 % | reached | 3 of 5 |",
                                "| allocated | 1.0 % | 2 % | reached | 3 of 5 |",
                                "| reserved | 8.0 % | 5 % | **missed** | 3 of 5 |"])

    def test_an_empty_folder_and_no_folder(self):
        (self.folder / "empty").mkdir()
        text = report_of(self.folder / "empty")
        self.assertIn("No run and no prediction is there.", text)
        self.assertEqual(text.count("not measured"), 3)
        self.assertEqual(subprocess.run([sys.executable, REPORT, self.folder / "none"],
                                        stderr=subprocess.DEVNULL).returncode, 2)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write-golden"]:
        with tempfile.TemporaryDirectory() as name:
            partial_folder(pathlib.Path(name))
            (HERE / "data/partial.md").write_text(report_of(pathlib.Path(name)))
        sys.exit(0)
    unittest.main()
