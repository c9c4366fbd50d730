"""Our scenarios of the oracle's jobs in memory.py, titan.py, mcore.py and nano.py.

The DEFAULTS of each script hold for fields that a job leaves out.
"""

SCHEDULES = {"GPipe": "gpipe", "1F1B": "1f1b", "Interleaved1F1B": "interleaved", "LoopedBFS": "looped-bfs", "InterleavedZeroBubble": "zb1p",
             "ZBVZeroBubble": "zbv", "DualPipeV": "dualpipe-v"}


def pipeline(stages, schedule, chunks, layers=None, **options):
    """The `pipeline` of a mesh; without `layers`, blocks are spread as evenly as possible."""
    return {"stages": stages, "schedule": schedule, "chunks": chunks, **({"layers": layers} if layers else {}), **options}


def recomputation(kind):
    """Fields of a scenario: none, full (blocks), or an operator-wise policy."""
    if kind in (None, "none"):
        return {"activation_checkpointing": False}
    names = {"full": "blocks", "operators": "operators", "selective": "operators"}
    return {"activation_checkpointing": True, "recompute": names[kind]}


def of_memory(job):
    """memory.py: a Llama by PyTorch's own tensor, context and pipeline parallelism and fully_shard."""
    get = {"layers": 4, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 2816, "vocabulary": 32000, "sequence": 1024, "batch": 1, "micro_batches": 1, "tp": 1, "dp": 1,
           "cp": 1, "pp": 1, "chunks": 1, "schedule": "1F1B", "precision": "fp32", **job}
    parallel = {"tensor": {"size": get["tp"], "sequence": get.get("sp", False), "split_loss": get.get("loss_parallel", False)},
                "context": {"size": get["cp"], "exchange": "ring" if get.get("rotate") == "alltoall" else "gather"},
                "pipeline": pipeline(get["pp"], SCHEDULES[get["schedule"]], get["chunks"], get.get("per_stage"))}
    if get.get("return_outputs"):
        parallel["pipeline"]["return_outputs"] = True
    fsdp = {"version": 2, "wrap": {"policy": "block"}, "sync_every_micro_batch": False}
    if get.get("reshard") and get["pp"] > 1:
        fsdp["reshard_in_pipeline"] = True
    if get["precision"] == "mixed":
        fsdp["reduce_element_size"] = "4 B"
    return {"model": "llama", "platform": "dgx-a100-80gb", "gpus": get["tp"] * get["cp"] * get["pp"] * get["dp"],
            "model_parameters": {"layers": get["layers"], "hidden": get["hidden"], "heads": get["heads"], "kv_heads": get["kv_heads"], "mlp": get["ffn"],
                                 "vocabulary": get["vocabulary"], "fused_norm": 1, "upcast_loss": 1},
            "input": {"sequence": get["sequence"]}, "batch": {"micro": get["batch"], "accumulation": get["micro_batches"]},
            "precision": {"mixed": "amp-bf16"}.get(get["precision"], get["precision"]),
            "optimizer": {"name": "adamw", "implementation": "fused" if get.get("fused") else "foreach"}, "gradient_clipping": get.get("clip", 0),
            **recomputation(get.get("checkpoint")), "parallel": parallel, "strategies": [{"fsdp": fsdp} if get.get("fsdp") else "ddp"]}


# torchtitan counts the embedding and the head as a layer each, and gives the remainder of the
# division to the first stages (distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part).
def titan_layers(layers, parts):
    each, more = divmod(layers + 2, parts)
    slots = [each + (part < more) for part in range(parts)]
    slots[0] -= 1
    slots[-1] -= 1
    return slots


def of_titan(job):
    """titan.py: torchtitan's trainer with its Llama 3 8B or its Qwen3 30B-A3B, cut to a few layers."""
    get = {"model": "llama3", "layers": 4, "sequence": 4096, "batch": 1, "micro_batches": 1, "tp": 1, "cp": 1, "pp": 1, "dp": 1, "ep": 1, "schedule": "1F1B",
           "checkpoint": "none", "loss": "chunked", **job}
    schedule = SCHEDULES[get["schedule"]]
    chunks = 1 if schedule == "1f1b" else 2
    parallel = {"tensor": get["tp"], "context": get["cp"],
                "pipeline": pipeline(get["pp"], schedule, chunks, titan_layers(get["layers"], get["pp"] * chunks) if get["pp"] > 1 else None)}
    if get["ep"] > 1:
        parallel["expert"] = get["ep"]
    llama = {"hidden": 4096, "heads": 32, "kv_heads": 8, "mlp": 14336, "vocabulary": 128256}
    return {"recipe": "torchtitan", "model": "llama" if get["model"] == "llama3" else "qwen3-30b-a3b", "platform": "dgx-h100",
            "gpus": get["tp"] * get["cp"] * get["pp"] * get["dp"],
            "model_parameters": {**(llama if get["model"] == "llama3" else {}), "layers": get["layers"], "fused_norm": 1, "upcast_loss": 1,
                                 "loss_pieces": 1 if get["loss"] == "plain" else 8},
            "input": {"sequence": get["sequence"]}, "batch": {"micro": get["batch"], "accumulation": get["micro_batches"]},
            **recomputation(get["checkpoint"]), "parallel": parallel,
            "strategies": [{"fsdp": {"version": 2, "wrap": {"policy": "block_and_ends"}}}]}


def of_mcore(job):
    """mcore.py: Megatron-core's GPT with rotary positions, an untied head, no biases and materialised scores."""
    get = {"layers": 4, "micro_batches": 4, "tp": 1, "pp": 1, "dp": 1, "chunks": 1, **job}
    master = get["dp"] > 1 or get.get("distributed") or get.get("zero")
    parallel = {"tensor": {"size": get["tp"], "sequence": get.get("sp", False)},
                "pipeline": pipeline(get["pp"], "interleaved" if get["chunks"] > 1 else "1f1b", get["chunks"])}
    overlap = get.get("overlap", False)
    strategy = {"zero": {"stage": 1, "overlap": overlap, "bucket_size": "160 MB" if overlap else "1 TB"}} if get.get("zero") else \
        {"ddp": {"overlap": overlap, "gradient_as_bucket_view": True, "bucket_size": "1 TB"}}
    recompute = get.get("recompute")
    return {"recipe": "megatron", "model": "MEGATRON", "platform": "dgx-a100-80gb", "gpus": get["tp"] * get["pp"] * get["dp"],
            "model_parameters": {"layers": get["layers"]}, "input": {"sequence": 1024}, "batch": {"micro": 1, "accumulation": get["micro_batches"]},
            "precision": "master-bf16-fp32-gradients" if master else "pure-bf16", "attention": "plain",
            "optimizer": {"name": "adamw", "implementation": "foreach"}, "gradient_clipping": 1 if master else 0,
            **(recomputation(recompute) if recompute != "selective" else {"activation_checkpointing": True, "recompute": "attention"}),
            "parallel": parallel, "strategies": [strategy]}


def of_nano(job):
    """nano.py: nanotron's Llama."""
    get = {"layers": 4, "hidden": 2048, "heads": 16, "ffn": 5632, "vocabulary": 32000, "sequence": 1024, "batch": 1, "micro_batches": 1, "tp": 1, "dp": 1, **job}
    return {"recipe": "nanotron", "model": "llama", "platform": "dgx-a100-80gb", "gpus": get["tp"] * get["dp"],
            "model_parameters": {"layers": get["layers"], "hidden": get["hidden"], "heads": get["heads"], "kv_heads": get.get("kv_heads", 16), "mlp": get["ffn"],
                                 "vocabulary": get["vocabulary"], "fused_norm": 1, "upcast_loss": 1, "tied": int(get.get("tied", False))},
            "input": {"sequence": get["sequence"]}, "batch": {"micro": get["batch"], "accumulation": get["micro_batches"]},
            "parallel": {"tensor": get["tp"]},
            "strategies": [{"zero": {"stage": 1, "bucket_size": "25 MiB"}} if get.get("zero") else {"ddp": {"bucket_size": "25 MiB"}}]}


OF = {"memory": of_memory, "titan": of_titan, "mcore": of_mcore, "nano": of_nano}


def scenario_of(script, job, megatron):
    """Our scenario of the same job. megatron: the path of the model file of Megatron-core's GPT."""
    scenario = {"name": "case", **OF[script](job)}
    if scenario["model"] == "MEGATRON":
        scenario["model"] = megatron
    return scenario
