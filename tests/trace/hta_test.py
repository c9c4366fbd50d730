#!/usr/bin/env python3
"""Does HolisticTraceAnalysis find the breakdown that the program prints in the program's trace?

    hta_test.py PROGRAM     needs the Python package HolisticTraceAnalysis; run from the repository's root
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

PROGRAM = ""
SCENARIO = """name: Traced
model: resnet50
batch: {per_gpu: 64}
platform: p4d.24xlarge
gpus: 8
strategies: [ddp, fsdp]
"""


class Breakdown(unittest.TestCase):
    def test_of_every_strategy(self):
        warnings.filterwarnings("ignore")
        from hta.trace_analysis import TraceAnalysis
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "scenario.yaml").write_text(SCENARIO)
            answer = subprocess.run([PROGRAM, "run", str(folder / "scenario.yaml"), "--json", "--trace", f"{folder}/traces/",
                                     "--trace-ranks", "0,1,2,3,4,5,6,7"], check=True, capture_output=True, text=True)
            predictions = json.loads(answer.stdout)["predictions"]
            self.assertEqual(len(predictions), 2)
            for ours in predictions:
                table = TraceAnalysis(trace_dir=f"{folder}/traces/{ours['strategy']}-8").get_temporal_breakdown(visualize=False)
                self.assertEqual(len(table), 8)
                # HTA's percentages are means of eight ranks over other steps than the predicted mean's.
                step, split = ours["step_seconds"], ours["split_seconds"]
                self.assertAlmostEqual(table["compute_time_pctg"].mean(), 100 * ours["gpu_utilisation"], delta=2)
                # HTA counts an NCCL kernel that waits for a late rank as communication.
                exposed, waiting = (100 * split[part] / step for part in ("exposed_communication", "waiting"))
                found = table["non_compute_time_pctg"].mean()
                self.assertGreater(found, exposed - 0.5)
                self.assertLess(found, exposed + waiting + 0.5)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
