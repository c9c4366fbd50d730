# Sourced by .ci/run and .ci/nightly: steps that print how long they took, and the ends of test runs.

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

step_name= step_began=0
# step NAME: begins a step and prints how long the step before it took. Without a name: prints that
# only.
step() {
  if [[ -n $step_name ]]; then printf -- '-- %d s: %s\n' $((SECONDS - step_began)) "$step_name"; fi
  step_name=$* step_began=$SECONDS
  if [[ -n $step_name ]]; then printf '\n== %s\n' "$step_name"; fi
}

# slowest_tests REPORT: prints the 25 slowest tests of ctest's --output-junit.
slowest_tests() {
  python3 - "$1" <<'PYTHON'
import sys
import xml.etree.ElementTree as tree

tests = [(float(test.get("time") or 0), test.get("name")) for test in tree.parse(sys.argv[1]).iter("testcase")]
print(f"\nThe 25 slowest of {len(tests)} tests, {sum(seconds for seconds, _ in tests):.0f} s together:")
for seconds, name in sorted(tests, reverse=True)[:25]:
    print(f"{seconds:8.2f} s  {name}")
PYTHON
}

# test_with_report [CTEST OPTIONS]: runs `./lockstep test` and prints the slowest tests, the time of
# the step and, last, ctest's summary. Returns ctest's exit code.
test_with_report() {
  local folder status=0
  folder=$(mktemp -d)
  ./lockstep test --output-junit "$folder/tests.xml" "$@" |
    sed -u -e "/^[0-9]*% tests passed/,\${w $folder/summary" -e 'd}' || status=$?
  [[ ! -f $folder/tests.xml ]] || slowest_tests "$folder/tests.xml"
  step
  echo
  cat "$folder/summary"
  rm -r "$folder"
  return "$status"
}
