"""Peak of CUDA memory of one training step, per rank: ../gpu/stub.py PYTHON memory.py '{"tp": 2, "sp": true, "ranks": [0]}' ...

Prints a line per configuration and rank: allocated and reserved (bytes, peak over the steps), permanent (before the
first step), live (after the last step), phases of the last step where there is no pipeline (phase, peak allocated
within it).
"""
import gc
import sys

import torch
import world


def measure(job):
    mesh = world.start(job)
    run = world.program(job, mesh)
    optimizer = world.optimizer_of(job, run.models)
    gc.collect()
    torch.cuda.empty_cache()
    permanent = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    top, phases = [0, 0], []

    def mark(phase):
        now = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        top[:] = max(top[0], now[0]), max(top[1], now[1])
        phases.append((phase, now[0]))
        torch.cuda.reset_peak_memory_stats()

    for step in range(job.steps):
        phases.clear()
        optimizer.zero_grad(set_to_none=True)
        if job.pp > 1:
            run.step()
            mark("schedule")
        else:
            run.step(mark)
        if job.clip:
            for model in run.models:
                torch.nn.utils.clip_grad_norm_(model.parameters(), job.clip)
            mark("clipping")
        optimizer.step()
        mark("optimizer")
        torch.cuda.synchronize()
    gc.collect()
    case = {key: value for key, value in job.__dict__.items() if key in world.DEFAULTS and value != world.DEFAULTS[key] and key != "rank"}
    return [dict(case=case, rank=job.rank, torch=torch.__version__, allocated=top[0], reserved=top[1], permanent=permanent,
                 live=torch.cuda.memory_allocated(), parameters=sum(p.numel() for model in run.models for p in model.parameters()),
                 phases=phases)]


if __name__ == "__main__":
    sys.exit(world.answers(measure))
