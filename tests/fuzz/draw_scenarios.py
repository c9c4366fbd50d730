#!/usr/bin/env python3
"""Draws random scenarios whose predictions are written down (tests/scenario/drawn_test.cpp).

usage: draw_scenarios.py LOCKSTEP COUNT SEED > tests/scenario/golden/drawn.jsonl

The scenarios are the fuzzer's, one per line. A scenario is kept if the program accepts it and answers quickly, and if
it combines enough pairs of options that no earlier scenario combines, because an option's effect often shows only
beside another option. The time of an answer depends on the machine, so the file is kept and tests do not draw it anew.
"""
import itertools, json, sys, time

from fuzz_scenarios import Fuzzer

LONGEST = 0.15  # seconds of a whole run
NEW_PAIRS = 12
# The kinds of scenarios, in turn; kinds with more options come more often.
KINDS = ["fsdp", "parameter_server", "zero", "ddp", "fsdp", "parameter_server", "zero", "ddp", "fsdp",
         "parameter_server", "local_sgd"]


def settings(value, name=""):
    """Every option with its value, keyed by the dotted names that lead to it."""
    if isinstance(value, dict):
        return [s for key, part in value.items() for s in settings(part, f"{name}.{key}")]
    if isinstance(value, list):
        return [s for part in value for s in settings(part, name)]
    return [f"{name}={value}"]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    fuzzer = Fuzzer(sys.argv[1], int(sys.argv[3]))
    seen, kept = set(), 0
    while kept < int(sys.argv[2]):
        scenario = fuzzer.scenario()
        scenario["simulation"]["steps"] = 3
        strategy = scenario["strategies"][0]
        kind = strategy if isinstance(strategy, str) else next(iter(strategy))
        if kind != KINDS[kept % len(KINDS)]:
            continue
        pairs = set(itertools.combinations(sorted({*settings(scenario), kind}), 2))
        if len(pairs - seen) < NEW_PAIRS:
            continue
        begin = time.monotonic()
        _, code, rows, _ = fuzzer.run(scenario, "drawn.yaml")
        if code not in (0, 3) or time.monotonic() - begin > LONGEST:
            continue
        seen |= pairs
        kept += 1
        print(json.dumps(scenario))


if __name__ == "__main__":
    main()
