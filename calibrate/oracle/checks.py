"""Do parameters, schedule and losses of our networks agree with genuine PyTorch?"""

import runs


def expected_collectives(point, buffer_types):
    """The collectives of a steady step by the simulator's schedule, in order (docs/ddp.md, docs/fsdp.md)."""
    if point["kind"] == "ddp":
        return [("broadcast", None)] * buffer_types + [
            ("all_reduce", size) for size in point["bucket_bytes"]
        ]
    units = point["units"]
    gathers = [("all_gather", unit["gathered_bytes"]) for unit in units]
    reductions = [("reduce_scatter", unit["reduced_bytes"]) for unit in units]
    backward, gathered = [], {i for i, unit in enumerate(units) if unit["root"]}
    order = [i for i, unit in enumerate(units) if not unit["root"]][::-1]
    order += [i for i, unit in enumerate(units) if unit["root"]]
    for place, i in enumerate(order):
        for j in order[place : place + 2]:  # its own, and one ahead before it computes (facts 36 and 51)
            if j not in gathered:
                gathered.add(j)
                backward.append(gathers[j])
        backward.append(reductions[i])
    return gathers + backward


def draws(layer):
    return layer["kind"] in ("dropout", "stochastic_depth") or layer["attributes"].get("dropout", 0)


def check(arguments, exported):
    failures = []
    losses = {}
    of_points = runs.train(arguments, exported, steps=2)
    for point, seen in zip(exported["points"], of_points):
        step = exported["steps"][point["step"]]
        name = f"{point['strategy']} {step['model']}"
        if seen[0]["parameters"] != step["parameter_count"]:
            failures.append(
                f"{name}: {seen[0]['parameters']} parameters, ours {step['parameter_count']}"
            )
        expected = expected_collectives(point, seen[0]["buffer_types"])
        found = [(call["collective"], call["bytes"]) for call in seen[0]["collectives"]]
        print(f"{name}: {len(found)} collectives: {by_kind(seen[0]['collectives'])}")
        if [kind for kind, _ in expected] != [kind for kind, _ in found] or any(
            size not in (None, other) for (_, size), (_, other) in zip(expected, found)
        ):
            failures.append(
                f"{name}: collectives differ\n  PyTorch  {found}\n  expected {expected}"
            )
        losses[name] = [loss for rank in seen for loss in rank["losses"]]
    # The sharding does not change the training: the units lose nothing of the network.
    if not any(draws(layer) for step in exported["steps"] for layer in step["layers"]):
        reference = next(iter(losses.values()))
        for name, values in losses.items():
            apart = max(abs(a - b) / abs(a) for a, b in zip(reference, values))
            print(f"{name}: first loss {values[0]:.6f}, losses apart by {apart:.1e}")
            if apart > 1e-3:
                failures.append(f"{name}: losses {values} instead of {reference}")
        failures += loss_failures(arguments, exported, of_points)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


def loss_failures(arguments, exported, of_points):
    """Does our own training, from the same weights and data, arrive at the same loss?"""
    failures = []
    for point, seen in zip(exported["points"], of_points):
        by_step = zip(*(rank["losses"] for rank in seen))
        losses = [sum(ranks) / len(seen) for ranks in by_step]  # our runs report this mean
        ours = runs.our_run(arguments, point["strategy"], steps=len(losses) - runs.WARM_UP)
        if ours is None:
            continue
        name = f"{point['strategy']} {arguments.model}"
        print(f"{name}: loss after {len(losses)} steps {losses[-1]:.4f}, ours {ours['loss']:.4f}")
        # Two libraries add up in different orders, and training makes their differences grow.
        if abs(ours["loss"] - losses[-1]) > 0.005 * abs(losses[-1]) + 1e-4:
            failures.append(f"{name}: loss {losses[-1]:.4f}, ours {ours['loss']:.4f}")
    return failures


def by_kind(calls):
    totals = {}
    for call in calls:
        total = totals.setdefault(call["collective"], {"count": 0, "bytes": 0})
        total["count"] += 1
        total["bytes"] += call["bytes"]
    return totals
