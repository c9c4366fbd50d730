"""Order of compute and collectives in a training step, per rank: ../gpu/stub.py PYTHON order.py '{"tp": 2, "sp": true}' ...

The first line is the configuration. Each further line is an event of the second step, in the order in which the host
issues it:
  pass     forward, recompute (a checkpointed module again), backward, or later work (clipping, optimizer)
  module   the operator's module; in backward the module whose forward made the running node
  do       matmul (m, k, n; `groups`: their number), attention (batch, heads, tokens, of, size), all-gather,
           reduce-scatter, all-reduce, all-to-all, broadcast, send, recv or wait
  group    tp, dp, cp, dp_cp or pp, with its `ranks`; `bytes`: the whole buffer (out of an all-gather, into a
           reduce-scatter); `type`
  stage, micro: of a pipeline's action F, I (input gradients), W (weight gradients), B (both), UNSHARD, RESHARD,
           REDUCE_GRAD
  unit     the FSDP unit of an all-gather or reduce-scatter; `unit ready` (the compute stream waits and copies out),
           `unit freed`
Shapes are this rank's. `wait` names its event (`of`, the event's number): the compute stream goes on after that event.
"""
import bisect
import sys
import threading

import torch
import torch.distributed as dist
import world
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

KINDS = {"all_gather_into_tensor": "all-gather", "reduce_scatter_tensor": "reduce-scatter", "all_reduce": "all-reduce", "all_to_all_single": "all-to-all",
         "_allgather_base_": "all-gather", "_reduce_scatter_base_": "reduce-scatter", "allreduce_": "all-reduce", "alltoall_base_": "all-to-all", "alltoall_": "all-to-all",
         "broadcast_": "broadcast", "broadcast": "broadcast", "all_gather_into_tensor_coalesced": "all-gather",
         "reduce_scatter_tensor_coalesced": "reduce-scatter", "reduce_scatter_tensor_coalesced_": "reduce-scatter", "all_reduce_": "all-reduce", "allgather_into_tensor_coalesced_": "all-gather", "allgather_": "all-gather",
         "all_gather_into_tensor_out": "all-gather"}
PRODUCTS = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2), "_grouped_mm": (0, 1)}


def size(x):
    if isinstance(x, torch.Tensor):
        return x.numel() * x.element_size()
    return sum(size(item) for item in x) if isinstance(x, (list, tuple)) else 0


def kind_of(x):
    if isinstance(x, torch.Tensor):
        return str(x.dtype).removeprefix("torch.")
    return next((kind_of(item) for item in x if kind_of(item)), None) if isinstance(x, (list, tuple)) else None


class Modules:
    """Finds the running module; in backward by autograd's sequence numbers, which forward has noted."""

    def __init__(self, models):
        self.local, self.edges, self.names = threading.local(), [], []
        for model in models:
            for name, module in model.named_modules():
                name = name.replace("_checkpoint_wrapped_module.", "").replace("_checkpoint_wrapped_module", "").rstrip(".") or "root"
                module.register_forward_pre_hook(lambda m, a, name=name: self.enter(name), prepend=True)
                module.register_forward_hook(lambda m, a, out: self.leave(), always_call=True)

    def stack(self):
        if not hasattr(self.local, "stack"):
            self.local.stack = []
        return self.local.stack

    def note(self):
        if threading.current_thread() is threading.main_thread() and torch._C._current_autograd_node() is None:
            self.edges.append(torch.autograd._get_sequence_nr())
            self.names.append(self.stack()[-1] if self.stack() else "")

    def enter(self, name):
        self.stack().append(name)
        self.note()

    def leave(self):
        if self.stack():
            self.stack().pop()
        self.note()

    def now(self):
        """Returns the pass and the module."""
        node = torch._C._current_autograd_node()
        if node is None:
            return None, self.stack()[-1] if self.stack() else ""
        if self.stack():
            return "recompute", self.stack()[-1]
        at = bisect.bisect_right(self.edges, node._sequence_nr()) - 1
        return "backward", self.names[at] if at >= 0 else ""


class Recorder(TorchDispatchMode):
    def __init__(self, groups, modules):
        """`groups`: the name of each process group, by its ranks."""
        super().__init__()
        self.events, self.modules, self.on, self.stage, self.unit, self.phase, self.launched = [], modules, False, {}, {}, "", {}
        self.groups = groups

    def say(self, **event):
        if self.on:
            where, module = self.modules.now()
            self.events.append({"at": len(self.events), "pass": where or ("forward" if module and self.phase == "schedule" else self.phase), **({"module": module} if module else {}), **event, **self.unit, **self.stage})

    def group(self, arguments):
        for x in arguments:
            real = None
            with world.contextlib.suppress(Exception):
                if isinstance(x, str):
                    real = dist.distributed_c10d._resolve_process_group(x)
                elif isinstance(x, torch.ScriptObject) and "ProcessGroup" in str(x._type()):
                    real = dist.ProcessGroup.unbox(x)
                elif isinstance(x, dist.ProcessGroup):
                    real = x
            if real is not None:
                ranks = tuple(dist.get_process_group_ranks(real))
                return dict(group=self.groups.get(ranks, str(list(ranks))), ranks=len(ranks))
        return {}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if any(issubclass(item, (DTensor, AsyncCollectiveTensor)) for item in types):
            return NotImplemented  # DTensor and AsyncCollectiveTensor first turn the call into local operators, collectives and waits
        result = function(*arguments, **(options or {}))
        name = function._schema.name.split("::")[1]
        if function.namespace in ("c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd"):
            if name == "wait_tensor":
                of = self.launched.pop(arguments[0].untyped_storage()._cdata, None)
                self.say(do="wait", **({} if of is None else dict(of=of)))
            elif name in KINDS:
                whole = max(size(result), *(size(x) for x in arguments))
                self.say(do=KINDS[name], **self.group([*arguments, *(options or {}).values()]), bytes=whole, type=kind_of(arguments))
                for item in result if isinstance(result, (list, tuple)) else [result]:
                    if isinstance(item, torch.Tensor):
                        self.launched[item.untyped_storage()._cdata] = len(self.events) - 1
            elif self.on and name not in ("_wrap_tensor_autograd", "send", "recv_"):
                self.say(do=name)
        elif name in PRODUCTS:
            a, b = (arguments[i] for i in PRODUCTS[name])
            several = next((x.shape[0] for x in (b, a) if x.dim() == 3), None)
            if name == "_grouped_mm" and several is None:
                several = result.shape[0]
            self.say(do="grouped matmul" if name == "_grouped_mm" else "matmul", **({} if several is None else dict(groups=several)),
                     shape=[a.shape[-2], a.shape[-1], b.shape[-1]], type=kind_of(a))
        elif "scaled_dot_product" in name or name in ("_flash_attention_forward", "_efficient_attention_forward"):
            back = "backward" in name
            q, k = arguments[back], arguments[1 + back]
            self.say(do="attention" + (" backward" if back else ""), shape=[q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.shape[3]], kv_heads=k.shape[1], type=kind_of(q))
        return result


def record(job):
    mesh = world.start(job)
    run = world.program(job, mesh)
    optimizer = world.optimizer_of(job, run.models)
    modules = Modules(run.models)
    groups = {tuple(dist.get_process_group_ranks(mesh.get_group(name))): name for name in mesh.mesh_dim_names}
    if job.fsdp and {"dp", "cp"} <= set(mesh.mesh_dim_names):
        groups.setdefault(tuple(dist.get_process_group_ranks(mesh[("dp", "cp")]._flatten("dp_cp").get_group())), "dp_cp")
    log = Recorder(groups, modules)
    p2p(log)
    if job.fsdp:
        units(log)
    if job.pp > 1:
        actions(log)
    for step in range(2):
        log.on = step == 1
        modules.edges.clear()
        modules.names.clear()
        optimizer.zero_grad(set_to_none=True)
        log.phase = "schedule" if job.pp > 1 else "forward"
        with log:
            run.step() if job.pp > 1 else run.step(lambda done: setattr(log, "phase", "end of backward" if done == "forward" else "forward"))
            log.phase = "clipping"
            if job.clip:
                for model in run.models:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), job.clip)
            log.phase = "optimizer"
            optimizer.step()
    case = {key: value for key, value in job.__dict__.items() if key in world.DEFAULTS and value != world.DEFAULTS[key] and key != "rank"}
    return [dict(case=case, rank=job.rank, torch=torch.__version__, events=len(log.events)), *log.events]


def p2p(log):
    """Records the pipeline's sends and receives: which are launched together, and when the compute stream waits for each."""
    from torch.distributed.pipelining import schedules
    launch, wait = schedules._batch_p2p, schedules._wait_batch_p2p
    works = {}

    def launched(ops, desc=None):
        first = len(log.events)
        for op in ops:
            log.say(do="send" if op.op is dist.isend else "recv", group="pp", peer=op.peer, bytes=size(op.tensor), type=kind_of(op.tensor), together=len(ops))
        done = launch(ops, desc=desc)
        works.update((id(work), (work, list(range(first, len(log.events))))) for work in done)
        return done

    def waited(done):
        of = sorted({number for work in done for number in works.pop(id(work), (None, []))[1]})
        if of:
            log.say(do="wait", of=of)
        return wait(done)
    schedules._batch_p2p, schedules._wait_batch_p2p = launched, waited


def units(log):
    """Names FSDP2's units in their collectives, and records when each unit is ready and when it is freed."""
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup as Unit

    def around(name, event=None, when=lambda unit: True):
        real = getattr(Unit, name)

        def inner(unit, *a, **k):
            fqn = (unit._module_fqn or "root").replace("._checkpoint_wrapped_module", "")
            before, log.unit = log.unit, dict(unit=fqn)
            try:
                if event and when(unit):
                    log.say(do=event)
                return real(unit, *a, **k)
            finally:
                log.unit = before
        setattr(Unit, name, inner)

    around("unshard")
    around("post_backward")
    around("wait_for_unshard", "unit ready", lambda unit: unit._all_gather_result is not None)
    around("_to_sharded", "unit freed", lambda unit: "UNSHARDED" in str(unit._sharded_state))


def actions(log):
    """Names the pipeline's actions around their work."""
    from torch.distributed.pipelining.stage import _PipelineStageBase as Stage

    def around(name, letter, chunk):
        real = getattr(Stage, name)

        def inner(stage, *a, **k):
            event = letter if isinstance(letter, str) else letter(k)
            before, log.stage = log.stage, dict(stage=stage.stage_index, micro=a[0] if chunk else None, action=event)
            log.say(do="begin")
            try:
                return real(stage, *a, **k)
            finally:
                log.say(do="end")
                log.stage = before
        setattr(Stage, name, inner)

    around("forward_one_chunk", "F", True)
    around("backward_one_chunk", lambda k: "B" if k.get("full_backward", True) else "I", True)
    around("backward_weight_one_chunk", "W", True)
    around("perform_reduce_grad", "REDUCE_GRAD", False)


if __name__ == "__main__":
    sys.exit(world.answers(record))
