"""Does ./lockstep install and build exactly what a call needs, and only once if two calls come at the same time?
Stand-ins for packages, apt and CMake note how they were called."""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]

STAND_INS = {
    "dpkg-query": 'grep -qxF "${@: -1}" "$STATE/installed" && echo installed; true',
    "sudo": 'exec "$@"',
    # dpkg's lock would refuse two installations at a time.
    "apt-get": """
        [[ $1 != update ]] || exit 0
        mkdir "$STATE/dpkg-lock" || { echo "Could not get lock" >&2; exit 100; }
        sleep 0.5
        echo "install $*" >> "$STATE/log"
        printf '%s\\n' "$@" >> "$STATE/installed"
        rmdir "$STATE/dpkg-lock" """,
    "cmake": """
        echo "cmake $*" >> "$STATE/log"
        if [[ $1 == --build ]]; then
          case $4 in
            lockstep) program=$2/sim/cli/lockstep ;;
            lockstep-calibrate) program=$2/calibrate/cli/lockstep-calibrate ;;
            *) exit 0 ;;
          esac
          mkdir -p "$(dirname "$program")"
          printf '#!/bin/sh\\necho %s "$@"\\n' "$4" > "$program"
          chmod +x "$program"
        else
          touch "$4/build.ninja" "$4/CMakeCache.txt"
          for option in "$@"; do
            [[ $option != -D* ]] || {
              sed -i "/^$(sed 's/^-D//; s/=.*//' <<<"$option"):/d" "$4/CMakeCache.txt"
              sed 's/^-D//; s/=/:BOOL=/' <<<"$option" >> "$4/CMakeCache.txt"
            }
          done
          echo "CMAKE_HOME_DIRECTORY:INTERNAL=$2" >> "$4/CMakeCache.txt"
        fi""",
    "ctest": 'echo "ctest $*"',
}


@unittest.skipUnless(pathlib.Path("/var/lib/dpkg").is_dir(), "no Debian")
class Launcher(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-launcher-")).resolve()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copy(REPOSITORY / "lockstep", self.root)
        (self.root / "docs").mkdir()
        shutil.copy(REPOSITORY / "docs" / "help.txt", self.root / "docs")
        for folder in ("sim", "calibrate/acceptance", "calibrate/closed_loop", "calibrate/convergence", "calibrate/launch", "calibrate/probes", "cmake",
                       "bin", "state"):
            (self.root / folder).mkdir(parents=True)
        (self.root / "CMakeLists.txt").touch()
        (self.root / "state" / "installed").touch()
        for name, script in STAND_INS.items():
            program = self.root / "bin" / name
            program.write_text("#!/usr/bin/env bash\n" + script)
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
        self.environment.update(PATH=f"{self.root}/bin:{os.environ['PATH']}", STATE=str(self.root / "state"))

    def start(self, *words, **environment):
        return subprocess.Popen([self.root / "lockstep", *words], env={**self.environment, **environment},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def call(self, *words, **environment):
        process = self.start(*words, **environment)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return out

    def log(self, beginning=""):
        path = self.root / "state" / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(beginning)]

    def test_two_first_calls_wait_for_each_other(self):
        calls = [self.start("list", "models"), self.start("test"), self.start("list", "devices")]
        for call in calls:
            err = call.communicate(timeout=60)[1]
            self.assertEqual(call.returncode, 0, err)
        self.assertEqual(sum("libsimgrid-dev" in line for line in self.log("install")), 1)

    def test_measuring_verbs_need_the_measuring_half(self):
        self.assertEqual(self.call("train", "--ranks", "2"), "lockstep-calibrate train --ranks 2\n")
        self.assertTrue([line for line in self.log("install") if "libtorch-dev" in line])

    # The help comes from docs/help.txt; docs/update --check compares this file with the program's output.
    def test_help_builds_nothing(self):
        self.assertIn("\nQuestions:\n", self.call("--help"))
        for words in (["run"], ["closed-loop"], ["calibrate"], ["calibrate", "collectives"]):
            self.assertIn(f"Usage: lockstep {' '.join(words)} [OPTIONS]", self.call(*words, "--help"))
        self.assertEqual(self.call("run", "my.yaml", "--json", "--help"), self.call("run", "-h"))
        unknown = self.start("rnu", "-h")
        self.assertIn("'rnu' is not known", unknown.communicate(timeout=60)[1])
        self.assertEqual(unknown.returncode, 2)
        self.assertEqual(self.log(), [])
        # A built program prints its own help, even if a source is newer.
        self.call("list", "models")
        (self.root / "sim" / "new.cpp").touch()
        built = len(self.log())
        self.assertEqual(self.call("run", "--help"), "lockstep run --help\n")
        self.assertEqual(len(self.log()), built)

    def test_what_is_trained_needs_the_measuring_half(self):
        for convergence in (False, True):
            scenario = self.root / f"{convergence}.yaml"
            scenario.write_text("name: test\n" + "convergence: {}\n" * convergence)
            for verb in ("run", "report"):
                shutil.rmtree(self.root / "build", ignore_errors=True)
                self.assertEqual(self.call(verb, str(scenario)), f"lockstep {verb} {scenario}\n")
                self.assertEqual((self.root / "build/measuring").exists(), convergence, verb)
            for limit in ([], ["--min-accuracy", "85%"], ["--min-accuracy=85%"]):
                shutil.rmtree(self.root / "build", ignore_errors=True)
                self.call("recommend", str(scenario), *limit)
                self.assertEqual((self.root / "build/measuring").exists(), convergence and limit != [], limit)

    def test_help_of_test_builds_nothing(self):
        self.assertIn("--quick", self.call("test", "--help"))
        self.assertEqual(self.log(), [])

    # nproc answers OMP_NUM_THREADS if this variable is set, and ./lockstep sets it to 1 for the tests.
    def test_as_many_tests_at_a_time_as_cores(self):
        cores = len(os.sched_getaffinity(0))
        self.assertIn(f" -j {cores}\n", self.call("test"))
        self.assertIn(f" -j {cores}\n", self.call("test", OMP_NUM_THREADS="1"))

    def test_quick_leaves_slow_tests_out_and_the_rest_is_ctests(self):
        self.assertIn(" --label-exclude slow -R Units", self.call("test", "--quick", "-R", "Units"))
        self.assertNotIn("slow", self.call("test", "-R", "Units"))

    def test_one_folder_may_serve_all(self):
        folder = str(self.root / "one")
        one = {name: folder for name in
               ("LOCKSTEP_BUILD_DIR", "LOCKSTEP_TEST_BUILD_DIR", "LOCKSTEP_MEASURING_BUILD_DIR")}
        self.call("list", "models", **one)
        self.call("train", **one)
        self.call("test", **one)
        (self.root / "sim" / "new.cpp").touch()
        self.call("list", "models", **one)
        for options in ("-DLOCKSTEP_WERROR=ON", "-DLOCKSTEP_WERROR=ON", "-DLOCKSTEP_PYTORCH_PYTHON=/a/python",
                        "-DLOCKSTEP_PYTORCH_PYTHON=/a/python", "-DLOCKSTEP_PYTORCH_PYTHON=/other/python"):
            self.call("test", LOCKSTEP_CMAKE_OPTIONS=options, **one)
        configured = [line.split("Release ")[1] for line in self.log("cmake -S")]
        self.assertEqual(configured, ["-DLOCKSTEP_TESTS=OFF -DLOCKSTEP_UNITY=ON", "-DLOCKSTEP_TORCH=ON",
                                      "-DLOCKSTEP_TESTS=ON", "-DLOCKSTEP_TESTS=ON -DLOCKSTEP_WERROR=ON",
                                      "-DLOCKSTEP_TESTS=ON -DLOCKSTEP_PYTORCH_PYTHON=/a/python",
                                      "-DLOCKSTEP_TESTS=ON -DLOCKSTEP_PYTORCH_PYTHON=/other/python"])


if __name__ == "__main__":
    sys.exit(unittest.main())
