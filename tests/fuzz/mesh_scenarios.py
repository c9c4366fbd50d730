"""Random meshes and the laws that they obey. Used by fuzz_scenarios.py.

Sizes are drawn from the divisors of the model's heads, blocks, experts and tokens, so that most meshes divide. One mesh
in eight is drawn with a size that does not divide; the program must refuse it at a place in the file.
"""
import copy
import json
import math

LANGUAGE = {"layers": 8, "hidden": 1024, "heads": 16, "vocabulary": 32768}
MODELS = {"llama": {**LANGUAGE, "kv_heads": 8, "mlp": 4096}, "gpt": LANGUAGE, "megatron-gpt": LANGUAGE,
          "mixtral": {**LANGUAGE, "layers": 4, "kv_heads": 8, "mlp": 1024, "experts": 8},
          "qwen3-moe": {**LANGUAGE, "layers": 4, "kv_heads": 8, "mlp": 256, "head_size": 64, "experts": 16, "top": 4},
          "deepseek-v2-lite": {**LANGUAGE, "layers": 4, "mlp": 1024, "expert_mlp": 256, "experts": 16, "top": 4},
          "resnet50": {}, "vgg16": {}, "densenet121": {}}
EXPERTS = {"mixtral": 8, "qwen3-moe": 16, "deepseek-v2-lite": 16}
# Parts of the model on each stage that a schedule has; V-shaped schedules have two.
CHUNKS = {"gpipe": [1], "1f1b": [1], "interleaved": [2, 4], "looped-bfs": [2, 4], "zb1p": [1, 2], "zb-h2": [1], "zbv": [2], "dualpipe-v": [2]}
PLATFORMS = ["a100-sxm4-80gb-x4", "dgx-a100-80gb", "dgx-a100-80gb-10gbe", "dgx-h100", "dgx1-v100-32gb", "p4d.24xlarge"]
MOST_GPUS = 32


def options_of(fuzzer, choices):
    """Some of an axis's options, each with one of its values."""
    return {name: fuzzer.pick(values) for name, values in choices.items() if fuzzer.rnd.random() < .3}


def pipeline(fuzzer, stages, layers):
    schedule = fuzzer.pick(CHUNKS)
    chunks = fuzzer.pick(CHUNKS[schedule])
    drawn = {"stages": stages, "schedule": schedule, "chunks": chunks,
             **options_of(fuzzer, {"transfers": ["stream", "host"], "keep_outputs": [True, False], "return_outputs": [True]})}
    if layers and fuzzer.rnd.random() < .2 and layers % (stages * chunks) == 0:
        drawn["layers"] = [layers // (stages * chunks)] * (stages * chunks)
    return drawn


def axes(fuzzer, model):
    """Returns the `parallel` mapping and the number of data-parallel replicas."""
    language = bool(MODELS[model])
    layers = MODELS[model].get("layers", 0)
    tensor = fuzzer.pick([1, 1, 2, 4, 8]) if language else 1
    context = fuzzer.pick([1, 1, 1, 2, 4]) if language else 1
    stages = fuzzer.pick([1, 2, 2, 4] if language else [2, 2, 3, 4])
    data = fuzzer.pick([1, 2, 4])
    while tensor * context * stages * data > MOST_GPUS:
        data, context, stages = max(1, data // 2), max(1, context // 2), max(1, stages // 2)
    parallel = {}
    moe = model in EXPERTS
    if tensor > 1:
        parallel["tensor"] = {"size": tensor, **options_of(fuzzer, {
            "sequence": [True, False], "keep_gathered": [False], "shared_exchanges": [True], "split_loss": [True],
            "overlap": ["none", "backward"], "copies": [False], "dtensor": [False], "repeat_last_exchange": [True]})}
        if not parallel["tensor"].get("sequence"):
            parallel["tensor"].pop("keep_gathered", None)
    if context > 1:
        parallel["context"] = {"size": context, **options_of(fuzzer, {
            "exchange": ["ring", "gather", "all-to-all"], "balance": ["zigzag", "none"], "wide_gradients": [True, False]})}
        if parallel["context"].get("exchange") == "all-to-all":  # both axes share heads, and balance is for rings
            parallel["context"] = {"size": context, **({"exchange": "all-to-all"} if 8 % (tensor * context) == 0 else {})}
    if moe and fuzzer.rnd.random() < .7:
        most = math.gcd(EXPERTS[model], data * context * tensor)
        sizes = [size for size in (2, 4, 8, 16) if most % size == 0]
        if sizes:
            parallel["expert"] = {"size": fuzzer.pick(sizes), **options_of(fuzzer, {
                "dispatch": ["all-to-all", "gather"], "capacity": [0, 1.25], "keep_exchanged": [False],
                "load": [{"zipf": {"exponent": 0.7}}, {"listed": {"shares": list(range(1, EXPERTS[model] + 1))}}]})}
            if "load" not in parallel["expert"] and fuzzer.rnd.random() < .3:
                parallel["expert"]["imbalance"] = 1.5
            if model == "deepseek-v2-lite" and "dispatch" not in parallel["expert"] and fuzzer.rnd.random() < .5:
                parallel["expert"]["overlap"] = "shared"
            if tensor > 1:
                parallel["tensor"]["sequence"] = True
                parallel["expert"]["tensor"] = 1
    if stages > 1:
        parallel["pipeline"] = pipeline(fuzzer, stages, layers)
        if layers and layers < stages * parallel["pipeline"]["chunks"]:
            parallel["pipeline"] = {"stages": stages}
    return parallel, data


def strategy(fuzzer):
    return fuzzer.pick(["ddp", {"ddp": {"overlap": False}}, {"ddp": {"gradient_as_bucket_view": True}}, {"fsdp": {"version": 2}},
                        {"fsdp": {"version": 2, "sharding": "shard_grad_op"}}, {"fsdp": {"version": 2, "wrap": {"policy": "block_and_ends"}}},
                        {"fsdp": {"version": 2, "reshard_in_pipeline": True}},
                        {"fsdp": {"version": 1}}, {"zero": {"stage": 1}}, {"zero": {"stage": 1, "overlap": False}}, {"zero": {"stage": 2}},
                        {"local_sgd": {"every": 2}}])


def broken_on_purpose(fuzzer, scenario):
    """The same scenario with a size that does not divide, or with a strategy that accepts no mesh."""
    parallel = scenario["parallel"]
    ways = [lambda s: s.update(strategies=["parameter_server"])]
    if "tensor" in parallel:
        ways.append(lambda s: s["parallel"]["tensor"].update(size=3))
    if "pipeline" in parallel and MODELS[scenario["model"]]:
        ways.append(lambda s: s["parallel"]["pipeline"].update(layers=[1]))
        ways.append(lambda s: s["parallel"]["pipeline"].update(stages=7))
    if "context" in parallel:
        ways.append(lambda s: s["input"].update(sequence=1021))
    if "expert" in parallel:
        ways.append(lambda s: s["parallel"]["expert"].update(size=3))
    scenario = copy.deepcopy(scenario)
    fuzzer.pick(ways)(scenario)
    return scenario


def mesh_scenario(fuzzer):
    """Returns a scenario with a mesh, and whether its numbers divide."""
    model = fuzzer.pick(MODELS)
    parallel, data = axes(fuzzer, model)
    gpus = data
    for axis, size in (("tensor", "size"), ("context", "size"), ("pipeline", "stages")):
        gpus *= parallel.get(axis, {}).get(size, 1)
    stages = parallel.get("pipeline", {}).get("stages", 1)
    scenario = {"name": "fuzz", "model": model, "platform": fuzzer.pick(PLATFORMS), "gpus": gpus,
                "batch": {"micro": fuzzer.pick([1, 2]), "accumulation": 2 * stages if stages > 1 else fuzzer.pick([1, 2])},
                "parallel": parallel, "strategies": [strategy(fuzzer)],
                "simulation": {"steps": 10, "seed": fuzzer.rnd.randint(1, 99)}}
    if MODELS[model]:
        pieces = {"loss_pieces": 8} if model in ("llama", "qwen3-moe", "deepseek-v2-lite") and fuzzer.rnd.random() < .3 else {}
        scenario.update(model_parameters={**MODELS[model], **pieces}, input={"sequence": fuzzer.pick([512, 1024])})
    fsdp = "fsdp" in scenario["strategies"][0]  # FSDP accumulates gradients only in the type of its shards
    if fuzzer.rnd.random() < .4:
        scenario["recipe"] = fuzzer.pick(["pytorch", "torchtitan", "deepspeed"] + ([] if fsdp else ["megatron", "nanotron"]))
    elif fuzzer.rnd.random() < .7:
        scenario["precision"] = fuzzer.pick(["fp32", "amp-bf16", "pure-bf16", "master-bf16"] + ([] if fsdp else ["master-bf16-fp32-gradients"]))
    if fuzzer.rnd.random() < .3:
        scenario.update(activation_checkpointing=True, recompute=fuzzer.pick(["blocks", "operators"]))
    if fuzzer.rnd.random() < .2:
        scenario["gradient_clipping"] = 1
    if fuzzer.rnd.random() < .3:
        scenario["stragglers"] = {"per_rank": fuzzer.pick(["0%", "2%"]), "slow_ranks": [{"rank": fuzzer.rnd.randrange(gpus), "factor": 1.5}]}
    if parallel and fuzzer.rnd.random() < .125:
        return broken_on_purpose(fuzzer, scenario), False
    return scenario, True


def other_replica(fuzzer, scenario, rank):
    """The rank with the same place in another data-parallel replica, or None. The order of ranks is tensor, context, data, pipeline."""
    parallel = scenario["parallel"]
    inner = parallel.get("tensor", {}).get("size", 1) * parallel.get("context", {}).get("size", 1)
    stages = parallel.get("pipeline", {}).get("stages", 1)
    replicas = scenario["gpus"] // inner // stages
    if replicas == 1:
        return None
    own = rank // inner % replicas
    return rank + (fuzzer.pick(r for r in range(replicas) if r != own) - own) * inner


def mesh_laws(fuzzer, scenario):
    """Pairs of scenarios: (name, first scenario, second scenario, law of their step times)."""
    # With this many steps hosts and stages have lost the lead of the first step and keep one pace.
    paced = {**scenario, "simulation": {**scenario["simulation"], "steps": 400}}

    def slow(rank, factor):
        ranks = [{"rank": rank, "factor": factor}] if factor else []
        return {**paced, "stragglers": {"per_rank": "0%", **({"slow_ranks": ranks} if ranks else {})}}

    def engine(name):
        return {**scenario, "simulation": {**scenario["simulation"], "engine": name}}
    yield "another answer on the other executor", engine("loop"), engine("simgrid"), lambda a, b: abs(a - b) <= 1e-9 * a
    rank = fuzzer.rnd.randrange(scenario["gpus"])
    yield "another answer with a delay of zero", slow(rank, 0), slow(rank, 1), lambda a, b: abs(a - b) <= 1e-9 * a
    yield "faster with a slower rank", slow(rank, 1), slow(rank, 1.3), lambda a, b: b >= a * (1 - 1e-9)
    other = other_replica(fuzzer, scenario, rank)
    per_node = fuzzer.platform(scenario["platform"])["gpus_per_node"]
    # Replicas are placed alike if all are in one node, or if each has nodes of its own.
    if other is not None and scenario["gpus"] <= per_node:
        yield "hangs on which replica is slow", slow(rank, 1.5), slow(other, 1.5), lambda a, b: abs(a - b) <= 1e-6 * a
    faster = fuzzer.scaled_platform(scenario["platform"])
    yield "slower on a device twice as fast", paced, {**paced, "platform": faster}, lambda a, b: b <= 1.01 * a
    network = fuzzer.scaled_platform(scenario["platform"], network=True)
    if network:
        yield "slower with twice the network", paced, {**paced, "platform": network}, lambda a, b: b <= 1.01 * a


def stage_faults(output, stages):
    """Faults in the stages of a prediction, given as the JSON that the program printed."""
    why = []
    for prediction in json.loads(output)["predictions"]:
        if len(prediction.get("stages", [])) != (stages if stages > 1 else 0):
            why.append(f"{len(prediction.get('stages', []))} stages")
        sums = []
        for stage in prediction.get("stages", []):
            memory = stage["memory"]
            if not 0 < memory["allocated_bytes"] <= memory["reserved_bytes"] <= memory["device_bytes"]:
                why.append(f"memory of stage {stage['stage']}: {memory['allocated_bytes']} B allocated")
            sums.append(sum(stage["split_seconds"].values()))
        # A stage begins its next step as soon as it can, so single stages' means over few steps differ; the mean over
        # all stages does not.
        if sums and abs(sum(sums) / len(sums) - prediction["step_seconds"]) > 1e-6 * prediction["step_seconds"]:
            why.append(f"parts of the stages add up to {sums} s, the step takes {prediction['step_seconds']} s")
        largest = max((stage["memory"]["device_bytes"] for stage in prediction.get("stages", [])), default=None)
        if largest is not None and largest != prediction["memory"]["device_bytes"]:
            why.append("the largest stage is not the job's memory")
    return why
