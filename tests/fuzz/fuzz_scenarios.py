#!/usr/bin/env python3
"""Do random scenarios keep the laws that every right prediction obeys?

usage: fuzz_scenarios.py LOCKSTEP SECONDS [SEED]

Options are drawn from the program's own JSON Schema, so that a new option is fuzzed without a change here. Every run
must end with exit code 0, 2 (refused) or 3 (does not fit), and every row must keep the invariants. Some accepted
scenarios run a second time with one change of known effect (metamorphic pairs): no jitter, more bandwidth, a faster
device, twice the data, another number of processes. Every third scenario is a mesh with laws of its own
(mesh_scenarios.py); MESHES=1 in the environment draws meshes only. A finding prints one line and keeps the scenario's
file; the exit code is 1 if there was a finding.
"""
import copy, csv, io, json, math, os, pathlib, random, re, shutil, subprocess, sys, tempfile, time

import yaml

import mesh_scenarios

PARTS = ["data_loading_s", "forward_s", "backward_s", "optimizer_s", "copies_s", "exposed_communication_s",
         "host_bound_s", "waiting_s", "bubble_s"]
MODELS = ["alexnet", "bert-base", "convnext_tiny", "convnext_large", "densenet121", "efficientnet_b0",
          "efficientnet_v2_l", "gpt2", "gpt2-medium", "gpt2-xl", "lenet5", "llama3.2-1b", "mlp", "mobilenet_v2",
          "mobilenet_v3_large", "mpt-125m", "resnet18", "resnet50", "resnet152", "resnext50_32x4d",
          "tinyllama-1.1b", "vgg16", "vit_b_16"]
# Platforms with several nodes, and some with one.
PLATFORMS = ["a100-pcie-40gb-x4", "a100-sxm4-80gb-x4", "cpu-1gbit-x2", "cpu-loopback-x2", "dgx-a100-80gb",
             "dgx-a100-80gb-10gbe", "dgx-b200", "dgx-h100", "dgx1-v100-32gb", "g4dn.12xlarge", "g5.12xlarge",
             "g6e.12xlarge", "h100-pcie-x8", "p4d.24xlarge", "rtx3090-x8-25gbe"]
# These fields are not drawn from the schema: they are drawn by hand below, need files, only state measurements, or train
# for real.
BY_HAND = {"name", "description", "model", "model_parameters", "platform", "profile", "batch", "gpus", "strategies",
           "stragglers", "measured", "anchor", "dataset", "input", "simulation", "faults", "checkpoint", "convergence", "label", "price_per_gpu_hour", "fabric"}
# Sensible values of quantities, by the unit in which the schema's pattern ends, and of numbers by name.
BYTES = ["1 B", "100 kB", "1 MiB", "4 MiB", "25 MiB", "400 MiB"]
LINKS = ["NVLink", "PCIe", "host memory", "NIC", "uplink"]
NUMBERS = {"samples_per_second": [1, 100, 3000], "gradient_clipping": [0, 1], "shard_group": [0, 2, 4, 8],
           "min_parameters": ["10k", "1M", "100M"], "servers": [1, 2, 3, 7], "staleness_bound": [0, 1, 3, 20],
           "power_sgd_rank": [1, 4], "flash_attention": [1, 2], "version": [1, 2], "momentum": [0, 0.9],
           "highest_staleness_bound": [0, 8, 30], "backup_workers": [0, 1, 3], "splitting": [1, 2, 5],
           "exchange_every": [1, 2, 7], "elasticity": [0, 0.1, 1], "weighting_strength": [0, 0.5, 2],
           "share": ["0.1%", "1%", "20%"], "fraction": ["0.1%", "20%", "100%"], "rank": [1, 4], "at": ["10%", "50%"], "weight_decay": [0, 0.01], "backward_share": ["30%", "60%"], "operator_seconds": ["2 us", "20 us"]}


class Fuzzer:
    def __init__(self, program, seed):
        self.program = program
        self.rnd = random.Random(seed)
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-fuzz-"))
        self.schema = json.loads(subprocess.run([program, "schema", "scenario"], capture_output=True, text=True,
                                                check=True).stdout)
        self.data = pathlib.Path(os.environ.get("LOCKSTEP_DATA") or pathlib.Path(__file__).parents[2])
        self.runs = self.refused = self.findings = self.meshes = self.misfits = 0

    # --- drawing

    def pick(self, values):
        return self.rnd.choice(list(values))

    def value(self, name, schema):
        """A value that the schema allows; None if the fuzzer has no idea of one."""
        if "enum" in schema:
            return self.pick(schema["enum"])
        if name in NUMBERS:
            return self.pick(NUMBERS[name])
        if "anyOf" in schema or "oneOf" in schema:
            choices = [c for c in schema.get("anyOf", []) + schema.get("oneOf", []) if c.get("type") != "null"]
            objects = [c for c in choices if c.get("type") == "object"]
            numbers = [c for c in choices if c.get("type") in ("integer", "number")]
            return self.value(name, self.pick(objects or numbers or choices))
        if schema.get("type") == "boolean":
            return self.rnd.random() < .5
        if schema.get("type") == "object":
            return self.fields(schema, .4)
        if "GiB" in schema.get("pattern", ""):
            return self.pick(["2 B", "4 B"] if name.endswith("element_size") else BYTES)
        if schema.get("type") == "integer" and schema.get("maximum", math.inf) < 100:
            return self.rnd.randint(int(schema["minimum"]), int(schema["maximum"]))
        return None

    def fields(self, schema, share):
        drawn = {}
        for name, field in schema.get("properties", {}).items():
            if name in BY_HAND or self.rnd.random() >= share:
                continue
            value = self.value(name, field)
            if value is not None and value != {}:
                drawn[name] = value
        return drawn

    def strategy(self):
        kinds = next(c for c in self.schema["properties"]["strategies"]["items"]["anyOf"]
                     if c.get("type") == "object")["properties"]
        kind = self.pick(k for k in kinds if k not in ("label", "precision", "activation_checkpointing"))
        options = self.value(kind, kinds[kind])
        if kind == "parameter_server" and self.rnd.random() < .25:  # chance alone seldom draws an allowed one
            options = {k: v for k, v in (options or {}).items()
                       if k in ("servers", "placement", "partition_size", "overlap", "pull_overlap", "priority", "keys")}
            options.update(self.pick([{"consistency": "async", "switch": {"to": "sync", "at": self.pick(["20%", "50%", "80%"])}},
                                      {"consistency": "sync", "switch": {"to": "async", "at": "30%"}},
                                      {"controller": {"above": 1.1, "below": 1.05, "window": self.pick([1, 3])}},
                                      {"controller": {"communication": self.pick(["10%", "50%"]), "window": 1}}]))
        if kind in ("fsdp", "zero") and self.rnd.random() < .3:  # shard groups, and offload together with them
            options = {**(options or {}), "shard_group": self.pick([2, 4, 8])}
            if kind == "fsdp":
                options.update(sharding=self.pick(["hybrid_shard", "hybrid_shard_zero2"]), cpu_offload=self.rnd.random() < .4)
        return {kind: options} if options else kind

    def stragglers(self):
        drawn = {}
        if self.rnd.random() < .4:
            drawn["per_step"] = self.pick([{"lognormal": {"sigma": "5%"}}, {"exponential": {"mean": "10%"}},
                                           {"pareto": {"alpha": 2.5, "scale": "5%"}}])
        if self.rnd.random() < .2:
            drawn["per_rank"] = self.pick(["0%", "1%", "10%"])
        if self.rnd.random() < .4:
            drawn["slow_ranks"] = [{"rank": 0, "factor": self.pick([1.1, 2, 10])}]
        for name, values in {
                "slow_periods": [{"every": 3, "lasts": 1, "factor": 2}, {"every": 10, "lasts": 4, "factor": 1.2}],
                "loader_hiccups": [{"every": 3, "lasts": "20 ms"}, {"every": 10, "lasts": "1 s"}],
                "slow_links": [[{"link": link, "speed": "40%"}] for link in LINKS],
                "neighbours": [[{"link": link, "share": "50%", "lasts": "20 ms", "every": "60 ms"}] for link in LINKS],
                "other_devices": [[{"device": "v100-sxm2-16gb", "nodes": 0}], [{"device": "t4", "nodes": 0}]]}.items():
            if self.rnd.random() < .08:
                drawn[name] = self.pick(values)
        return drawn

    def faults(self):
        between = {"node": self.pick(["2 d", "60 d"])}
        if self.rnd.random() < .3:
            between["gpu"] = "300 d"
        drawn = {"mean_time_between_failures": between, "runs": 20}
        for name, values in {"detection": ["1 s", "10 min"], "restart": ["10 s", "20 min"], "repair": ["1 h", "2 d"],
                             "spare_nodes": [1, 4], "recovery": ["restart", "elastic"], "min_nodes": [1, 2]}.items():
            if self.rnd.random() < .4:
                drawn[name] = self.pick(values)
        if self.rnd.random() < .3:
            between["worker"] = self.pick(["20 d", "300 d"])
        if self.rnd.random() < .3:
            between["link"] = "30 d"
        if self.rnd.random() < .4:
            drawn["at"] = self.pick([[{"time": "1 h", "leaves": 0}, {"time": "5 h", "joins": 0}], [{"time": "2 h", "joins": 0}],
                                     [{"time": "1 h", "worker": 0}, {"time": "1 h"}], [{"time": "1 h", "link": 0}]])
        if "link" in between or any("link" in one for one in drawn.get("at", [])):
            drawn["link_outage"] = self.pick(["1 min", "10 h"])
        return drawn

    def scenario(self):
        s = self.fields(self.schema, .25)
        s.update(name="fuzz", model=self.pick(MODELS), platform=self.pick(PLATFORMS),
                 gpus=self.pick([1, 2, 3, 4, 8, 16, 24, 64, 128]), strategies=[self.strategy()])
        s["batch"] = self.pick([{"per_gpu": self.pick([1, 2, 8, 32])},
                                {"micro": self.pick([1, 4]), "accumulation": self.pick([1, 2, 5])}])
        if self.rnd.random() < .15:
            s["fabric"] = self.pick([{"nic_rate": "1 Gbit/s"}, {"nic_rate": "400 Gbit/s", "nics_per_node": 4},
                                     {"latency": "100 us"}, {"nodes_per_leaf": 2, "oversubscription": 4}])
        s["simulation"] = {"steps": self.pick([3, 10, 30]), "seed": self.rnd.randint(1, 99)}
        if self.rnd.random() < .2:
            s["simulation"]["interference"] = False
        if self.rnd.random() < .3:
            s["dataset"] = {"samples": 10000, "epochs": self.pick([1, 3])}
        stragglers = self.stragglers()
        if stragglers:
            s["stragglers"] = stragglers
        if self.rnd.random() < .1:
            s["dataset"] = {"time": self.pick(["1 d", "20 d"])}
            s["faults"] = self.faults()
            if self.rnd.random() < .5:
                s["checkpoint"] = self.pick([{"every": "1 h"}, {"bandwidth": "1 GB/s"}])
        return s

    # --- running

    def run(self, scenario, name, processes=1):
        file = self.root / name
        file.write_text(yaml.safe_dump(scenario, sort_keys=False))
        self.runs += 1
        try:
            done = subprocess.run([self.program, "run", str(file), "--csv", "-j", str(processes)],
                                  capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return file, None, [], "no answer within 120 s"
        rows = list(csv.DictReader(io.StringIO(done.stdout))) if done.returncode in (0, 3) else []
        return file, done.returncode, rows, done.stderr

    def check(self, code, rows, errors):
        if code is None:
            return [errors]
        if code == 2:
            return [] if re.search(r":\d+:\d+: ", errors) else [f"refused without a place: {errors.strip()[-200:]}"]
        if code not in (0, 3):
            return [f"exit {code}: {errors.strip()[-300:]}"]
        return [fault for row in rows for fault in broken(row)] or ([] if rows else ["no rows"])

    # --- metamorphic pairs: (name, changed scenario, law of the step times)

    def pairs(self, s, row):
        options = s["strategies"][0].get("parameter_server", {}) if isinstance(s["strategies"][0], dict) else {}
        synchronous = options.get("consistency", "sync") == "sync" and not options.get("backup_workers") \
            and "switch" not in options
        step = float(row["step_s"])
        # Pushes at different times may pass a server faster than pushes at one time, and on a shared link near workers
        # lose the time that far workers gain.
        servers = "parameter_server" in json.dumps(s["strategies"])
        slack = 1.1 if servers else 1.01
        if "stragglers" in s and not servers:
            # The rest are GPUs of one kind that differ a little, which is the default.
            spread = {k: v for k, v in s["stragglers"].items() if k == "per_rank"}
            without = {**s, "stragglers": spread} if spread else {k: v for k, v in s.items() if k != "stragglers"}
            # A lognormal factor has its median at 1, so a few draws may speed a run up.
            chance = 1.1 if "lognormal" in s["stragglers"].get("per_step", {}) else 1.03
            yield "slower without stragglers", without, lambda r: float(r["step_s"]) <= chance * step
        if synchronous and "per_step" not in s.get("stragglers", {}):
            faster = self.scaled_platform(s["platform"], network=True)
            if faster:
                # More channels beside compute may cost up to 1 % (docs/networks.md).
                yield "slower with twice the network", {**s, "platform": faster}, \
                    lambda r: float(r["step_s"]) <= slack * step
            # Nodes with other devices keep their devices.
            faster = {**s, "platform": self.scaled_platform(s["platform"])}
            yield "slower on a device twice as fast", faster, lambda r: float(r["step_s"]) <= slack * step
        per_node = self.platform(s["platform"])["gpus_per_node"]
        half = s["gpus"] // 2
        # Only whole nodes are compared: half a node uses the network unevenly, and two GPUs with point-to-point NVLinks
        # (DGX-1) have fewer links than four.
        if synchronous and "stragglers" not in s and s["gpus"] % 2 == 0 and half % per_node == 0:
            # NCCL chooses another algorithm for other numbers of ranks, which is not always the faster one.
            yield "slower on half the GPUs", {**s, "gpus": half}, lambda r: float(r["step_s"]) <= 1.25 * step
        if "epochs" in s.get("dataset", {}):
            twice = copy.deepcopy(s)
            twice["dataset"]["epochs"] *= 2
            total, first = float(row["total_s"]), step
            yield "twice the epochs is not twice the time", twice, \
                lambda r: abs(float(r["total_s"]) - 2 * total) <= 1e-9 * total + 20 * first

    def laws(self, s):
        """Pairs with one slow rank, for strategies whose ranks keep step: (name, scenario, other scenario, law of their
        step times)."""
        strategy = json.dumps(s["strategies"])
        if "parameter_server" in strategy or s["gpus"] == 1 or s["gpus"] % self.platform(s["platform"])["gpus_per_node"]:
            return
        factor = 1 + self.pick([.01, .1, 1])

        def slow(rank, factor):
            return {**s, "stragglers": {"per_rank": "0%", "slow_ranks": [{"rank": rank, "factor": factor}]},
                    "simulation": {**s["simulation"], "steps": 40}}
        rank, other = self.rnd.randrange(s["gpus"]), self.rnd.randrange(s["gpus"])
        yield "hangs on which rank is slow", slow(rank, factor), slow(other, factor), lambda a, b: abs(a - b) <= 1e-6 * a
        yield "jumps with a tiny difference", slow(rank, 1), slow(rank, 1.00001), lambda a, b: abs(a - b) <= 1e-4 * a
        yield "gets faster with a slower rank", slow(rank, factor), slow(rank, factor + .02), \
            lambda a, b: b >= a * (1 - 1e-9)

    def platform(self, name):
        file = yaml.safe_load((self.data / "platforms" / f"{name}.yaml").read_text())
        return {**self.platform(file["base"]), **file} if "base" in file else file

    def scaled_platform(self, name, network=False):
        """A platform file whose network or device is twice as fast; None if the platform has no network."""
        machine = self.platform(name)
        changed = {"base": name}
        if network:
            if "fabric" not in machine:
                return None
            changed["fabric"] = {**machine["fabric"], "nic_rate": twice(machine["fabric"]["nic_rate"])}
        else:
            device = yaml.safe_load((self.data / "platforms" / "devices" / f"{machine['device']}.yaml").read_text())
            device["peak"] = {k: twice(v) for k, v in device["peak"].items()}
            device["memory"]["bandwidth"] = twice(device["memory"]["bandwidth"])
            (self.root / f"device-{name}.yaml").write_text(yaml.safe_dump(device, sort_keys=False))
            changed["device"] = f"./device-{name}.yaml"
        file = f"platform-{name}-{'network' if network else 'device'}.yaml"
        (self.root / file).write_text(yaml.safe_dump(changed, sort_keys=False))
        return f"./{file}"

    # --- meshes

    def mesh(self, number):
        s, divides = mesh_scenarios.mesh_scenario(self)
        self.meshes += 1
        file, code, rows, errors = self.run(s, f"{number}.yaml")
        why = self.check(code, rows, errors)
        if not divides and code != 2:
            why = why or [f"exit {code} for a mesh that does not divide"]
        self.refused += code == 2
        self.misfits += divides and code == 2
        if not why and code in (0, 3):
            done = subprocess.run([self.program, "run", str(file), "--json", "-j", "1"], capture_output=True, text=True, timeout=120)
            why = mesh_scenarios.stage_faults(done.stdout, s["parallel"].get("pipeline", {}).get("stages", 1))
        if why:
            self.report(file, s, why)
            return
        if code == 0:
            name, first, second, holds = self.pick(mesh_scenarios.mesh_laws(self, s))
            why = self.pair(number, name, first, second, holds)
            if why:
                self.report(file, s, why)
                return
        file.unlink()

    def pair(self, number, name, first, second, holds):
        """Returns the faults of two scenarios and of the law of their step times; faulty scenarios' files are kept."""
        one, code1, rows1, errors1 = self.run(first, f"{number}-one.yaml")
        other, code2, rows2, errors2 = self.run(second, f"{number}-other.yaml")
        why = self.check(code1, rows1, errors1) + self.check(code2, rows2, errors2)
        if not why and rows1 and rows2 and not holds(float(rows1[0]["step_s"]), float(rows2[0]["step_s"])):
            why = [f"{name}: {rows1[0]['step_s']} and {rows2[0]['step_s']} s ({one}, {other})"]
        if not why:
            one.unlink()
            other.unlink()
        return why

    # --- one scenario after the other

    def report(self, file, scenario, why):
        self.findings += 1
        print(f"{file}: {scenario['model']} on {scenario['gpus']} of {scenario['platform']}, "
              f"{json.dumps(scenario['strategies'][0])}: {'; '.join(why[:3])}", flush=True)

    def one(self, number):
        s = self.scenario()
        file, code, rows, errors = self.run(s, f"{number}.yaml")
        self.refused += code == 2
        why = self.check(code, rows, errors)
        if why:
            self.report(file, s, why)
            return
        if code == 0 and self.rnd.random() < .3:
            # With enough steps the lead that the host or the data loader gains in the first step hardly counts.
            longer = {**s, "simulation": {**s["simulation"], "steps": 100}}
            _, _, rows, _ = self.run(longer, f"{number}.yaml")
            pairs = list(self.pairs(longer, rows[0])) if rows else []
            if pairs:
                name, changed, holds = self.rnd.choice(pairs)
                other, code2, rows2, errors2 = self.run(changed, f"{number}-pair.yaml")
                why = self.check(code2, rows2, errors2)
                if not why and rows2 and not holds(rows2[0]):
                    why = [f"{name}: {rows[0]['step_s']} s, then {rows2[0]['step_s']} s ({other})"]
                if why:
                    self.report(file, s, why)
                    return
                other.unlink()
        laws = list(self.laws(s)) if code == 0 and self.rnd.random() < .3 else []
        if laws:
            why = self.pair(number, *self.rnd.choice(laws))
            if why:
                self.report(file, s, why)
                return
        if code == 0 and self.rnd.random() < .05:
            _, _, rows, _ = self.run(s, f"{number}.yaml")
            _, _, again, _ = self.run(s, f"{number}.yaml", processes=2)
            if again != rows:
                self.report(file, s, ["another answer with two processes"])
                return
        file.unlink()


def twice(quantity):
    number, unit = str(quantity).split(maxsplit=1)
    return f"{2 * float(number):g} {unit}"


def broken(row):
    try:
        step = float(row["step_s"])
        parts = [float(row[k]) for k in PARTS]
        low, high = float(row["step_low_s"]), float(row["step_high_s"])
        allocated, reserved, device = (float(row[k]) for k in ("allocated_bytes", "reserved_bytes", "device_bytes"))
    except (ValueError, KeyError) as error:
        return [f"unreadable: {error}"]
    why = []
    if not all(map(math.isfinite, parts + [step])) or step <= 0:
        why.append("not finite")
    if min(parts) < -1e-12:
        why.append(f"a part of {min(parts)} s")
    if abs(sum(parts) - step) > 1e-6 * step:
        why.append(f"parts add up to {sum(parts)} s, the step takes {step} s")
    if not low <= step <= high:
        why.append("outside its interval")
    if float(row["gpu_utilisation"]) > 1 + 1e-9:
        why.append(f"utilisation {row['gpu_utilisation']}")
    if float(row["mfu"]) > 9 / 4:  # Winograd's convolutions need fewer operations than model FLOPs count
        why.append(f"MFU {row['mfu']}")
    if not allocated <= reserved <= device:
        why.append("memory out of order")
    return why


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(10**9)
    fuzzer = Fuzzer(sys.argv[1], seed)
    begin = time.monotonic()
    number = 0
    while time.monotonic() - begin < float(sys.argv[2]):
        (fuzzer.mesh if number % 3 == 2 or os.environ.get("MESHES") else fuzzer.one)(number)
        number += 1
    if fuzzer.meshes > 50 and fuzzer.misfits > fuzzer.meshes / 4:
        fuzzer.findings += 1
        print(f"{fuzzer.misfits} of {fuzzer.meshes} meshes are refused: they are to divide")
    print(f"seed {seed}: {number} scenarios, {fuzzer.runs} runs, {fuzzer.refused} refused, {fuzzer.meshes} meshes, {fuzzer.misfits} of them refused that were to divide, "
          f"{fuzzer.findings} findings, {time.monotonic() - begin:.0f} s")
    if not fuzzer.findings:
        shutil.rmtree(fuzzer.root)
    sys.exit(1 if fuzzer.findings else 0)


if __name__ == "__main__":
    main()
