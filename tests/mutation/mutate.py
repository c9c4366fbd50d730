#!/usr/bin/env python3
"""Do the tests notice if a single line of the simulator is broken?

usage: mutate.py [--count 30] [--least 27] [--seed 1] [--rooms strategies costs memory engine] [--build DIR] [--quick] [--list]

A hash spreads the lines over the rooms: the same seed breaks the same lines as long as the lines do not change. Each
line is broken in one way (a sign, a factor, a comparison, an off-by-one, a dropped call), built in a build folder of its
own on a copy of the sources, and tested until the first failure. A mutant that does not compile, or compiles to the
same machine code, is replaced by the next line. The output has one line per mutant; exit code 1 if fewer than --least
mutants were caught.
"""
import argparse, hashlib, os, pathlib, re, shutil, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# (pattern, replacement, kind of change). A line's hash gives the first pattern to try; the first one that matches applies.
BREAKS = [
    (r" \+ ", " - ", "sign"), (r" - ", " + ", "sign"), (r" \* ", " / ", "factor"), (r" / ", " * ", "factor"),
    (r" \+= ", " -= ", "sign"), (r" -= ", " += ", "sign"),
    (r" < ", " <= ", "off by one"), (r" <= ", " < ", "off by one"), (r" >= ", " > ", "off by one"),
    (r" > ", " >= ", "off by one"), (r" == ", " != ", "comparison"), (r" != ", " == ", "comparison"),
    (r"std::max\(", "std::min(", "extreme"), (r"std::min\(", "std::max(", "extreme"),
    (r" && ", " || ", "logic"), (r" \|\| ", " && ", "logic"),
    (r"\b([2-9])\b(?![.'\"])", lambda m: str(int(m.group(1)) + 1), "constant"),
    (r"\b(?!0\.0\b)(\d+\.\d+|\d+e-?\d+)\b", lambda m: f"(2 * {m.group(1)})", "constant"),
    (r"^(\s+)[\w.\->\[\]():]+\(.*\);$", r"\1;", "dropped call"),
    (r"^(\s+)co_await .*;$", r"\1;", "dropped wait"),
]
NOT_CODE = re.compile(r"^\s*(//|#|\*|using |namespace |template|static_assert|assert\(|throw |\}|struct |class |enum )|"
                      r"<<|>>|operator|std::function|logic_error|fmt::format|const auto&|\"")


def digest(*what):
    return int.from_bytes(hashlib.sha256("\0".join(map(str, what)).encode()).digest()[:8], "big")


def broken_lines(rooms, seed):
    """All (order, file, line number, old, new, kind), in the order in which they are tested."""
    found = []
    for room in rooms:
        for file in sorted((ROOT / "sim" / room).rglob("*.cpp")):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                if NOT_CODE.search(line) or not line.startswith("  "):
                    continue
                order = digest(seed, file.name, line.strip())
                for i in range(len(BREAKS)):
                    pattern, replacement, kind = BREAKS[(order + i) % len(BREAKS)]
                    new = re.sub(pattern, replacement, line, count=1)
                    if new != line:
                        found.append((order, file.relative_to(ROOT), number, line, new, kind))
                        break
    return sorted(found, key=lambda f: f[0])


def run(command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


def compiled(build, name):
    """The object file of a source sim/ROOM/..."""
    [found] = build.glob(f"sim/{name.parts[1]}/CMakeFiles/*.dir/{pathlib.Path(*name.parts[2:])}.o")
    return found


def whole(program, environment):
    """The first test that fails if all of the program's tests run in one process; empty if none fails."""
    # Tests start processes of their own; `timeout` also ends these.
    tested = run(["timeout", "--kill-after=5", "300", str(program), "--gtest_fail_fast", "--gtest_brief=1"],
                 env=environment)
    if tested.returncode in (124, 137):
        return f"{program.name} (no end)"
    named = re.search(r"\[  FAILED  \] ([\w/.]+)", tested.stdout)
    return (named.group(1) if named else f"{program.name} (exit {tested.returncode})") if tested.returncode else ""


def first_failure(programs, build, environment, quick):
    """The first test that fails; empty if none fails. Whole programs run first, because they are quick; then all of ctest's entries."""
    for program in programs:
        if failure := whole(program, environment):
            return failure
    tested = run(["ctest", "--test-dir", str(build), "--stop-on-failure", "-j", str(os.cpu_count()),
                  *(["--label-exclude", "slow"] if quick else [])], env=environment)
    named = re.search(r"^\s*\d+ - (\S+) \(", tested.stdout, re.M)
    return (named.group(1) if named else "ctest") if tested.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--least", type=int, default=27)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", nargs="+", default=["strategies", "costs", "memory", "engine"])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--quick", action="store_true", help="without the tests labelled slow")
    parser.add_argument("--list", action="store_true", help="only print what would be broken")
    options = parser.parse_args()

    lines = broken_lines(options.rooms, options.seed)
    if options.list:
        for _, file, number, old, new, kind in lines[:options.count]:
            print(f"{file}:{number}: {kind}: {old.strip()}  ->  {new.strip()}")
        return 0

    # The copy has the layout of a checkout, so that a compiler cache has the unbroken sources.
    sources = options.build
    build = sources / "build" / "dev"
    shutil.rmtree(sources, ignore_errors=True)
    tracked = run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]).stdout.splitlines()
    for name in tracked:
        if (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, sources / name)
    environment = {**os.environ, "LOCKSTEP_DATA": str(sources), "OMP_NUM_THREADS": "1", "RC_PARAMS": "seed=20261122"}
    configured = run(["cmake", "-S", str(sources), "-B", str(build), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                      "-DLOCKSTEP_TESTS=ON"])
    if configured.returncode or run(["cmake", "--build", str(build)]).returncode:
        sys.exit("the unbroken tree does not build")
    # Some programs have tests that need a process each, so these run under ctest only.
    programs = [p for p in sorted((build / "tests").glob("*/*_tests")) if not whole(p, environment)]
    if failure := first_failure([], build, environment, options.quick):
        sys.exit(f"on the unbroken tree {failure} fails")

    code = {name: compiled(build, name).read_bytes() for name in {line[1] for line in lines}}

    caught = tried = 0
    for _, name, number, old, new, kind in lines:
        if tried == options.count:
            break
        file = sources / name
        unbroken = file.read_text()
        text = unbroken.splitlines(keepends=True)
        text[number - 1] = new + "\n"
        file.write_text("".join(text))
        begin = time.monotonic()
        try:
            if run(["cmake", "--build", str(build)]).returncode or compiled(build, name).read_bytes() == code[name]:
                continue
            tried += 1
            of_room_first = sorted(programs, key=lambda program: program.parent.name != name.parts[1])
            failure = first_failure(of_room_first, build, environment, options.quick)
            caught += bool(failure)
            verdict = f"caught by {failure}" if failure else "NOT CAUGHT"
        finally:
            file.write_text(unbroken)
        print(f"{tried:2} {name}:{number}: {kind}: `{old.strip()}` -> `{new.strip()}`: {verdict} "
              f"({time.monotonic() - begin:.0f} s)", flush=True)
    print(f"{caught} of {tried} mutants caught")
    return 0 if caught >= options.least * tried / options.count else 1


if __name__ == "__main__":
    sys.exit(main())
