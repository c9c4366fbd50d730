#!/usr/bin/env bash
# Measures a machine and checks the predictions for it: builds everything, probes the device,
# calibrates models, really trains configurations that were not calibrated and compares them with
# predictions, runs several ranks, and writes a report and a profile. docs/gpu-acceptance.md
#   --device cpu|cuda:0   what to measure (default: cuda:0)
#   --output FOLDER       where profile/, real/, predicted/, logs/ and report.md go
#                         (default: build/acceptance/<device>)
#   --deps FOLDER         packages unpacked by calibrate/collect_deps.sh, where nothing is installed
#   --quick               few models, batches and steps: does everything work?
#   --stages LIST         some of build,probes,models,validate,ranks,report (default: all); results
#                         of earlier calls stay, so that a long run may be cut in pieces
# LOCKSTEP_BUILD_DIR: where to build (default: build/acceptance/build).
# Exit codes: 0 everything ran (report.md says how close it came), 1 something did not, 2 wrong
# option, 77 there is no such device.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
device=cuda:0 output= deps= quick=no stages=build,probes,models,validate,ranks,report

say() { printf 'acceptance: %s\n' "$*" >&2; }
usage() {
  say "$1"
  sed -n '5,12s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
while (($#)); do
  case $1 in
    --quick) quick=yes ;;
    --device | --output | --deps | --stages)
      (($# > 1)) || usage "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    *) usage "unknown option $1" ;;
  esac
  shift
done
[[ $device == cpu || $device =~ ^cuda(:[0-9]+)?$ ]] || usage "--device $device: cpu or cuda:0"
[[ -z $deps || -d $deps/usr ]] || usage "--deps $deps: not a folder made by calibrate/collect_deps.sh"
for stage in ${stages//,/ }; do
  [[ " build probes models validate ranks report " == *" $stage "* ]] || usage "--stages: no stage '$stage'"
done
output=${output:-$root/build/acceptance/${device//:/}}
build=${LOCKSTEP_BUILD_DIR:-$root/build/acceptance/build}
mkdir -p "$output"/{profile,real,predicted,scenarios,logs}
output=$(cd "$output" && pwd)
[[ -z $deps ]] || deps=$(cd "$deps" && pwd)
profile=$output/profile
lockstep=$build/sim/cli/lockstep
calibrate=$build/calibrate/cli/lockstep-calibrate
probe=$build/calibrate/cuda/lockstep-calibrate-cuda
export LOCKSTEP_DATA=$root
[[ -z $deps ]] || export LD_LIBRARY_PATH=$deps/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# attempt NAME COMMAND...: output to logs/NAME.log; a failure is noted and the rest goes on.
attempt() {
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$output/logs/$name.log" 2>&1; then
    say "$name: $((SECONDS - start)) s"
    sed -i "/^$name\$/d" "$output/failed"
  else
    local code=$?
    say "$name FAILED with $code after $((SECONDS - start)) s, the end of its log:"
    tail -n 5 "$output/logs/$name.log" >&2
    grep -qxF "$name" "$output/failed" || echo "$name" >>"$output/failed"
  fi
}
# attempt_json NAME FOLDER COMMAND...: the same; standard output goes to FOLDER/NAME.json.
attempt_json() {
  local name=$1 folder=$2
  shift 2
  # shellcheck disable=SC2016
  attempt "$folder-$name" bash -c 'file=$1; shift; "$@" >"$file.part" && mv "$file.part" "$file" || { code=$?; rm -f "$file.part"; exit $code; }' \
    _ "$output/$folder/$name.json" "$@"
}
touch "$output/failed"

# --- what is measured -----------------------------------------------------------------------------
if [[ $device == cpu ]]; then
  most_time='60 s'
  models=(vgg16 resnet50 densenet121) calibrated=2,8 between=4 beyond=12 precisions=(fp32)
  others=(resnet18) steps=10 rank_counts=(2) rank_models=(resnet50) rank_batch=4
  [[ $quick == no ]] || {
    most_time='5 s'
    models=(lenet5) calibrated=8,32 between=16 beyond=64 others=() steps=20
    rank_models=(lenet5) rank_batch=16
  }
else
  most_time='20 s'
  models=(vgg16 resnet50 densenet121 efficientnet_v2_l convnext_large gpt2)
  calibrated=8,32 between=16 beyond=48 precisions=(fp32 tf32 amp-fp16 amp-bf16)
  others=(resnet101 vit_b_16) steps=30 rank_counts=(2 4) rank_models=(resnet50 gpt2) rank_batch=8
  [[ $quick == no ]] || {
    models=(resnet50 gpt2) precisions=(fp32 amp-bf16) others=() steps=15 rank_models=(resnet50)
  }
fi

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
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=OFF \
    -DLOCKSTEP_TORCH=ON "-DCMAKE_PREFIX_PATH=$prefix" "${options[@]}"
  cmake --build "$build" -j "${LOCKSTEP_JOBS:-$(nproc)}" --target "${targets[@]}"
}

# The device file that the profile is for: the GPU probes found the one that fits.
find_device_file() {
  device_file=cpu-core
  [[ $device != cpu ]] || return 0
  device_file=$(sed -n 's/^device: *"\{0,1\}\([^"]*\)"\{0,1\} *$/\1/p' "$profile/profile.yaml" 2>/dev/null | head -1)
  [[ -n $device_file ]] || {
    say "no profile of a device in $profile yet (stage probes)"
    return 1
  }
}
# A machine with one such device.
write_platform() {
  find_device_file || return 1
  if [[ $device == cpu ]]; then
    platform=cpu-loopback-x2
  else
    platform=$output/scenarios/platform.yaml
    printf '%s\n' "title: one $device_file" "device: $device_file" "pcie: {generation: 5}" \
      "host: {vendor: intel, sockets: 1, cores: $(nproc), memory: 128 GB, memory_bandwidth: 200 GB/s}" \
      "sources:" "  pcie: not measured, a single GPU does not use it in a step" \
      "  host: not measured, as above" >"$platform"
  fi
}

# predict NAME MODEL PRECISION BATCH RANKS STRATEGY: predicted/NAME.json
predict() {
  local name=$1 scenario=$output/scenarios/$1.yaml
  # The real runs have their random batch on the device, and LibTorch's optimizer loops over tensors.
  printf '%s\n' "name: $name" "model: $2" "precision: $3" "batch: {per_gpu: $4}" \
    "dataset: {samples: 1000000}" "platform: $platform" "profile: $profile" "gpus: [$5]" \
    "optimizer: {name: sgd, momentum: 0.9, implementation: for-loop}" \
    "data_loading: {on_device: true}" "strategies: [$6]" >"$scenario"
  attempt_json "$name" predicted "$lockstep" run "$scenario" --json
}
# train NAME MODEL PRECISION BATCH RANKS STRATEGY: real/NAME.json
train() {
  attempt_json "$1" real "$calibrate" train --strategy "$6" --ranks "$5" --model "$2" \
    --precision "$3" --batch "$4" --device "$device" --optimizer sgd --momentum 0.9 \
    --steps "$steps" --json
}

for stage in ${stages//,/ }; do
  say "== $stage"
  case $stage in
    build)
      attempt build build_everything
      ! grep -qxF build "$output/failed" || exit 1
      ;;
    probes)
      if [[ $device == cpu ]]; then
        attempt probes-collectives "$calibrate" collectives --ranks 2 -o "$profile" \
          --sizes "$([[ $quick == yes ]] && echo 64KiB,1MiB || echo 4KiB..64MiB)"
      else
        code=0
        "$probe" --device "$device" --probes memory >"$output/logs/device.log" 2>&1 || code=$?
        if ((code == 77)); then
          cat "$output/logs/device.log" >&2
          exit 77
        fi
        [[ $quick == no ]] && fast=() || fast=(--quick)
        attempt probes-device "$probe" --device "$device" -o "$profile" "${fast[@]}"
      fi
      ;;
    models)
      find_device_file || exit 1
      for model in "${models[@]}"; do
        for precision in "${precisions[@]}"; do
          attempt "calibrate-$model-$precision" "$calibrate" calibrate --device "$device" \
            --as "$device_file" --models "$model" --batches "$calibrated" --precisions "$precision" \
            --most-time "$most_time" -o "$profile"
        done
      done
      ;;
    validate)
      write_platform || exit 1
      for precision in "${precisions[@]}"; do
        for model in "${models[@]}"; do
          for batch in ${calibrated//,/ } $between $beyond; do
            kind=calibrated
            ((batch != between)) || kind=between
            ((batch != beyond)) || kind=beyond
            train "step-$kind-$model-$precision-$batch" "$model" "$precision" "$batch" 1 ddp
            predict "step-$kind-$model-$precision-$batch" "$model" "$precision" "$batch" 1 ddp
          done
        done
        for model in "${others[@]}"; do
          train "step-other-$model-$precision-$between" "$model" "$precision" "$between" 1 ddp
          predict "step-other-$model-$precision-$between" "$model" "$precision" "$between" 1 ddp
        done
      done
      ;;
    ranks)
      write_platform || exit 1
      for model in "${rank_models[@]}"; do
        for ranks in "${rank_counts[@]}"; do
          for strategy in ddp fsdp ps-sync ps-async ps-ssp; do
            name=ranks-$strategy-$model-$ranks
            train "$name" "$model" fp32 "$rank_batch" "$ranks" "$strategy"
            # Several ranks on one GPU are no machine that the simulator knows; on CPUs they are.
            [[ $device == cpu ]] || continue
            # As docs/closed-loop.md describes the real runs; LeNet-5 has no repeated blocks.
            [[ $model == lenet5 ]] && wrap=none || wrap=block
            case $strategy in
              ps-*) as="{parameter_server: {consistency: ${strategy#ps-}, serial: true}}" ;;
              fsdp) as="{fsdp: {version: 1, wrap: {policy: $wrap}}}" ;;
              *) as=$strategy ;;
            esac
            predict "$name" "$model" fp32 "$rank_batch" "$ranks" "$as"
          done
        done
      done
      ;;
    report)
      python3 "$root/calibrate/acceptance_report.py" "$output" >"$output/report.md"
      cat "$output/report.md"
      ;;
  esac
done
if [[ -s $output/failed ]]; then
  say "failed: $(paste -sd ' ' "$output/failed")"
  exit 1
fi
say "everything ran; $output/report.md, $profile"
