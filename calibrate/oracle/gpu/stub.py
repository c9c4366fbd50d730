#!/usr/bin/env python3
"""Makes the environment in which PyTorch's CUDA half runs on a runtime that computes nothing (cuda_stub.c).

    stub.py PYTHON SCRIPT [ARGUMENT...]     runs a script in it
"""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def stub_environment(python, events, **more):
    """Builds the stub with gcc; returns environment variables for `python`, which has PyTorch's CUDA wheel.

    events: done (every event is complete at once, the fastest GPU) or late (when the host waits for it, the slowest).
    """
    folder = pathlib.Path(tempfile.mkdtemp())
    site = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"], check=True,
                          capture_output=True, text=True).stdout.strip()
    include = next(pathlib.Path(site, "nvidia").rglob("cuda_runtime_api.h")).parent
    library = folder / "libcuda_stub.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-w", f"-I{include}", str(HERE / "cuda_stub.c"), "-o", str(library)],
                   check=True)
    (folder / "libcuda.so.1").symlink_to(library)
    return dict(os.environ, LD_PRELOAD=str(library), LD_LIBRARY_PATH=str(folder), STUB_EVENTS=events, STUB_MEMORY=str(10**12),
                OMP_NUM_THREADS="1", KINETO_LOG_LEVEL="99", **more)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    os.execvpe(sys.argv[1], sys.argv[1:], stub_environment(sys.argv[1], os.environ.get("STUB_EVENTS", "done")))
