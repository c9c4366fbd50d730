"""Scenarios of measured steps of Megatron-LM, from 2021 to today."""

from mesh_scenarios import (GIB, MEASUREMENTS, Row, axes, base_scenario, megatron_tensor, pipeline,
                            read_table, user_buffers)

# Options of Megatron of 2021 and its kin: GPT with dropout, plain attention, full recomputation.
OLD_MEGATRON = {"precision": "master-bf16", "recipe": "megatron", "attention": "plain",
                "activation_checkpointing": True, "recompute": "blocks"}


def vtrain():
    """Megatron-LM of 2021 on 64 to 512 A100."""
    for number, row in enumerate(read_table("vtrain_a100.csv")):
        tp, pp, dp, micro = (int(row[key]) for key in ("tp", "pp", "dp", "micro"))
        parameters = {"layers": int(row["layers"]), "hidden": int(row["hidden"]),
                      "heads": int(row["heads"]), "sequence": 2048}
        parallel = {"tensor": megatron_tensor(tp, False), "pipeline": pipeline(pp, "host")}
        strategy = {"ddp": {"overlap": False, "gradient_as_bucket_view": True,
                            "bucket_size": "1 TB"}}
        scenario = base_scenario(("vtrain", number), "megatron-gpt", parameters,
                                 {"global": int(row["global"]), "micro": micro},
                                 "dgx-a100-80gb-hdr4", parallel, strategy, gpus=int(row["gpus"]),
                                 **OLD_MEGATRON)
        fields = axes(tp=tp, pp=pp, dp=dp, micro=micro, model=row["params_b"] + "B",
                      nodes=int(row["gpus"]) // 8,
                      micro_batches=int(row["global"]) // (dp * micro))
        yield Row("vtrain", number, scenario, fields, float(row["step_s"]))


def bigscience():
    """Megatron-DeepSpeed on 384 A100 with Omni-Path."""
    for number, row in enumerate(read_table("bigscience_a100.csv")):
        tp, pp, dp, micro = (int(row[key]) for key in ("tp", "pp", "dp", "micro"))
        parameters = {"layers": int(row["layers"]), "hidden": int(row["hidden"]),
                      "heads": int(row["heads"]), "sequence": 2048, "vocabulary": 250880,
                      "positions": 0, "alibi": 1}
        parallel = {"tensor": megatron_tensor(tp, False), "pipeline": pipeline(pp, "stream")}
        strategy = {"zero": {"stage": 1, "overlap": False, "bucket_size": "1 GB"}}
        if row["zero"] == "0":
            strategy = {"ddp": {"overlap": False, "bucket_size": "1 TB"}}
        scenario = base_scenario(("bigscience", number), "megatron-gpt", parameters,
                                 {"global": int(row["global"]), "micro": micro},
                                 "dgx-a100-80gb-hdr4", parallel, strategy, gpus=int(row["gpus"]),
                                 fabric={"nic_rate": "100 Gbit/s"}, **OLD_MEGATRON)
        fields = axes(tp=tp, pp=pp, dp=dp, micro=micro, model="heads " + row["heads"],
                      nodes=int(row["gpus"]) // 8, date=row["date"],
                      micro_batches=int(row["global"]) // (dp * micro))
        memory = row["memory_gb"]
        yield Row("bigscience", number, scenario, fields, float(row["step_s"] or 0),
                  0.0 if memory in ("", "OOM") else float(memory) * GIB,
                  memory_kind="device_bytes", fits=memory != "OOM")


def libai():
    """BERT of Megatron-LM on V100."""
    for number, row in enumerate(read_table("libai_bert_v100.csv")):
        tp, pp, dp, micro = (int(row[key]) for key in ("tp", "pp", "dp", "micro"))
        parallel = {"tensor": megatron_tensor(tp, False), "pipeline": pipeline(pp, "host")}
        strategy = {"ddp": {"overlap": False, "bucket_size": "1 TB"}}
        parameters = {"layers": int(row["layers"]), "hidden": 1024, "heads": 16,
                      "vocabulary": 30592}
        more = {**OLD_MEGATRON, "precision": "pure-fp16",
                "activation_checkpointing": row["recompute"] == "full"}
        if row["recompute"] != "full":
            more.pop("recompute")
        scenario = base_scenario(("libai", number), "bert", parameters,
                                 {"global": int(row["global"]), "micro": micro}, "dgx1-v100-32gb",
                                 parallel, strategy, gpus=int(row["gpus"]), **more)
        fields = axes(tp=tp, pp=pp, dp=dp, micro=micro, model=row["layers"] + " layers",
                      nodes=(int(row["gpus"]) + 7) // 8, recompute=row["recompute"],
                      micro_batches=int(row["global"]) // (dp * micro))
        yield Row("libai", number, scenario, fields,
                  int(row["global"]) / float(row["samples_per_s"]))


LLAMA3_70B = {"hidden": 8192, "heads": 64, "kv_heads": 8, "mlp": 28672, "vocabulary": 128256,
              "fused_norm": 1, "upcast_loss": 1}
NEW_MEGATRON = {"recipe": "megatron"}


def simumax():
    """Megatron-LM on one node of B200, no overlap."""
    for number, row in enumerate(read_table("simumax_b200.csv")):
        tp, pp, dp, cp = (int(row[key]) for key in ("tp", "pp", "dp", "cp"))
        tensor = megatron_tensor(tp, True)
        if tp > 1:
            tensor["overlap"] = "none"
        parallel = {"tensor": tensor,
                    "pipeline": pipeline(pp, "host", keep_outputs=False)}
        if cp > 1:
            parallel["context"] = {"size": cp, "exchange": "all-to-all"}
        parameters = {**LLAMA3_70B, "layers": int(row["layers"]), "sequence": int(row["sequence"])}
        strategy = {"zero": {"stage": 1, "overlap": False, "bucket_size": "1 TB"}}
        micro_batches = int(row["micro_batches"])
        scenario = base_scenario(("simumax", number), "llama", parameters,
                                 {"global": micro_batches * dp, "micro": 1}, "dgx-b200", parallel,
                                 strategy, gpus=8, **NEW_MEGATRON)
        fields = axes(tp=tp, pp=pp, dp=dp, cp=cp, micro=1, model=f"{int(row['sequence']) // 1024}k",
                      nodes=1, micro_batches=micro_batches)
        peak = max(int(each) for each in row["allocated_mib"].split("/")) * 2.0**20
        yield Row("simumax", number, scenario, fields, float(row["step_s"]), peak)


def korthikanti():
    """Table 5 of Korthikanti et al. 2022: full recomputation, and attention alone with sequence
    parallelism."""
    for number, row in enumerate(read_table("korthikanti_a100.csv")):
        pp, chunks, batch, micro = (int(row[key]) for key in ("pp", "chunks", "global", "micro"))
        parameters = {"layers": int(row["layers"]), "hidden": int(row["hidden"]),
                      "heads": int(row["heads"]), "sequence": 2048}
        stages = pipeline(pp, "host")
        if chunks > 1:
            stages = pipeline(pp, "stream", schedule="interleaved", chunks=chunks)
        full = row["recompute"] == "full"
        parallel = {"tensor": megatron_tensor(8, not full), "pipeline": stages}
        dp = int(row["gpus"]) // (8 * pp)
        strategy = {"ddp": {"overlap": False, "gradient_as_bucket_view": True,
                            "bucket_size": "1 TB"}}
        more = {**OLD_MEGATRON, "recompute": "blocks" if full else "attention"}
        scenario = base_scenario(("korthikanti", number), "megatron-gpt", parameters,
                                 {"global": batch, "micro": micro}, "dgx-a100-80gb", parallel,
                                 strategy, gpus=int(row["gpus"]), **more)
        fields = axes(tp=8, pp=pp, dp=dp, micro=micro, model=row["model"],
                      nodes=int(row["gpus"]) // 8, recompute=row["recompute"],
                      micro_batches=batch // (dp * micro))
        yield Row("korthikanti", number, scenario, fields, float(row["step_s"]))


def dgxc():
    """NVIDIA's tuned recipes in bf16 on H100."""
    for number, row in enumerate(read_table("dgxc_h100.csv")):
        tp, pp, dp, cp, chunks = (int(row[key]) for key in ("tp", "pp", "dp", "cp", "vp"))
        stages = pipeline(pp, "stream", schedule="interleaved", chunks=chunks, keep_outputs=False)
        parallel = {"tensor": user_buffers(tp), "pipeline": stages}
        if cp > 1:
            parallel["context"] = {"size": cp, "exchange": "ring"}
        model, parameters = "llama", {**LLAMA3_70B, "layers": 80}
        if row["model"].startswith("nemotron"):
            model = str(MEASUREMENTS / "nemotron.yaml")
            parameters = {}
        strategy = {"zero": {"stage": 1, "bucket_size": f"{2 * max(40, dp * cp)} MB",
                             "gather": "with-forward"}}
        scenario = base_scenario(("dgxc", number), model,
                                 {**parameters, "sequence": int(row["sequence"])},
                                 {"global": int(row["global"]), "micro": int(row["micro"])},
                                 "dgx-h100", parallel, strategy, gpus=int(row["gpus"]),
                                 recipe="megatron-2024", precision="master-bf16")
        fields = axes(tp=tp, pp=pp, dp=dp, cp=cp, micro=int(row["micro"]), model=row["model"],
                      nodes=int(row["gpus"]) // 8, release=row["release"],
                      micro_batches=int(row["global"]) // (dp * int(row["micro"])))
        yield Row("dgxc", number, scenario, fields, float(row["step_s"]))


def megatron_ci():
    """Megatron-LM's own tests without experts: exact bytes of the last rank.

    A small model's step is the time of the test machine's host, logging included, and is not compared.
    """
    for number, row in enumerate(read_table("megatron_ci.csv")):
        if row["experts"] or not row["gpus"] or int(row["cp"]) > 1 or row["swiglu"] == "1":
            continue
        tp, pp = int(row["tp"]), int(row["pp"])
        gpus = int(row["gpus"])
        dp = gpus // (tp * pp)
        unit = 128 * tp
        vocabulary = -(-int(row["vocab"]) // unit) * unit
        parameters = {"layers": int(row["layers"]), "hidden": int(row["hidden"]),
                      "heads": int(row["heads"]), "sequence": int(row["sequence"]),
                      "vocabulary": vocabulary, "tied": 1 - int(row["untied"]),
                      "biases": 1 - int(row["no_linear_bias"]), "positions": 1 - int(row["rope"]),
                      "dropout": int(float(row["dropout"]) > 0)}
        chunks = int(row["vp"] or 1)
        stages = pipeline(pp, "host", keep_outputs=False)
        if chunks > 1:
            stages = pipeline(pp, "stream", schedule="interleaved", chunks=chunks,
                              keep_outputs=False)
        tensor = megatron_tensor(tp, row["sp"] == "1")
        parallel = {"tensor": tensor, "pipeline": stages}
        overlap = row["overlap_grad_reduce"] == "1"
        strategy = {"ddp": {"overlap": overlap, "gradient_as_bucket_view": True,
                            "bucket_size": "160 MB" if overlap else "1 TB"}}
        if row["dist_optimizer"] == "1":
            strategy = {"zero": {"stage": 1, "overlap": overlap,
                                 "bucket_size": "160 MB" if overlap else "1 TB"}}
        platform = "dgx-h100" if "h100" in row["platform"] else "dgx-a100-80gb"
        plain = row["attention_backend"] == "unfused" or "uninstall_te" in row["test"]
        scenario = base_scenario(("megatron_ci", number), "megatron-gpt", parameters,
                                 {"global": int(row["global_batch"]),
                                  "micro": int(row["micro_batch"])}, platform, parallel, strategy,
                                 gpus=gpus, **NEW_MEGATRON,
                                 attention="plain" if plain else "fused")
        fields = axes(tp=tp, pp=pp, dp=dp, micro=int(row["micro_batch"]), model=row["test"],
                      nodes=gpus // 8, loss="fused" if row["fused_ce"] == "1" else "split",
                      micro_batches=int(row["global_batch"]) // (dp * int(row["micro_batch"])))
        seconds = float(row["iter_median_s"]) if int(row["hidden"]) >= 1024 else 0.0
        yield Row("megatron_ci", number, scenario, fields, seconds,
                  float(row["mem_max_allocated_bytes"] or 0), stage=-1, note=row["platform"])


SOURCES = {"vtrain": vtrain, "bigscience": bigscience, "libai": libai, "simumax": simumax,
           "korthikanti": korthikanti, "dgxc": dgxc, "megatron_ci": megatron_ci}
