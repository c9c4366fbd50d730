// Checks the invariants of a prediction (broken_invariant(), declared in record.hpp). The check
// visits numbers through their declarations (fields.hpp), so that it covers every new number: each
// must be finite and not below its minimum.
#include <fmt/format.h>

#include <cmath>

#include "results/json_fields.hpp"

namespace lockstep {

namespace {

constexpr double rounding = 1e-9;   // relative; errors of long sums are far smaller
constexpr double adding_up = 1e-6;  // relative difference of a step and the sum of its parts

// A visitor that finds the first number that is not finite or below its minimum.
class Faults : public FigureVisitor<Faults> {
 public:
  template <class T>
  void visit(const Figure& figure, const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      if (fault.empty() && (!std::isfinite(value) || value < figure.min)) {
        fault = fmt::format("{} {}", figure.name, value);
      }
    } else if constexpr (std::is_same_v<T, Interval>) {
      visit(figure, value.low);
      visit(figure, value.high);
    } else if constexpr (figures::is_optional<T>) {
      if (value) visit(figure, *value);
    } else if constexpr (figures::is_vector<T>) {
      for (const auto& element : value) visit(figure, element);
    } else if constexpr (figures::has_fields<T>) {
      describe(*this, value);
    }
  }

  std::string fault;
};

// The first invalid number, with its name; "" if all are valid.
std::string not_finite(const Prediction& p) {
  Faults faults;
  describe(faults, p);
  if (!faults.fault.empty()) return faults.fault;
  for (const LinkTraffic& t : p.traffic) {
    if (t.busy > 1 + rounding) return fmt::format("{} busy {}", t.link_class, t.busy);
  }
  return "";
}

}  // namespace

std::string broken_invariant(const Prediction& p) {
  if (auto fault = not_finite(p); !fault.empty()) return fault;
  const double step = p.step_seconds;
  if (step <= 0) return fmt::format("step {} s", step);
  for (const auto part : step_parts) {
    const double seconds = p.split.*part;
    if (!(seconds >= -rounding * step && seconds <= (1 + adding_up) * step)) {
      return fmt::format("a part of {} s in a step of {} s", seconds, step);
    }
  }
  const double sum = total_seconds(p.split);
  if (!(std::abs(sum - step) <= adding_up * step)) {
    return fmt::format("the parts add up to {} s, the step takes {} s", sum, step);
  }
  double exposed = 0;
  for (const auto axis : axis_parts) exposed += p.split.exposed.*axis;
  if (p.mesh && !(std::abs(exposed - p.split.exposed_communication) <= adding_up * step)) {
    return fmt::format("{} s of exposed communication by axis, {} s in all", exposed,
                       p.split.exposed_communication);
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
