"""Scenarios of measured steps on today's fast path: compiled, in fp8 and in fp4."""

from mesh_megatron import LLAMA3_70B
from mesh_nanotron import TORCHTITAN_SHAPES
from mesh_scenarios import (GIB, MEASUREMENTS, Row, axes, base_scenario, pipeline, read_table,
                            user_buffers)

SHAPES = {**TORCHTITAN_SHAPES, "llama3-70b": {**LLAMA3_70B, "layers": 80},
          "LLAMA2-7B": {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 32, "mlp": 11008,
                        "vocabulary": 32000},
          "LLAMA2-70B": {**LLAMA3_70B, "layers": 80, "vocabulary": 32000},
          "LLAMA3-70B": {**LLAMA3_70B, "layers": 80}}
LLAMA = {"fused_norm": 1, "upcast_loss": 1}


def compiled_titan():
    """torchtitan and torchao: FSDP2, tensor parallelism, blocks compiled."""
    platforms = {"h100": "dgx-h100", "h100-torchtitan": "dgx-h100-500w", "b200": "dgx-b200"}
    for number, row in enumerate(read_table("torchtitan_compiled.csv")):
        gpus, tp, micro, sequence = (int(row[key]) for key in ("gpus", "tp", "micro", "sequence"))
        tensor = 1
        if tp > 1:
            tensor = {"size": tp, "sequence": True, "split_loss": True}
            if row["async_tp"] == "1":
                tensor["overlap"] = "pieces"
        more = {"compile": "blocks", "recompute": row["recompute"],
                "framework": {"expandable_segments": True}}  # run_train.sh
        if row["precision"] != "bf16":
            more["low_precision"] = {"recipe": row["precision"],
                                     "gather": row["precision"] == "fp8-tensorwise"}
        scenario = base_scenario(("compiled_titan", number), "llama",
                                 {**SHAPES[row["model"]], **LLAMA, "sequence": sequence},
                                 {"per_gpu": micro, "micro": micro}, platforms[row["device"]],
                                 {"tensor": tensor}, {"fsdp": {"version": 2}}, gpus=gpus,
                                 recipe="torchtitan", **more)
        scenario["batch"] = {"global": micro * gpus // tp, "micro": micro}
        fields = axes(tp=tp, dp=gpus // tp, micro=micro, model=row["model"], nodes=gpus // 8,
                      micro_batches=1, precision=row["precision"], campaign=row["campaign"],
                      async_tp=row["async_tp"])
        step = micro * sequence / (float(row["tokens_per_s_per_gpu"]) * tp)
        yield Row("compiled_titan", number, scenario, fields, step,
                  float(row["memory_gib"] or 0) * GIB, memory_kind="reserved_bytes")


def engine_row(source, number, row, model, parameters, precision, platform, step):
    """One step of Megatron-Core with Transformer Engine."""
    gpus, tp, pp, cp, micro = (int(row[key]) for key in ("gpus", "tp", "pp", "cp", "micro"))
    dp = gpus // (tp * pp * cp)
    chunks = int(row["vp"] or 1)
    if chunks > 1:
        stages = pipeline(pp, "stream", schedule="interleaved", chunks=chunks, keep_outputs=False)
    else:
        stages = pipeline(pp, "host", keep_outputs=False)
    parallel = {"tensor": user_buffers(tp), "pipeline": stages}
    if cp > 1:
        parallel["context"] = {"size": cp, "exchange": "ring"}
    strategy = {"zero": {"stage": 1, "bucket_size": f"{2 * max(40, dp * cp)} MB",
                         "gather": "with-forward"}}
    precisions = {"fp8": "fp8-delayed", "FP8": "fp8-current", "FP8-CS": "fp8-current",
                  "MXFP8": "mxfp8", "FP8-MX": "mxfp8", "NVFP4": "nvfp4"}
    more = {"precision": "master-bf16", "low_precision": precisions[precision]}
    if int(row.get("fsdp") or 0) > 1:
        strategy = {"fsdp": {"version": 2}}
        more["precision"] = "amp-bf16"
    scenario = base_scenario((source, number), model,
                             {**parameters, "sequence": int(row["sequence"])},
                             {"global": int(row["global"]), "micro": micro}, platform, parallel,
                             strategy, gpus=gpus, recipe="megatron-2024", **more)
    fields = axes(tp=tp, pp=pp, dp=dp, cp=cp, micro=micro, nodes=gpus // 8, precision=precision,
                  model=row.get("model", "LLAMA3_70B"), system=row.get("system", "H100"),
                  release=row.get("release", row.get("container", "")),
                  micro_batches=int(row["global"]) // (dp * micro))
    return Row(source, number, scenario, fields, step)


def dgxc_fp8():
    """NVIDIA's tuned recipes in fp8 on H100."""
    for number, row in enumerate(read_table("dgxc_h100_fp8.csv")):
        model, parameters = "llama", {**LLAMA3_70B, "layers": 80}
        if row["model"].startswith("nemotron"):
            model, parameters = str(MEASUREMENTS / "nemotron.yaml"), {}
        yield engine_row("dgxc_fp8", number, row, model, parameters, "fp8", "dgx-h100",
                         float(row["step_s"]))


def nemo_fp8():
    """NeMo 24.07 in fp8 on H100."""
    for number, row in enumerate(read_table("nemo_h100_fp8.csv")):
        if row["model"] not in SHAPES:
            continue
        step = (int(row["global"]) * int(row["sequence"]) /
                (float(row["tokens_per_s_per_gpu"]) * int(row["gpus"])))
        yield engine_row("nemo_fp8", number, row, "llama", {**SHAPES[row["model"]], **LLAMA}, "fp8",
                         "dgx-h100", step)


def bridge():
    """Megatron-Bridge on H100, GB200 and GB300."""
    platforms = {"DGX-H100": "dgx-h100", "DGX-GB200": "gb200-nvl72", "DGX-GB300": "gb300-nvl72"}
    for number, row in enumerate(read_table("bridge.csv")):
        step = (int(row["global"]) * int(row["sequence"]) /
                (float(row["tokens_per_s_per_gpu"]) * int(row["gpus"])))
        yield engine_row("bridge", number, row, "llama", {**SHAPES["llama3-70b"], **LLAMA},
                         row["precision"], platforms[row["system"]], step)


def foundry_fp8():
    """MPT 3B of llm-foundry under FSDP."""
    for number, row in enumerate(read_table("foundry_h100_fp8.csv")):
        micro, sequence, gpus = int(row["micro"]), int(row["sequence"]), int(row["gpus"])
        scenario = base_scenario(("foundry_fp8", number), "mpt-3b", {"sequence": sequence},
                                 {"global": int(row["global"]), "micro": micro}, "dgx-h100",
                                 {"tensor": 1}, {"fsdp": {"version": 1}}, gpus=gpus,
                                 precision="amp-bf16", low_precision="fp8-delayed",
                                 activation_checkpointing=row["recompute"] == "True",
                                 optimizer={"name": "adamw"})
        fields = axes(dp=gpus, micro=micro, model=row["model"], nodes=1,
                      micro_batches=int(row["accumulation"]))
        yield Row("foundry_fp8", number, scenario, fields,
                  int(row["global"]) * sequence / float(row["tokens_per_s"]))


SOURCES = {"compiled_titan": compiled_titan, "dgxc_fp8": dgxc_fp8, "nemo_fp8": nemo_fp8,
           "bridge": bridge, "foundry_fp8": foundry_fp8}
