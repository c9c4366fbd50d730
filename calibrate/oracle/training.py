"""One rank of genuine PyTorch training: DistributedDataParallel, FullyShardedDataParallel (fsdp1)
or fully_shard (fsdp2) on CPU through Gloo, with its measured times, calls and memory."""

import datetime
import gc
import os
import time

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

import network

MEASURED = "measured step"

# Names of c10d's operators, and the names that the simulator and NCCL use.
COLLECTIVES = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce",
    "broadcast_": "broadcast",
    "_allgather_base_": "all_gather",
    "allgather_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter",
}


def tensor_bytes(value):
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(tensor_bytes(part) for part in value) if isinstance(value, (list, tuple)) else 0


class CollectiveLog(TorchDispatchMode):
    """Every collective in the order of launch; `bytes` is the size of the whole, unsharded buffer."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.phase = "forward"

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "c10d":
            operator = func._schema.name.split("::")[1]
            if operator != "barrier":
                kind = COLLECTIVES.get(operator, operator)
                # The first argument is the output, and the output of a reduce-scatter is only a shard.
                whole = tensor_bytes(args[1 if kind == "reduce_scatter" else 0])
                self.calls.append({"collective": kind, "bytes": whole, "phase": self.phase})
        return func(*args, **(kwargs or {}))


class LiveBytes:
    """Tensor memory as PyTorch's CPU allocator reports it to the profiler, from the first tensor on."""

    def __init__(self):
        self.profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
        )

    def __enter__(self):
        self.profile.__enter__()
        return self

    def __exit__(self, *error):
        self.profile.__exit__(*error)

    def inside(self, mark):
        """Bytes live at the beginning and end of the region `mark`, and their peak inside it."""
        events = sorted(self.profile.profiler.kineto_results.events(), key=lambda e: e.start_ns())
        region = next(e for e in events if e.name() == mark)
        begin, end = region.start_ns(), region.start_ns() + region.duration_ns()
        live, first, peak = 0, None, 0
        for event in events:
            if event.name() != "[memory]" or event.start_ns() > end:
                continue
            if event.start_ns() >= begin:
                first = live if first is None else first
                peak = max(peak, live + event.nbytes())
            live += event.nbytes()
        return {"begin": first or live, "peak": max(peak, first or live), "end": live}


def wrap(root, mode, units, bucket_cap_mb):
    """Wraps `root` in the given mode; `units` are the paths of FSDP units, innermost first, without the root."""
    if mode == "ddp":
        # The default cap is not passed: with a passed cap the first bucket would not be the small one.
        cap = {} if bucket_cap_mb is None else {"bucket_cap_mb": bucket_cap_mb}
        return torch.nn.parallel.DistributedDataParallel(root, **cap)
    if mode == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
        for path in units:
            fully_shard(network.find(root, path), mesh=mesh)
        return fully_shard(root, mesh=mesh)
    from torch.distributed.fsdp import FullyShardedDataParallel

    def shard(module):
        return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True)

    for path in units:
        above, _, name = path.rpartition(".")
        parent = network.find(root, above)
        setattr(parent, name, shard(getattr(parent, name)))
    return shard(root)


def setup(job, rank, world_size):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(job["store"], world_size),
        rank=rank,
        world_size=world_size,
        timeout=datetime.timedelta(seconds=300),
    )


def run_rank(rank, jobs, results):
    """Trains one job after the other and puts (rank, observations by job) into `results`."""
    setup(jobs[0], rank, jobs[0]["ranks"])
    seen = []
    for job in jobs:
        seen.append(run_job(rank, job))
        gc.collect()  # no tensor of this job may be freed while the next job is counted
        dist.barrier()
    results.put((rank, seen))
    dist.destroy_process_group()


def run_job(rank, job):
    seen = {"losses": []}
    with LiveBytes() as memory:
        torch.manual_seed(job["seed"])
        root = network.build(job["step"], job["units"])
        seen["parameters"] = sum(p.numel() for p in root.parameters())
        seen["buffer_types"] = len({b.dtype for b in root.buffers()})
        model = wrap(root, job["mode"], job["units"], job["bucket_cap_mb"])
        optimizer = torch.optim.SGD(model.parameters(), lr=job["lr"], momentum=job["momentum"])
        batch = network.random_batch(job["step"], job["seed"] + rank)

        def train(log=None):
            times = [time.perf_counter()]
            optimizer.zero_grad(set_to_none=True)
            loss = model(batch[0], target=batch[1])
            times.append(time.perf_counter())
            if log:
                log.phase = "backward"
            loss.backward()
            times.append(time.perf_counter())
            optimizer.step()
            times.append(time.perf_counter())
            seen["losses"].append(loss.item())
            return times

        train()  # DDP rebuilds its buckets after the first step, and momentum exists after it
        train()
        with torch.profiler.record_function(MEASURED):
            train()
    seen["memory_bytes"] = memory.inside(MEASURED)
    with CollectiveLog() as log:
        train(log)
    seen["collectives"] = log.calls
    times = []
    for _ in range(job["steps"]):
        dist.barrier()
        times.append(train())
    seen["step_seconds"] = [t[3] - t[0] for t in times]
    phases = ("forward", "backward", "optimizer")
    seen["phase_seconds"] = {
        name: [t[i + 1] - t[i] for t in times] for i, name in enumerate(phases)
    }
    return seen
