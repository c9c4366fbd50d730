// See invariants.hpp.
#include "results/invariants.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace lockstep {

namespace {

constexpr double rounding = 1e-9;  // relative; sums of some ten thousand doubles stay far below
constexpr double adding_up = 1e-6;

std::string not_finite(const Prediction& p) {
  const std::pair<const char*, double> figures[] = {{"step", p.step_seconds},
                                                    {"median step", p.median_step_seconds},
                                                    {"interval", p.step_interval.low},
                                                    {"interval", p.step_interval.high},
                                                    {"first step", p.first_step_seconds},
                                                    {"steps", p.steps},
                                                    {"total time", p.total_seconds},
                                                    {"samples per second", p.samples_per_second},
                                                    {"tokens per second", p.tokens_per_second},
                                                    {"GPU utilisation", p.gpu_utilisation},
                                                    {"MFU", p.mfu},
                                                    {"cost", p.dollars},
                                                    {"allocated memory", p.memory.allocated},
                                                    {"reserved memory", p.memory.reserved},
                                                    {"device memory", p.memory.device}};
  for (const auto& [name, value] : figures) {
    if (!std::isfinite(value) || value < 0) return fmt::format("{} {}", name, value);
  }
  for (const LinkTraffic& t : p.traffic) {
    if (!std::isfinite(t.bytes) || !std::isfinite(t.total_bytes) || t.bytes < 0) {
      return fmt::format("traffic on {} {}", t.link_class, t.bytes);
    }
    if (!(t.busy >= 0 && t.busy <= 1 + rounding))
      return fmt::format("{} busy {}", t.link_class, t.busy);
  }
  return "";
}

}  // namespace

std::string broken_invariant(const Prediction& p) {
  if (auto fault = not_finite(p); !fault.empty()) return fault;
  const double step = p.step_seconds;
  if (step <= 0) return fmt::format("step {} s", step);
  double sum = 0;
  for (const auto part : step_parts) {
    const double seconds = p.split.*part;
    if (!(seconds >= -rounding * step && seconds <= (1 + adding_up) * step)) {
      return fmt::format("a part of {} s in a step of {} s", seconds, step);
    }
    sum += seconds;
  }
  if (!(std::abs(sum - step) <= adding_up * step)) {
    return fmt::format("the parts add up to {} s, the step takes {} s", sum, step);
  }
  if (!(p.step_interval.low <= step && step <= p.step_interval.high)) {
    return fmt::format("a step of {} s outside its interval", step);
  }
  if (p.gpu_utilisation > 1 + rounding) {
    return fmt::format("GPU utilisation {}", p.gpu_utilisation);
  }
  if (p.memory.allocated > p.memory.reserved || p.memory.reserved > p.memory.device) {
    return fmt::format("memory allocated {}, reserved {}, device {}", p.memory.allocated,
                       p.memory.reserved, p.memory.device);
  }
  return "";
}

}  // namespace lockstep
