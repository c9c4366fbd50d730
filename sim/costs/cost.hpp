// The unit of cost: QueuedWork, a piece of work that a host thread issues and a device stream
// executes, together with the source of its duration. Cost sources (compute.hpp) return it,
// strategies append one piece to another, and the engine plays the result on the clocks of host and
// device.
#pragma once

#include <algorithm>
#include <array>

#include "core/fields.hpp"

namespace lockstep {

// Source of a duration, from the most certain to the least: a measurement of this very work, a
// value between two measurements, a model.
enum class Provenance { measured, interpolated, modelled };
template <>
struct EnumNames<Provenance> {
  static constexpr std::array names{"measured", "interpolated", "modelled"};
};

// The largest number of device kinds in one job besides the platform's own.
inline constexpr std::size_t most_other_devices = 3;

// Work issued by one host thread to one device stream, in order. Item i takes the host a_i seconds
// to issue and the device d_i seconds to execute. It starts as soon as it is issued and the device
// is free (fact 128). If the host starts at time H and the device is free at time D, all work has
// ended at
//
//     host:    H + host                          host = a_1 + ... + a_n
//     device:  max(D + busy, H + span)           busy = d_1 + ... + d_n
//                                                span = max_i (a_1 + ... + a_i + d_i + ... + d_n)
//
// These three numbers describe any number of items exactly, and append() joins two pieces of work
// into three numbers again.
struct QueuedWork {
  double host = 0;  // seconds the host thread needs to issue everything
  double busy = 0;  // seconds the device is busy
  double span = 0;  // seconds from the host's start to the device's end on an idle device; >= busy
  // Source of `busy`: that of the least certain part.
  Provenance provenance = Provenance::modelled;
  // Additional busy seconds on each of the job's other device kinds; negative on a faster kind.
  std::array<double, most_other_devices> elsewhere{};
};
// The work `a` followed by `b`. Host and busy seconds add up. The span is that of the longer chain:
// all issues of `a` and then the span of `b`, or the span of `a` and then all device time of `b`.
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

// The span if device parts take `device` times as long and host parts `host` times as long. A span
// is the longer of two chains: the first issue and then all device time, or all issues and then the
// last kernel. Neither the first issue nor the last kernel is stored, so each is taken as the
// difference between the span and the longer of host and busy seconds.
inline double scaled_span(const QueuedWork& work, double device, double host = 1) {
  const double ends = std::max(0.0, work.span - std::max(work.host, work.busy));
  return std::max(host * ends + device * work.busy, host * work.host + device * ends);
}
// The work if its device parts take `device` times as long and its host parts `host` times as long.
inline QueuedWork scaled(const QueuedWork& work, double device, double host) {
  QueuedWork result{host * work.host, device * work.busy, scaled_span(work, device, host),
                    work.provenance};
  for (std::size_t i = 0; i < most_other_devices; ++i) {
    result.elsewhere[i] = device * work.elsewhere[i];
  }
  return result;
}

// Slowdown of a rank's device: `factor` multiplies all device seconds of the rank. `device` is the
// kind of its device: 0 = the platform's own, 1 and more = the job's other kinds.
struct DeviceSlowdown {
  double factor = 1;
  int device = 0;

  // The factor by which the device seconds of `work` grow on this rank.
  double of(const QueuedWork& work) const {
    if (device == 0 || work.busy <= 0) return factor;
    return factor * (1 + work.elsewhere[static_cast<std::size_t>(device) - 1] / work.busy);
  }
};
// Whether the work takes equally long on all device kinds of the job.
inline bool same_everywhere(const QueuedWork& work) {
  return std::all_of(work.elsewhere.begin(), work.elsewhere.end(),
                     [](double more) { return more == 0; });
}

}  // namespace lockstep
