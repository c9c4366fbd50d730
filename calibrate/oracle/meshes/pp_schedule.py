"""PyTorch's pipeline schedules, per rank, without CUDA and without the stub.

    PYTHON pp_schedule.py '{"schedule": "1F1B", "pp": 4, "micro_batches": 8}' ...

Prints a line per configuration and rank:
  compute  the computations in order; null: the rank is idle for one unit of time. 2F3: forward of micro-batch 3 on
           stage 2; B: whole backward, I: gradients of inputs only, W: of weights; (..,..)OVERLAP_F_B: a forward and a
           backward side by side
  actions  the runtime's actions: SEND_F, RECV_F, SEND_B, RECV_B and waits between, UNSHARD, RESHARD, REDUCE_GRAD for
           FSDP. GPipe and 1F1B are loops without such a list: a run yields it (a+b: launched as one batch), and
           the list yields `compute`
  slots    the largest number of (stage, micro-batch) activations alive on this rank, by PyTorch's own analysis (from
           F to B or W)
"""
import sys

import torch
import torch.distributed as dist
import world


def orders(job):
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class
    dist.init_process_group("fake", rank=job.rank, world_size=job.pp, store=world.FakeStore())
    kind, count = get_schedule_class(job.schedule), job.pp * job.chunks
    sample = torch.empty(1, 1, device="meta", requires_grad=True)
    stages = [PipelineStage(torch.nn.Linear(1, 1), index, count, torch.device("cpu"), input_args=(sample,), output_args=(sample,)) for index in world.placed(job, job.rank)]
    multi = issubclass(kind, PipelineScheduleMulti)
    options = {} if job.active_stages is None else dict(max_active_stages=job.active_stages)
    schedule = kind(stages if multi else stages[0], n_microbatches=job.micro_batches, loss_fn=lambda a, b: (a - b).sum(), **options)
    if multi:
        from torch.distributed.pipelining.schedules import analyze_pipeline_activation_liveness
        compute, actions = schedule.pipeline_order[job.rank], schedule.pipeline_order_with_comms[job.rank]
        slots = analyze_pipeline_activation_liveness(schedule, pp_rank=job.rank, stage_indices=world.placed(job, job.rank), granularity="stage_microbatch").num_slots
    else:
        actions, slots = run(job, schedule, stages[0]), None
        compute = [action for action in actions if action[len(str(job.rank))] in "FB"]
    texts = lambda actions: [None if action is None else str(action) for action in actions]
    return [dict(case={name: getattr(job, name) for name in ("schedule", "pp", "micro_batches", "chunks")}, rank=job.rank, torch=torch.__version__,
                 stages=world.placed(job, job.rank), compute=texts(compute), actions=texts(actions), slots=slots)]


def run(job, schedule, stage):
    """The actions of one step of a schedule that is a loop.

    Its _get_pipeline_order is for drawings, and torch 2.15's names the last rank's micro-batches wrongly.
    """
    from torch.distributed.pipelining import schedules
    done, names, works = [], {}, {}
    for letter in ("fwd_recv", "fwd_send", "bwd_recv", "bwd_send"):
        def named(micro, letter=letter, real=getattr(stage, f"get_{letter}_ops")):
            ops = real(micro)
            way, labels = letter.split("_")
            names.update((id(op), f"{stage.stage_index}{labels.upper()}_{way[0].upper()}{micro}") for op in ops)
            return ops
        setattr(stage, f"get_{letter}_ops", named)
    for name, letter in (("forward_one_chunk", "F"), ("backward_one_chunk", "B"), ("perform_reduce_grad", "REDUCE_GRAD")):
        def computed(*a, letter=letter, real=getattr(stage, name), **k):
            done.append(f"{stage.stage_index}{letter}{a[0] if letter in 'FB' else ''}")
            return real(*a, **k)
        setattr(stage, name, computed)
    launch, wait = schedules._batch_p2p, schedules._wait_batch_p2p

    def launched(ops, desc=None):
        labels = [names[id(op)] for op in ops]
        if labels:
            done.append("+".join(labels))
        out = launch(ops, desc=desc)
        works.update((id(work), (work, labels)) for work in out)
        return out

    def waited(some):
        of = [name for work in some for name in works.pop(id(work), (None, []))[1]]
        if of:
            done.append("WAIT " + "+".join(dict.fromkeys(of)))
        return wait(some)
    schedules._batch_p2p, schedules._wait_batch_p2p = launched, waited
    x = torch.ones(job.micro_batches, 1)
    schedule.step(*((x,) if stage.is_first else ()), target=x if stage.is_last else None, losses=[] if stage.is_last else None)
    return done


if __name__ == "__main__":
    sys.exit(world.answers(orders))
