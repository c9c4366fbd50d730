"""Scenarios of measured steps of nanotron and torchtitan."""

from mesh_scenarios import GIB, Row, axes, base_scenario, megatron_tensor, pipeline, read_table

# Shapes of nanotron_h100.csv: layers, hidden, mlp, heads, tied.
NANOTRON_SHAPES = {"1B": (16, 2048, 8192, 32, 1), "3B": (28, 3072, 8192, 32, 1),
                   "8B": (32, 4096, 14336, 32, 0), "80B": (80, 8192, 28672, 64, 0)}


def nanotron_layers(layers, hidden, mlp, vocabulary, stages):
    """Layers of each stage as nanotron divides them: a stage takes blocks until the cost of all
    blocks so far reaches its share (huggingface/nanotron, models/base.py, build_model; costs of
    models/llama.py, get_block_compute_costs). The code says "exceeds"; the 1B model meets its shares
    exactly on 4 stages, and its first stage has the memory of 5 layers, not of 6."""
    block = 4 * hidden * hidden + 3 * mlp * hidden
    costs = [0] + [block] * layers + [0, vocabulary * hidden, 0, 0]
    total = sum(costs)
    counts, stage, cumulative = [0] * stages, 0, 0
    for index, cost in enumerate(costs):
        if 1 <= index <= layers:
            counts[stage] += 1
        cumulative += cost
        if stage + 1 < stages and cumulative >= total * ((stage + 1) / stages):
            stage += 1
    return counts


def mesh_word(tp, pp, gpus):
    """The axes of a row in words: pipelines with tensor parallelism over nodes have a floor of
    their own, docs/mesh-validation.md."""
    if pp == 1:
        return "tensor in a node" if tp <= 8 else "tensor over nodes"
    if tp == 1:
        return "pipeline"
    return "both, one node" if gpus <= 8 else "both, several nodes"


def nanotron_row(source, number, row):
    """A row of nanotron's figure."""
    layers, hidden, mlp, heads, tied = NANOTRON_SHAPES[row["model"]]
    tp, pp, dp, micro = (int(row[key]) for key in ("tp", "pp", "dp", "micro"))
    parameters = {"layers": layers, "hidden": hidden, "heads": heads, "mlp": mlp, "tied": tied,
                  "kv_heads": int(row.get("kv_heads") or heads), "vocabulary": 131072,
                  "sequence": 4096, "fused_norm": 1, "upcast_loss": 1}
    tensor = megatron_tensor(tp, True)
    if tp > 1:
        # The memory shows that pipelines over nodes ran a later version, with
        # tp_recompute_allgather.
        tensor["keep_gathered"] = pp == 1 or int(row["gpus"]) <= 8
        tensor.pop("repeat_last_exchange")
    split = nanotron_layers(layers, hidden, mlp, 131072, pp)
    parallel = {"tensor": tensor, "pipeline": pipeline(pp, "host", layers=split)}
    strategy = {"zero": {"stage": 1, "bucket_size": "25 MiB"}}
    if row["zero"] == "0":
        strategy = {"ddp": {"bucket_size": "25 MiB"}}
    batch = {"global": int(row["global"]), "micro": micro}
    gpus = int(row["gpus"])
    scenario = base_scenario((source, number), "llama", parameters, batch, "p5.48xlarge", parallel,
                             strategy, recipe="nanotron", framework={"name": "nanotron"},
                             gpus=gpus)
    fields = axes(tp=tp, pp=pp, dp=dp, micro=micro, model=row["model"], nodes=gpus // 8,
                  zero=row["zero"], micro_batches=int(row["global"]) // (dp * micro),
                  mesh=mesh_word(tp, pp, gpus))
    return scenario, fields


def nanotron():
    """Steps of nanotron; rank 0 is on the first stage. Seven rows are left out: they ran a smaller
    batch, up to 40 times slower than their neighbors, for reasons that the source does not give."""
    for number, row in enumerate(read_table("nanotron_h100.csv")):
        if row["flag"]:
            continue
        scenario, fields = nanotron_row("nanotron", number, row)
        yield Row("nanotron", number, scenario, fields, float(row["step_s"]),
                  float(row["memory_gib"]) * GIB, stage=0, memory_kind="reserved_bytes")


def nanotron_failed():
    """Configurations of nanotron without a result."""
    for number, row in enumerate(read_table("nanotron_h100_failed.csv")):
        scenario, fields = nanotron_row("nanotron_failed", number, row)
        yield Row("nanotron_failed", number, scenario, fields, fits=False)


# Shapes of torchtitan_eager.csv.
TORCHTITAN_SHAPES = {
    "llama3-8b": {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "mlp": 14336,
                  "vocabulary": 128256},
    "qwen3-32b": {"layers": 64, "hidden": 5120, "heads": 64, "kv_heads": 8, "head_size": 128,
                  "mlp": 25600, "vocabulary": 151936, "head_norm": 1}}


def torchtitan():
    """FSDP with tensor parallelism in torchtitan, without a compiler."""
    for number, row in enumerate(read_table("torchtitan_eager.csv")):
        tp, dp, micro, sequence = (int(row[key]) for key in ("tp", "dp", "micro", "sequence"))
        tensor = 1
        if tp > 1:
            tensor = {"size": tp, "sequence": True, "split_loss": True}
        parameters = {**TORCHTITAN_SHAPES[row["model"]], "sequence": sequence, "upcast_loss": 1,
                      "fused_norm": 1}
        scenario = base_scenario(("torchtitan", number), "llama", parameters,
                                 {"per_gpu": micro, "micro": micro}, "dgx-h100",
                                 {"tensor": tensor}, {"fsdp": {"version": 2}}, gpus=tp * dp,
                                 recipe="torchtitan", activation_checkpointing=True,
                                 recompute="blocks")
        fields = axes(tp=tp, dp=dp, micro=micro, model=row["model"], nodes=tp * dp // 8,
                      micro_batches=1)
        step = micro * sequence / (float(row["tokens_per_s_per_gpu"]) * tp)
        yield Row("torchtitan", number, scenario, fields, step,
                  float(row["memory_gib"] or 0) * GIB, memory_kind="reserved_bytes")


SOURCES = {"nanotron": nanotron, "nanotron_failed": nanotron_failed, "torchtitan": torchtitan}
