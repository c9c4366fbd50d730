// The unit of cost: QueuedWork, a piece of work that a host thread issues and a device stream
// executes, with the source of its duration. Cost sources (compute.hpp) return it, strategies
// append pieces to each other, and the engine plays them on lanes.
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
// to issue and the device d_i seconds to execute, and starts when it is issued and the device is
// free (fact 128). For a host at time H and a device that is free at time D, the whole work ends at
//
//     host:    H + host                          host = a_1 + ... + a_n
//     device:  max(D + busy, H + span)           busy = d_1 + ... + d_n
//                                                span = max_i (a_1 + ... + a_i + d_i + ... + d_n)
//
// Three numbers are exact for any number of items, and two pieces of work joined are again three
// numbers: see append().
struct QueuedWork {
  double host = 0;  // seconds the host thread needs to issue everything
  double busy = 0;  // seconds the device is busy
  double span = 0;  // seconds from the host's start to the device's end on an idle device; >= busy
  // Source of `busy`: that of the least certain part.
  Provenance provenance = Provenance::modelled;
  // Additional busy seconds on each of the job's other device kinds; negative on a faster one.
  std::array<double, most_other_devices> elsewhere{};
};
// The work `a` followed by `b`. Host and busy seconds add up. The span is the longer chain: all of
// a's issues and then b, or a and then all of b's device time.
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

// The span when device parts take `device` times and host parts `host` times as long. A span is the
// longer of two chains: the first issue and then all device time, or all issues and then the last
// kernel. The first issue and the last kernel are not stored; both are taken to be the difference
// between the span and the longer of host and busy seconds.
inline double scaled_span(const QueuedWork& work, double device, double host = 1) {
  const double ends = std::max(0.0, work.span - std::max(work.host, work.busy));
  return std::max(host * ends + device * work.busy, host * work.host + device * ends);
}
// The work with its device parts `device` times and its host parts `host` times as long.
inline QueuedWork scaled(const QueuedWork& work, double device, double host) {
  QueuedWork result{host * work.host, device * work.busy, scaled_span(work, device, host),
                    work.provenance};
  for (std::size_t i = 0; i < most_other_devices; ++i) {
    result.elsewhere[i] = device * work.elsewhere[i];
  }
  return result;
}

// Slowdown of a rank's device relative to the durations of its work. `device`: the kind of the
// rank's device; 0 = the platform's, 1 and more = the job's other kinds.
struct DeviceSlowdown {
  double factor = 1;
  int device = 0;

  // Factor on the device seconds of `work`.
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
