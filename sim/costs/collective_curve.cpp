#include "costs/collective_curve.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace lockstep {

const CollectiveCurve* find_curve(const Machine& machine, std::string_view collective, int ranks,
                                  int nodes) {
  for (const CollectiveCurve& curve : machine.collectives)
    if (curve.collective == collective && curve.ranks == ranks && curve.nodes == nodes)
      return &curve;
  return nullptr;
}

namespace {

double busy_cores(const CollectiveCurve& curve, double bytes) {
  if (curve.host_seconds.empty()) return 0;
  const auto cores = [&](std::size_t i) { return curve.host_seconds[i] / curve.seconds[i]; };
  const auto above = std::lower_bound(curve.bytes.begin(), curve.bytes.end(), bytes);
  if (above == curve.bytes.end()) return cores(curve.bytes.size() - 1);
  const auto i = static_cast<std::size_t>(above - curve.bytes.begin());
  if (i == 0) return cores(0);
  const double position =
      std::log(bytes / curve.bytes[i - 1]) / std::log(curve.bytes[i] / curve.bytes[i - 1]);
  return std::lerp(cores(i - 1), cores(i), position);
}

}  // namespace

CurveValue curve_seconds(const CollectiveCurve& curve, double bytes) {
  assert(!curve.bytes.empty() && curve.bytes.size() == curve.seconds.size());
  const auto cleaned = [&](std::size_t i) {
    return *std::min_element(curve.seconds.begin() + static_cast<std::ptrdiff_t>(i),
                             curve.seconds.end());
  };
  const auto above = std::lower_bound(curve.bytes.begin(), curve.bytes.end(), bytes);
  const double cores = busy_cores(curve, bytes);
  if (above == curve.bytes.end())
    return {curve.seconds.back() * bytes / curve.bytes.back(), false, cores};
  const auto i = static_cast<std::size_t>(above - curve.bytes.begin());
  if (i == 0 || *above == bytes) return {cleaned(i), *above == bytes, cores};
  const double position =
      std::log(bytes / curve.bytes[i - 1]) / std::log(curve.bytes[i] / curve.bytes[i - 1]);
  return {std::exp(std::lerp(std::log(cleaned(i - 1)), std::log(cleaned(i)), position)), false,
          cores};
}

}  // namespace lockstep
