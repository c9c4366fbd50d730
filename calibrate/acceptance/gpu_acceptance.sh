#!/usr/bin/env bash
# Measures a machine and checks the predictions for it: builds everything, probes the device,
# calibrates models, really trains configurations that were not calibrated and compares them with
# predictions, runs several ranks, and writes a report and a profile. docs/gpu-acceptance.md
#   --device cpu|cuda:0   what to measure (default: cuda:0)
#   --output FOLDER       where profile/, real/, predicted/, logs/ and report.md go
#                         (default: build/acceptance/<device>)
#   --quick               few models, batches and steps: does everything work?
#   --stages LIST         some of build,probes,models,validate,ranks,report (default: all)
#   --models LIST, --precisions LIST   of the models and precisions that are measured, only these
#   --again               drop earlier results of what is chosen, with stage report all predictions;
#                         otherwise nothing is repeated
#   --time-limit SECONDS  end by then, report and archive included; a further call goes on
#   --unit-limit SECONDS  stop a single step that takes longer, and note it as failed
#                         (default: 300; 3600 on a CPU)
#   --archive FILE        what is worth keeping, packed (default: results.tar.gz in the output folder)
#   --resume FILE         start from such an archive; the output folder must be new or empty
#   --deps FOLDER         packages unpacked by calibrate/acceptance/collect_deps.sh, where nothing is installed
#   --list                only say what would run and what is there already
# LOCKSTEP_BUILD_DIR: where to build (default: build/acceptance/build).
# Exit codes: 0 everything chosen ran (report.md says how close it came), 1 something failed, 2 wrong
# option, 3 the time was used up: call again, 77 there is no such device, 130 interrupted.
set -euo pipefail
set -m # every step is a process group of its own, so that it can be stopped with its children

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
device=cuda:0 output='' deps='' quick=no stages=build,probes,models,validate,ranks,report
models='' precisions='' again=no time_limit=0 unit_limit='' archive='' resume='' list=no

say() { printf 'acceptance: %s\n' "$*" >&2; }
usage() {
  say "$1"
  sed -n '5,19s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
while (($#)); do
  case $1 in
    --quick | --again | --list) printf -v "${1#--}" yes ;;
    --device | --output | --deps | --stages | --models | --precisions | --time-limit | \
      --unit-limit | --archive | --resume)
      (($# > 1)) || usage "$1 needs a value"
      name=${1#--}
      printf -v "${name//-/_}" %s "$2"
      shift
      ;;
    *) usage "unknown option $1" ;;
  esac
  shift
done
[[ $device == cpu || $device =~ ^cuda(:[0-9]+)?$ ]] || usage "--device $device: cpu or cuda:0"
[[ -z $deps || -d $deps/usr ]] || usage "--deps $deps: not a folder made by calibrate/acceptance/collect_deps.sh"
for stage in ${stages//,/ }; do
  [[ " build probes models validate ranks report " == *" $stage "* ]] || usage "--stages: no stage '$stage'"
done
[[ $time_limit =~ ^[0-9]{1,6}$ ]] || usage "--time-limit $time_limit: whole seconds"
[[ ${unit_limit:-1} =~ ^[1-9][0-9]{0,5}$ ]] || usage "--unit-limit $unit_limit: whole seconds"
[[ -z $resume || -r $resume ]] || usage "--resume $resume: cannot be read"

# --- what is measured -----------------------------------------------------------------------------
if [[ $device == cpu ]]; then
  most_time='60 s' unit_limit=${unit_limit:-3600}
  all_models=(resnet50 densenet121 vgg16) calibrated=2,8 between=4 beyond=12 all_precisions=(fp32)
  others=(resnet18) steps=10 rank_counts=(2) rank_models=(resnet50) rank_batch=4
  [[ $quick == no ]] || {
    most_time='5 s'
    all_models=(lenet5) calibrated=8,32 between=16 beyond=64 others=() steps=20
    rank_models=(lenet5) rank_batch=16
  }
else
  most_time='20 s' unit_limit=${unit_limit:-300}
  all_models=(resnet50 densenet121 vgg16 gpt2 efficientnet_v2_l convnext_large) # small ones first
  calibrated=8,32 between=16 beyond=48 all_precisions=(fp32 amp-bf16 tf32 amp-fp16)
  others=(resnet101 vit_b_16) steps=30 rank_counts=(2 4) rank_models=(resnet50 gpt2) rank_batch=8
  [[ $quick == no ]] || {
    all_models=(resnet50 gpt2) all_precisions=(fp32 amp-bf16) others=() steps=15 rank_models=(resnet50)
  }
fi
for model in ${models//,/ }; do
  [[ " ${all_models[*]} ${others[*]} " == *" $model "* ]] ||
    usage "--models: '$model' is not measured here; allowed: ${all_models[*]} ${others[*]}"
done
for precision in ${precisions//,/ }; do
  [[ " ${all_precisions[*]} " == *" $precision "* ]] ||
    usage "--precisions: '$precision' is not measured here; allowed: ${all_precisions[*]}"
done
chosen_in() { [[ -z $1 || ",$1," == *",$2,"* ]]; }

# The plan: every unit is run once and leaves its result (real/NAME.json of real-NAME) or a mark in
# done/. In this order, so that what is there when time runs out is worth most: the two precisions
# that most train with before the others, and the calibration of a model beside its real runs.
plan=() wanted=()
declare -A stage_of model_of precision_of batch_of ranks_of strategy_of
unit() { # STAGE NAME [MODEL PRECISION [BATCH RANKS STRATEGY]]
  plan+=("$2")
  stage_of[$2]=$1 model_of[$2]=${3-} precision_of[$2]=${4-}
  batch_of[$2]=${5-} ranks_of[$2]=${6-} strategy_of[$2]=${7-}
  chosen_in "$stages" "$1" || return 0
  [[ -z ${3-} ]] || chosen_in "$models" "$3" || return 0
  [[ -z ${4-} ]] || chosen_in "$precisions" "$4" || return 0
  wanted+=("$2")
}
step_unit() { unit validate "real-step-$1-$2-$3-$4" "$2" "$3" "$4" 1 ddp; }
rank_units() { # MODEL RANKS
  local strategy
  [[ $device != cpu ]] || unit ranks "calibrate-ranks-$1-$2" "$1" fp32 "$rank_batch" "$2"
  for strategy in ddp fsdp ps-sync ps-async ps-ssp; do
    unit ranks "real-ranks-$strategy-$1-$2" "$1" fp32 "$rank_batch" "$2" "$strategy"
  done
}
make_plan() {
  local from model precision batch ranks first_ranks=${rank_models[0]}:${rank_counts[0]}
  if [[ $device == cpu ]]; then unit probes probes-collectives; else unit probes probes-device; fi
  for ((from = 0; from < ${#all_precisions[@]}; from += 2)); do
    local pair=("${all_precisions[@]:from:2}")
    for model in "${all_models[@]}"; do
      for precision in "${pair[@]}"; do
        unit models "calibrate-$model-$precision" "$model" "$precision"
      done
      for precision in "${pair[@]}"; do
        step_unit between "$model" "$precision" "$between"
        step_unit beyond "$model" "$precision" "$beyond"
        for batch in ${calibrated//,/ }; do step_unit calibrated "$model" "$precision" "$batch"; done
      done
    done
    ((from > 0)) || rank_units "${first_ranks%:*}" "${first_ranks#*:}"
    for model in "${others[@]}"; do
      for precision in "${pair[@]}"; do step_unit other "$model" "$precision" "$between"; done
    done
  done
  for model in "${rank_models[@]}"; do
    for ranks in "${rank_counts[@]}"; do
      [[ $model:$ranks == "$first_ranks" ]] || rank_units "$model" "$ranks"
    done
  done
}
make_plan

# --- folders, notes and the archive ---------------------------------------------------------------
output=${output:-$root/build/acceptance/${device//:/}}
build=${LOCKSTEP_BUILD_DIR:-$root/build/acceptance/build}
[[ $build == /* ]] || build=$PWD/$build
noted() { grep -qxF -- "$2" "$output/$1" 2>/dev/null; }
is_there() {
  case $1 in
    real-*) [[ -s $output/real/${1#real-}.json ]] ;;
    *) [[ -e $output/done/$1 ]] ;;
  esac
}
if [[ $list == yes ]]; then
  for name in "${wanted[@]}"; do
    if is_there "$name"; then state=there; elif noted failed "$name"; then state=failed; else state=left; fi
    printf '%-7s %s\n' "$state" "$name"
  done
  exit 0
fi
mkdir -p "$output"
output=$(cd "$output" && pwd)
if [[ -n $resume ]]; then
  [[ -z $(ls -A "$output") ]] || usage "--resume: $output is not empty"
  tar -xzf "$resume" -C "$output" || usage "--resume $resume: cannot be unpacked"
fi
mkdir -p "$output"/{profile,real,predicted,scenarios,logs,done}
touch "$output/failed" "$output/cut"
archive=${archive:-$output/results.tar.gz}
[[ $archive == /* ]] || archive=$PWD/$archive
[[ -z $deps ]] || deps=$(cd "$deps" && pwd)
profile=$output/profile
lockstep=$build/sim/cli/lockstep
calibrate=$build/calibrate/cli/lockstep-calibrate
probe=$build/calibrate/cuda/lockstep-calibrate-cuda
export LOCKSTEP_DATA=$root
[[ -z $deps ]] || export LD_LIBRARY_PATH=$deps/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# Results of two kinds of run, or of two machines, must not get mixed up.
settings="device: $device, quick: $quick"
if [[ -s $output/settings ]]; then
  [[ $(<"$output/settings") == "$settings" ]] ||
    usage "$output holds results of '$(<"$output/settings")', this is '$settings': another --output"
else
  echo "$settings" >"$output/settings"
fi
printf '%s\n' "${plan[@]}" >"$output/plan"

note() { grep -qxF -- "$2" "$output/$1" || echo "$2" >>"$output/$1"; }
unnote() {
  grep -vxF -- "$2" "$output/$1" >"$output/$1.part" || true
  mv "$output/$1.part" "$output/$1"
}
pack() {
  local name kept=() large=()
  for name in "$output"/{settings,machine,plan,failed,cut,done,report.md,real,predicted,scenarios,logs} "$profile"*; do
    [[ ! -e $name ]] || kept+=("${name##*/}")
  done
  mapfile -t large < <(cd "$output" && find logs -type f -size +256k -printf '--exclude=%p\n')
  if tar -C "$output" -czf "$archive.part" "${large[@]}" "${kept[@]}"; then
    mv "$archive.part" "$archive"
  else
    say "$archive could not be written; the results are in $output"
  fi
}

if [[ $again == yes ]]; then
  for name in "${wanted[@]}"; do
    rm -f "$output/done/$name" "$output/real/${name#real-}.json"
    unnote failed "$name"
    unnote cut "$name"
  done
fi

# --- running a step, for no longer than it may take ------------------------------------------------
# What is kept for the report and the archive at the end of a limited time.
reserve=$((time_limit / 6 < 20 ? time_limit / 6 : 20))
time_left() { echo $((time_limit > 0 ? time_limit - reserve - SECONDS : 1000000)); }
child='' stopped=''
stop() {
  stopped=$1
  [[ -z $child ]] || kill -TERM -- "-$child" 2>/dev/null || true
}
trap 'stop INT' INT
trap 'stop TERM' TERM

# attempt NAME RESULT LIMIT COMMAND...: output to logs/NAME.log, or standard output to RESULT. Returns
# 0, the command's code (noted as a failure by the caller), or 3: cut by the end of the time.
attempt() {
  local name=$1 result=$2 limit=$3 start=$SECONDS code=0 own=no watchdog log=$output/logs/$1.log
  shift 3
  if ((limit <= $(time_left))); then own=yes; else limit=$(time_left); fi
  ((limit > 0)) || return 3
  if [[ -n $result ]]; then
    "$@" >"$result.part" 2>"$log" </dev/null &
  else
    "$@" >"$log" 2>&1 </dev/null &
  fi
  child=$!
  (
    sleep "$limit"
    kill -TERM -- "-$child"
    sleep 10
    kill -KILL -- "-$child"
  ) >/dev/null 2>&1 </dev/null &
  watchdog=$!
  # A signal for the script, which it passed on, ends a wait early.
  wait "$child" 2>/dev/null || code=$?
  while kill -0 "$child" 2>/dev/null; do
    code=0
    wait "$child" 2>/dev/null || code=$?
  done
  child=''
  kill -KILL -- "-$watchdog" 2>/dev/null || true
  wait "$watchdog" 2>/dev/null || true
  if ((code == 0)); then
    [[ -z $result ]] || mv "$result.part" "$result"
    say "$name: $((SECONDS - start)) s"
    return 0
  fi
  [[ -z $result ]] || rm -f "$result.part"
  if [[ -n $stopped ]] || { [[ $own == no ]] && ((SECONDS - start >= limit)); }; then
    say "$name: cut off after $((SECONDS - start)) s"
    return 3
  fi
  ((SECONDS - start < limit)) || echo "stopped: it took longer than $limit s" >>"$log"
  say "$name FAILED with $code after $((SECONDS - start)) s, the end of its log:"
  tail -n 5 "$log" >&2
  ((code != 3)) || code=1
  return "$code"
}

build_everything() {
  local torch prefix options=()
  torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null) || torch=
  # The folder above share/cmake too: else CMake takes a libtorch.so of the system for this one's.
  prefix=${torch:+$torch;${torch%/share/cmake}}
  if [[ -n $torch ]]; then say "LibTorch of python3: $torch"; else say "no PyTorch in python3; looking for an installed LibTorch"; fi
  if [[ -n $deps ]]; then
    local cmake=$deps/usr/lib/x86_64-linux-gnu/cmake
    prefix="$deps/usr${prefix:+;$prefix}"
    # By name: on systems that are no Debian, CMake does not look in lib/x86_64-linux-gnu.
    options+=("-Dfmt_DIR=$cmake/fmt" "-Dyaml-cpp_DIR=$cmake/yaml-cpp"
      "-DSimGrid_INCLUDE_DIR=$deps/usr/include"
      "-DSimGrid_LIBRARY=$deps/usr/lib/x86_64-linux-gnu/libsimgrid.so"
      "-DLOCKSTEP_GLOO_INCLUDE=$deps/usr/include"
      "-DCMAKE_EXE_LINKER_FLAGS=-Wl,-rpath-link,$deps/usr/lib/x86_64-linux-gnu")
  fi
  local targets=(lockstep lockstep-calibrate)
  if [[ $device != cpu ]]; then
    options+=(-DLOCKSTEP_CUDA=ON)
    targets+=(lockstep-calibrate-cuda)
    # NCCL and cuDNN of the wheels, where the toolkit has none.
    local packages
    packages=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || packages=
    [[ -z $packages ]] || prefix="$prefix;$packages/nccl;$packages/cudnn"
  fi
  if command -v ninja >/dev/null; then options+=(-G Ninja); fi
  if command -v ccache >/dev/null; then
    options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  # Explicitly: `set -e` does not hold in a function that is asked for its result.
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=OFF \
    -DLOCKSTEP_TORCH=ON "-DCMAKE_PREFIX_PATH=$prefix" "${options[@]}" || return
  cmake --build "$build" -j "${LOCKSTEP_JOBS:-$(nproc)}" --target "${targets[@]}" || return
  # The programs alone, for a further machine with the same software at the same place.
  local programs=(sim/cli/lockstep calibrate/cli/lockstep-calibrate)
  [[ $device == cpu ]] || programs+=(calibrate/cuda/lockstep-calibrate-cuda)
  tar -C "$build" -czf "$output/programs.tar.gz" "${programs[@]}"
}

# Ends the script where there is no such device, or another one than the results here are of.
check_machine() {
  local machine code=0
  if [[ $device == cpu ]]; then
    machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -1)
    machine="${machine:-$(uname -m)}, $(nproc) cores"
  else
    [[ -x $probe ]] || {
      say "$probe is not there (stage build)"
      exit 1
    }
    "$probe" --device "$device" --probes memory --json >"$output/logs/device.json" 2>"$output/logs/device.log" || code=$?
    machine=$(sed -n 's/^ *"title": *"\(.*\)",\{0,1\}$/\1/p' "$output/logs/device.json" | head -1)
    if ((code == 77)) || [[ -z $machine ]]; then
      cat "$output/logs/device.log" >&2
      ((code == 77)) || code=1
      exit "$code"
    fi
  fi
  if [[ -s $output/machine && $(<"$output/machine") != "$machine" ]]; then
    say "$output holds results of '$(<"$output/machine")', this is '$machine': another --output"
    exit 2
  fi
  echo "$machine" >"$output/machine"
}

# The device file that the profile is for: the GPU probes found the one that fits.
find_device_file() {
  device_file=cpu-core
  [[ $device != cpu ]] || return 0
  device_file=$(sed -n 's/^device: *"\{0,1\}\([^"]*\)"\{0,1\} *$/\1/p' "$profile/profile.yaml" 2>/dev/null | head -1)
  [[ -n $device_file ]]
}

# --- the units ------------------------------------------------------------------------------------
# run_units NAME...: one unit, or several calibrations of one model, which share what is measured
# once for all. Their log has the first one's name.
run_units() {
  local name=$1 list='' other result='' command limit=$((unit_limit * $#))
  case ${stage_of[$1]}:$1 in
    probes:*)
      local fast=()
      limit=$((2 * unit_limit)) # hundreds of figures
      if [[ $device == cpu ]]; then
        command=("$calibrate" calibrate collectives --ranks 2
          --sizes "$([[ $quick == yes ]] && echo 64KiB,1MiB || echo 4KiB..64MiB)" -o "$profile")
      else
        [[ $quick == no ]] || fast=(--quick)
        command=("$probe" --device "$device" -o "$profile" "${fast[@]}")
      fi
      ;;
    models:*)
      for other in "$@"; do list+=,${precision_of[$other]}; done
      command=("$calibrate" calibrate --device "$device" --as "$device_file" --models "${model_of[$1]}"
        --batches "$calibrated" --precisions "${list#,}" --most-time "$most_time" -o "$profile")
      ;;
    ranks:calibrate-*)
      # Ranks of one machine share its memory: layers measured so, and the rest as it is known.
      local folder=$profile-ranks-${ranks_of[$1]}
      mkdir -p "$folder"
      [[ -s $folder/profile.yaml || ! -s $profile/profile.yaml ]] ||
        cp "$profile/profile.yaml" "$folder/profile.yaml"
      command=("$calibrate" calibrate --device "$device" --as cpu-core --ranks "${ranks_of[$1]}"
        --models "${model_of[$1]}" --batches "${batch_of[$1]}" --precisions "${precision_of[$1]}"
        --most-time "$most_time" -o "$folder")
      ;;
    *)
      result=$output/real/${1#real-}.json
      command=("$calibrate" train --strategy "${strategy_of[$1]}" --ranks "${ranks_of[$1]}"
        --model "${model_of[$1]}" --precision "${precision_of[$1]}" --batch "${batch_of[$1]}"
        --device "$device" --optimizer sgd --momentum 0.9 --steps "$steps" --json)
      ;;
  esac
  local code=0 start=$SECONDS
  attempt "$name" "$result" "$limit" "${command[@]}" || code=$?
  for other in "$@"; do
    unnote cut "$other"
    if ((code == 0)); then
      unnote failed "$other"
      [[ -n $result ]] || touch "$output/done/$other"
    elif ((code != 3)); then
      note failed "$other"
    elif noted failed "$other"; then
      : # ... and not left again: calls until nothing is left must come to an end
    elif [[ -z $stopped && $# == 1 ]] && ((4 * (SECONDS - start) >= 3 * (time_limit - reserve))); then
      # What does not end with nearly all of a call's time will not in the next call.
      say "$other FAILED: nearly all of $time_limit s was not enough"
      note failed "$other"
    else
      note cut "$other"
    fi
  done
  return "$code"
}

left=0 out_of_time=no
run_plan() {
  local name fresh=() tried=() queue=() seconds start n i
  declare -A longest # of a unit of each stage, in this call
  for name in "${wanted[@]}"; do
    ! is_there "$name" || continue
    # What failed or did not end before comes last, but nothing goes without a profile.
    if { noted failed "$name" || noted cut "$name"; } && [[ $name != probes-* || -s $profile/profile.yaml ]]; then
      tried+=("$name")
    else
      fresh+=("$name")
    fi
  done
  say "$((${#wanted[@]} - ${#fresh[@]} - ${#tried[@]})) of ${#wanted[@]} units are there already"
  queue=("${fresh[@]}" "${tried[@]}")
  ((${#queue[@]} == 0)) || check_machine
  for ((i = 0; i < ${#queue[@]}; i += n)); do
    name=${queue[i]} n=1
    local stage=${stage_of[$name]}
    if [[ $stage == models ]]; then
      find_device_file || {
        say "no profile of a device in $profile yet (stage probes)"
        note failed "$name"
        continue
      }
      # Repeated one by one, so that one that fails does not take the others along.
      while ((i + n < ${#fresh[@]})) && [[ ${stage_of[${queue[i + n]}]} == models &&
        ${model_of[${queue[i + n]}]} == "${model_of[$name]}" ]]; do n=$((n + 1)); done
    fi
    seconds=${longest[$stage]:-0}
    while ((n > 1 && n * seconds > $(time_left))); do n=$((n - 1)); done
    if [[ -n $stopped ]] || (($(time_left) <= 0 || seconds > $(time_left))); then
      out_of_time=yes
      break
    fi
    start=$SECONDS
    run_units "${queue[@]:i:n}" || true
    seconds=$(((SECONDS - start + n - 1) / n))
    ((seconds <= ${longest[$stage]:-0})) || longest[$stage]=$seconds
    # Should the machine be taken away without notice, a minute is lost.
    ((SECONDS - packed < 60)) || {
      pack
      packed=$SECONDS
    }
  done
}

# --- predictions: they need no device, and are made from the profile as it is in the end ----------
# A machine with one such device. Not without a profile: figures of the device models are no test.
write_platform() {
  [[ -s $profile/profile.yaml ]] || return 1
  find_device_file || return 1
  platform=cpu-loopback-x2 framework=''
  [[ $device != cpu ]] || return 0
  platform=platform.yaml
  # Host time as `host:` in the profile has it: of a launch from the device probes, of an operator
  # from calibrate. Not measured, an operator costs what a backward one does by default, 41 % of
  # 25 us, in both directions: the real runs are C++ in both, and backward ones always were.
  local launch forward backward
  launch=$(host_time launch) forward=$(host_time operator) backward=$(host_time backward_operator)
  framework='{operator_seconds: 10.25 us, backward_share: 100%}'
  [[ -z $forward ]] || framework=$(awk -v f="$forward" -v b="${backward:-$forward}" \
    'BEGIN { printf "{operator_seconds: %.6g s, backward_share: %.6g%%}", f, 100 * b / f }')
  printf '%s\n' "title: one $device_file" "device: $device_file" "pcie: {generation: 5}" \
    "host: {vendor: intel, sockets: 1, cores: 16, memory: 128 GB, memory_bandwidth: 200 GB/s${launch:+, launch: $launch s}}" \
    "sources:" "  pcie: not measured, a single GPU does not use it in a step" \
    "  host: but for launch not measured, as above${launch:+; launch by lockstep-calibrate-cuda}" \
    >"$output/scenarios/platform.yaml"
}
# host_time KEY: seconds from the profile's host block, written in lines or in braces; nothing for 0.
host_time() {
  sed -n '/^host:/,/^[a-z]/p' "$profile/profile.yaml" | tr '{},' '[\n*]' |
    awk -v key="$1:" 'BEGIN { unit["s"] = 1; unit["ms"] = 1e-3; unit["us"] = 1e-6; unit["ns"] = 1e-9 }
      $1 == key && $3 in unit && $2 > 0 { printf "%.9g\n", $2 * unit[$3]; exit }'
}
predict_all() {
  local name real model strategy as wrap measured missed=0
  [[ -x $lockstep ]] || {
    say "$lockstep is not there (stage build); predictions stay as they are"
    return 0
  }
  write_platform || {
    say "no profile in $profile: no predictions"
    return 0
  }
  for name in "${plan[@]}"; do
    [[ $name == real-* ]] || continue
    is_there "$name" || continue
    # Several ranks on one GPU are no machine that the simulator knows; on CPUs they are.
    [[ $device == cpu || ${ranks_of[$name]} == 1 ]] || continue
    real=$name name=${name#real-} model=${model_of[$real]} strategy=${strategy_of[$real]}
    measured=profile-ranks-${ranks_of[$real]}
    [[ -s $output/$measured/profile.yaml ]] || measured=profile
    [[ $again == yes || ! -s $output/predicted/$name.json ||
      $output/$measured/profile.yaml -nt $output/predicted/$name.json ]] || continue
    if [[ -n $stopped ]] || ((time_limit > 0 && SECONDS >= time_limit - 2)); then
      missed=$((missed + 1))
      continue
    fi
    # As docs/closed-loop.md describes the real runs; LeNet-5 has no repeated blocks. They have their
    # random batch on the device, and LibTorch's optimizer loops over tensors.
    [[ $model == lenet5 ]] && wrap=none || wrap=block
    case $strategy in
      ps-*) as="{parameter_server: {consistency: ${strategy#ps-}, serial: true}}" ;;
      fsdp) as="{fsdp: {version: 1, wrap: {policy: $wrap}}}" ;;
      *) as=$strategy ;;
    esac
    # Relative paths: the archive is unpacked elsewhere.
    printf '%s\n' "name: $name" "model: $model" "precision: ${precision_of[$real]}" \
      "batch: {per_gpu: ${batch_of[$real]}}" "dataset: {samples: 1000000}" "platform: $platform" \
      "profile: ../$measured" "gpus: [${ranks_of[$real]}]" \
      "optimizer: {name: sgd, momentum: 0.9, implementation: for-loop}" \
      "data_loading: {on_device: true}" ${framework:+"framework: $framework"} \
      "strategies: [$as]" >"$output/scenarios/$name.yaml"
    unnote failed "predicted-$name"
    if "$lockstep" run "$output/scenarios/$name.yaml" --json >"$output/predicted/$name.json.part" \
      2>"$output/logs/predicted-$name.log"; then
      mv "$output/predicted/$name.json"{.part,}
    else
      say "predicted-$name FAILED: $(tail -n 2 "$output/logs/predicted-$name.log")"
      rm -f "$output/predicted/$name.json"{.part,}
      note failed "predicted-$name"
    fi
  done
  ((missed == 0)) || {
    say "$missed predictions left"
    out_of_time=yes
  }
}

packed=$SECONDS
if chosen_in "$stages" build; then
  say "== build"
  code=0
  attempt build '' $((unit_limit > 3600 ? unit_limit : 3600)) build_everything || code=$?
  unnote failed build
  if ((code == 3)); then
    pack
    [[ -z $stopped ]] || exit 130
    say "the build is not over; call again"
    exit 3
  fi
  if ((code != 0)); then
    note failed build
    pack
    exit 1
  fi
fi
run_plan
for name in "${wanted[@]}"; do
  is_there "$name" || noted failed "$name" || left=$((left + 1))
done
if chosen_in "$stages" report; then
  say "== report"
  predict_all
  if python3 "$root/calibrate/acceptance/acceptance_report.py" "$output" >"$output/report.md.part"; then
    mv "$output/report.md"{.part,}
    cat "$output/report.md"
    unnote failed report
  else
    note failed report
  fi
fi
pack
[[ ! -s $output/failed ]] || say "failed: $(paste -sd ' ' "$output/failed")"
say "$output; packed: $archive"
[[ -z $stopped ]] || exit 130
if ((left > 0)) || [[ $out_of_time == yes && ! -s $output/failed ]]; then
  say "$left units left; call again"
  exit 3
fi
[[ ! -s $output/failed ]] || exit 1
say "everything chosen is there"
