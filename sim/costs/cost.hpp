// Common words of the cost room: a duration and where it came from.
#pragma once

#include <algorithm>
#include <array>

#include "core/fields.hpp"

namespace lockstep {

enum class Provenance { measured, interpolated, modelled };
template <>
struct EnumNames<Provenance> {
  static constexpr std::array names{"measured", "interpolated", "modelled"};
};

// Kinds of devices in one job besides the platform's.
inline constexpr std::size_t most_other_devices = 3;

// Work issued by one host thread to one device stream, in order. With issue time a_i and device
// time d_i of item i, an idle stream and host give
//     host  += sum a_i
//     device = max(device + busy, host_at_start + span),  span = max_i (a_1 + ... + a_i + d_i + ...
//     + d_n)
// which is exact for the eager "kernel i starts at max(GPU free, CPU issue time i)" rule (fact
// 128), and composes: concatenation of two items is again an item (see append).
struct QueuedWork {
  double host = 0;  // seconds the host thread needs to issue everything
  double busy = 0;  // seconds the device is busy
  double span = 0;  // seconds from the host's start to the device's end on an idle device; >= busy
  // Where `busy` comes from: of the least certain part.
  Provenance provenance = Provenance::modelled;
  // On each of the job's other devices it is busy so much longer; below 0 = shorter.
  std::array<double, most_other_devices> elsewhere{};
};
inline QueuedWork append(const QueuedWork& a, const QueuedWork& b) {
  const double through_host = a.host + b.span;
  const double through_device = a.span + b.busy;
  QueuedWork both{a.host + b.host, a.busy + b.busy,
                  through_host > through_device ? through_host : through_device,
                  a.busy == 0   ? b.provenance
                  : b.busy == 0 ? a.provenance
                                : std::max(a.provenance, b.provenance)};
  for (std::size_t i = 0; i < most_other_devices; ++i) {
    both.elsewhere[i] = a.elsewhere[i] + b.elsewhere[i];
  }
  return both;
}

// The same work when its device parts take `device` times as long and its host parts `host` times.
// The span is the longer of two chains: all device time after the first issue, or all issues before
// the last kernel. What that first issue or last kernel takes is what the span has beyond the
// longer of host and device time; it is taken to be the same for both.
inline double scaled_span(const QueuedWork& work, double device, double host = 1) {
  const double ends = std::max(0.0, work.span - std::max(work.host, work.busy));
  return std::max(host * ends + device * work.busy, host * work.host + device * ends);
}
inline QueuedWork scaled(const QueuedWork& work, double device, double host) {
  QueuedWork result{host * work.host, device * work.busy, scaled_span(work, device, host),
                    work.provenance};
  for (std::size_t i = 0; i < most_other_devices; ++i) {
    result.elsewhere[i] = device * work.elsewhere[i];
  }
  return result;
}

// How much longer a rank's device parts take than the work says. `device`: 0 = the platform's, from
// 1 on the job's others.
struct DeviceSlowdown {
  double factor = 1;
  int device = 0;

  double of(const QueuedWork& work) const {
    if (device == 0 || work.busy <= 0) return factor;
    return factor * (1 + work.elsewhere[static_cast<std::size_t>(device) - 1] / work.busy);
  }
};
inline bool same_everywhere(const QueuedWork& work) {
  return std::all_of(work.elsewhere.begin(), work.elsewhere.end(),
                     [](double more) { return more == 0; });
}

}  // namespace lockstep
