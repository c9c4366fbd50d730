#!/usr/bin/env bash
# Collects the packages that building Lockstep needs in a folder, for a machine where nothing can be
# installed (gpu_acceptance.sh --deps FOLDER). Needs a Debian 12 with network access; no root.
#   calibrate/acceptance/collect_deps.sh FOLDER
# Headers of Boost that SimGrid does not include are left out, so that the folder stays small enough
# (under 64 MiB with the source) to be sent along with it.
set -euo pipefail

[[ $# == 1 && $1 != -* ]] || {
  echo "usage: ${BASH_SOURCE[0]##*/} FOLDER" >&2
  exit 2
}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
  echo "collect_deps.sh: needs Debian's apt-get and dpkg-deb" >&2
  exit 1
}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[[ -z $(ls -A "$folder") ]] || {
  echo "collect_deps.sh: $folder is not empty" >&2
  exit 2
}

# SimGrid's libraries are those that it is linked with; libstdc++ and glibc must be the other
# machine's own.
packages=(libyaml-cpp-dev libyaml-cpp0.7 libfmt-dev libfmt9 libcli11-dev nlohmann-json3-dev libjs-chart.js
  zlib1g-dev libgloo-dev
  libsimgrid-dev libsimgrid3.32 libboost1.74-dev libboost-context1.74.0
  libboost-stacktrace1.74.0 libns3.37 libgsl27 libgslcblas0 libgfortran5 libquadmath0 libsqlite3-0)
downloads=$(mktemp -d)
trap 'rm -rf "$downloads"' EXIT
(cd "$downloads" && apt-get download -qq "${packages[@]}")
for package in "$downloads"/*.deb; do dpkg-deb -x "$package" "$folder"; done

cd "$folder"
libraries=usr/lib/x86_64-linux-gnu
# Keep the headers of Boost that SimGrid's own headers include (the compiler says which).
echo '#include <simgrid/s4u.hpp>' >"$downloads/simgrid.cpp"
"${CXX:-g++}" -std=c++20 -M -I usr/include "$downloads/simgrid.cpp" | tr ' \\' '\n\n' |
  sed -n 's,^usr/include/boost/,,p' | sort -u >"$downloads/headers"
mv usr/include/boost "$downloads/boost"
while read -r header; do
  mkdir -p "usr/include/boost/$(dirname "$header")"
  cp "$downloads/boost/$header" "usr/include/boost/$header"
done <"$downloads/headers"

# Everything that is not needed to build: documentation, programs, the parts of ns-3 that SimGrid does
# not reach.
rm -rf usr/share/doc usr/share/man usr/share/lintian usr/share/info usr/bin etc lib
needed=$(LD_LIBRARY_PATH=$libraries ldd $libraries/libsimgrid.so.3.* |
  sed -n "s,.*=> $libraries/\([^ ]*\) .*,\1,p")
for library in $libraries/*.so*; do
  name=${library##*/}
  [[ $name == libsimgrid* || $name == libfmt* || $name == libyaml-cpp* ]] && continue
  keep=no
  for wanted in $needed; do
    [[ $(readlink -f "$library") == $(readlink -f "$libraries/$wanted") ]] && keep=yes
  done
  [[ $keep == yes ]] || rm -f "$library"
done
rm -f $libraries/*boost*.a

size=$(du -sm . | cut -f1)
echo "$folder: $size MiB in $(find . -type f | wc -l) files" >&2
((size < 60)) || {
  echo "collect_deps.sh: that is more than 60 MiB" >&2
  exit 1
}
