#!/usr/bin/env bash
# Prepares and builds `lockstep acceptance` for a machine where nothing can be installed.
#   bare_machine.sh collect FOLDER   on a Debian 12 with network, without root: unpacks the packages that
#                                    building needs (under 60 MiB, to be sent along)
#   bare_machine.sh build [FOLDER]   on that machine, with FOLDER: builds all programs in $LOCKSTEP_BUILD_DIR
#                                    (default: build/acceptance), and packs them alone as programs.tar.gz
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
libraries=usr/lib/x86_64-linux-gnu
PATH+=:/usr/local/cuda/bin

# The package takes from Boost only the headers that SimGrid includes, and only the libraries with
# which SimGrid is linked. libstdc++ and glibc must be the other machine's own.
collect() {
  local packages=(libyaml-cpp-dev libyaml-cpp0.7 libfmt-dev libfmt9 libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libjs-chart.js
    zlib1g-dev libgloo-dev libsimgrid-dev libsimgrid3.32 libboost1.74-dev libboost-context1.74.0
    libboost-stacktrace1.74.0 libns3.37 libgsl27 libgslcblas0 libgfortran5 libquadmath0 libsqlite3-0)
  mkdir -p "$1" && cd "$1"
  [[ -z $(ls -A) ]] || { echo "$1 is not empty" >&2; exit 2; }
  mkdir -p downloads && (cd downloads && apt-get download -qq "${packages[@]}")
  for package in downloads/*.deb; do dpkg-deb -x "$package" .; done
  echo '#include <simgrid/s4u.hpp>' >downloads/simgrid.cpp
  "${CXX:-g++}" -std=c++20 -M -I usr/include downloads/simgrid.cpp | tr ' \\' '\n\n' |
    grep '^usr/include/boost/' | sort -u | tar -cf downloads/boost.tar -T -
  rm -rf usr/include/boost usr/share/{doc,man,lintian,info} usr/bin etc lib
  tar -xf downloads/boost.tar
  local needed library
  needed=$(LD_LIBRARY_PATH=$libraries ldd $libraries/libsimgrid.so.3.* | sed -n "s,.*=> \($libraries/[^ ]*\) .*,\1,p")
  needed=$(readlink -f $needed $libraries/lib{simgrid,fmt,yaml-cpp}*.so*)
  for library in $libraries/*.so*; do
    grep -qxF "$(readlink -f "$library")" <<<"$needed" || rm "$library"
  done
  rm -rf downloads $libraries/*boost*.a
  echo "$1: $(du -sm . | cut -f1) MiB" >&2
}

build() {
  local to=${LOCKSTEP_BUILD_DIR:-$root/build/acceptance} torch nvidia prefix='' options=()
  local programs=(sim/cli/lockstep calibrate/cli/lockstep-calibrate)
  # PyTorch's LibTorch, else an installed one. The folder above share/cmake comes too, or CMake
  # takes the system's libtorch.so for this one's. NCCL and cuDNN come from the wheels where the
  # toolkit lacks them.
  torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)' 2>/dev/null) || torch=
  nvidia=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || nvidia=
  [[ -z $torch ]] || prefix="$torch;${torch%/share/cmake}"
  [[ -z $nvidia ]] || prefix+=";$nvidia/nccl;$nvidia/cudnn"
  if [[ $# == 1 ]]; then
    [[ -d $1/usr ]] || { echo "$1 was not made by bare_machine.sh collect" >&2; exit 2; }
    local deps; deps=$(cd "$1" && pwd)
    prefix="$deps/usr;$prefix"
    # These options name each file: on systems other than Debian, CMake does not look in
    # lib/x86_64-linux-gnu. RPATH, unlike RUNPATH, holds for libraries of libraries, too.
    options+=("-Dfmt_DIR=$deps/$libraries/cmake/fmt" "-Dyaml-cpp_DIR=$deps/$libraries/cmake/yaml-cpp"
      "-DSimGrid_INCLUDE_DIR=$deps/usr/include" "-DSimGrid_LIBRARY=$deps/$libraries/libsimgrid.so"
      "-DLOCKSTEP_GLOO_INCLUDE=$deps/usr/include"
      "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags,-rpath,$deps/$libraries")
  fi
  ! command -v nvcc >/dev/null || { options+=(-DLOCKSTEP_CUDA=ON); programs+=(calibrate/cuda/lockstep-calibrate-cuda); }
  ! command -v ninja >/dev/null || options+=(-G Ninja)
  ! command -v ccache >/dev/null || options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  cmake -S "$root" -B "$to" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_UNITY=ON \
    -DLOCKSTEP_TORCH=ON "-DCMAKE_PREFIX_PATH=$prefix" "${options[@]}"
  cmake --build "$to" -j "${LOCKSTEP_JOBS:-$(nproc)}" --target "${programs[@]##*/}"
  tar -C "$to" -czf "$to/programs.tar.gz" "${programs[@]}"
  echo "built: $to/${programs[0]}" >&2
}

case "${1-}:$#" in
  collect:2 | build:1 | build:2) "$@" ;;
  *)
    sed -n '3,6s/^# //p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
