// Interpolates measured curves of communication, linearly in logarithms. A time that consists of a
// latency and bytes over bandwidth is nearly straight in logarithms between two measured sizes.
// Points whose quantity was not measured are skipped.
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

// A quantity at `bytes`: linear in the logarithm of the size between the nearest points that have
// it, constant beyond the ends, and 0 if no point has it. value(i) is the quantity at point i;
// measured(i) says whether point i has it.
template <class Value, class Measured>
double between_points(const CollectiveCurve& curve, double bytes, Value&& value,
                      Measured&& measured) {
  std::size_t below = curve.bytes.size(), above = below;
  for (std::size_t i = 0; i < curve.bytes.size() && above == curve.bytes.size(); ++i) {
    if (!measured(i)) continue;
    (curve.bytes[i] < bytes ? below : above) = i;
  }
  if (below == curve.bytes.size()) return above == curve.bytes.size() ? 0 : value(above);
  if (above == curve.bytes.size()) return value(below);
  const double position =
      std::log(bytes / curve.bytes[below]) / std::log(curve.bytes[above] / curve.bytes[below]);
  return std::lerp(value(below), value(above), position);
}

// As above, for a quantity whose value 0 means "not measured".
template <class Value>
double between_points(const CollectiveCurve& curve, double bytes, Value&& value) {
  return between_points(curve, bytes, value, [&](std::size_t i) { return value(i) > 0; });
}

// Seconds of point i, at most the seconds of any larger size.
double cleaned_seconds(const CollectiveCurve& curve, std::size_t i) {
  return *std::min_element(curve.seconds.begin() + static_cast<std::ptrdiff_t>(i),
                           curve.seconds.end());
}

// Sets the quantities of CPU ranks: busy cores, speeds of compute and collective while both run,
// and the slowdown if both processes share one core.
void add_host_figures(const CollectiveCurve& curve, double bytes, CurveValue& result) {
  if (!curve.host_seconds.empty()) {
    result.cores = between_points(
        curve, bytes, [&](std::size_t i) { return curve.host_seconds[i] / curve.seconds[i]; });
  }
  if (!curve.compute_speed.empty()) {
    result.compute_speed =
        between_points(curve, bytes, [&](std::size_t i) { return curve.compute_speed[i]; });
    result.speed_beside_compute =
        between_points(curve, bytes, [&](std::size_t i) { return curve.speed_beside_compute[i]; });
  }
  if (!curve.one_core_seconds.empty()) {
    result.one_core_slowdown =
        std::max(1.0, between_points(curve, bytes, [&](std::size_t i) {
                   return curve.one_core_seconds[i] / cleaned_seconds(curve, i);
                 }));
  }
}

}  // namespace

double buffered_bytes(const CollectiveCurve& curve, double bytes) {
  const std::vector<double>& sender = curve.sender_seconds;
  const double held = between_points(
      curve, bytes,
      [&](std::size_t i) {
        return curve.bytes[i] * std::max(0.0, 1 - sender[i] / curve.seconds[i]);
      },
      [&](std::size_t i) { return i < sender.size() && sender[i] > 0; });
  return std::min(bytes, held);
}

CurveValue curve_seconds(const CollectiveCurve& curve, double bytes) {
  assert(!curve.bytes.empty() && curve.bytes.size() == curve.seconds.size());
  const auto cleaned = [&](std::size_t i) { return cleaned_seconds(curve, i); };
  const auto above = std::lower_bound(curve.bytes.begin(), curve.bytes.end(), bytes);
  CurveValue result;
  add_host_figures(curve, bytes, result);
  if (above == curve.bytes.end()) {
    result.seconds = curve.seconds.back() * bytes / curve.bytes.back();
    return result;
  }
  const auto i = static_cast<std::size_t>(above - curve.bytes.begin());
  result.on_point = *above == bytes;
  if (i == 0 || result.on_point) {
    result.seconds = cleaned(i);
    return result;
  }
  const double position =
      std::log(bytes / curve.bytes[i - 1]) / std::log(curve.bytes[i] / curve.bytes[i - 1]);
  result.seconds = std::exp(std::lerp(std::log(cleaned(i - 1)), std::log(cleaned(i)), position));
  return result;
}

}  // namespace lockstep
