// Names issued work and reports its times to an observer. The engine computes a piece of work as a
// whole; times of its parts (layers, kernels) are computed here, and only for the watched lanes.
#include "engine/watch.hpp"

#include <algorithm>
#include <numeric>

#include "engine/communicator.hpp"

namespace lockstep {

namespace {

constexpr std::string_view host_stream = "host", compute_stream = "compute";

// The parts of a piece of work, or the whole as one part if the work has no parts.
std::vector<NamedWork::Part> parts_of(const QueuedWork& work, const WorkLabel& label) {
  if (label.parts != nullptr && !label.parts->empty()) return *label.parts;
  return {{label.name, work}};
}

}  // namespace

// Reports the ranks of each lane to the observer, then asks which lanes the observer watches.
std::unique_ptr<Watch> Watch::make(Observer* observer, const RankGroupSpec& spec) {
  if (observer == nullptr) return nullptr;
  const int lanes = static_cast<int>(spec.ranks_per_lane.size());
  std::vector<int> lane_of_rank = spec.lane_of_rank, watched;
  for (int lane = 0; lane < lanes && spec.lane_of_rank.empty(); ++lane) {
    const double ranks = spec.ranks_per_lane[static_cast<std::size_t>(lane)];
    lane_of_rank.insert(lane_of_rank.end(), static_cast<std::size_t>(ranks), lane);
  }
  observer->on_ranks(spec.name, lane_of_rank);
  for (int lane = 0; lane < lanes; ++lane) {
    if (observer->watches(spec.name, lane)) watched.push_back(lane);
  }
  if (watched.empty()) return nullptr;
  return std::unique_ptr<Watch>(new Watch(*observer, spec, std::move(watched)));
}

Watch::Watch(Observer& observer, const RankGroupSpec& spec, std::vector<int> lanes)
    : observer_(observer),
      group_(spec.name),
      one_thread_(spec.one_thread),
      devices_(spec.device_of_lane),
      lanes_(std::move(lanes)),
      before_(lanes_.size(), 0.0),
      host_step_(lanes_.size(), 0.0),
      device_step_(lanes_.size(), 0.0) {}

void Watch::issue(Phase phase, const QueuedWork& work, WorkLabel& label, const HostClock& host) {
  if (one_thread_) return;
  const std::vector<NamedWork::Part> parts = parts_of(work, label);
  label.number = observer_.number(parts.size());
  for (const int lane : lanes_) {
    double start = host.at(static_cast<std::size_t>(lane));
    Observer::Number number = label.number;
    for (const NamedWork::Part& part : parts) {
      const double end = start + part.work.host;
      observer_.on_work({stream(lane, host_stream), phase, part.name, start, end, number++, 0});
      start = end;
    }
  }
}

void Watch::host_work(std::string_view name, const HostClock& host, double seconds,
                      Observer::Number number) {
  if (one_thread_) return;
  for (const int lane : lanes_) {
    const double start = host.at(static_cast<std::size_t>(lane));
    observer_.on_work(
        {stream(lane, host_stream), Phase::copies, name, start, start + seconds, number, 0});
  }
}

void Watch::host_wait(const HostClock& before, const HostClock& after, const Event::State& state) {
  for (const int lane : lanes_) {
    const auto i = static_cast<std::size_t>(lane);
    if (after.at(i) <= before.at(i)) continue;
    observer_.on_wait(
        {stream(lane, host_stream), state.cause, before.at(i), after.at(i), state.number});
  }
}

void Watch::host_step(const HostClock& end) {
  if (one_thread_) return;
  for (std::size_t w = 0; w < lanes_.size(); ++w) {
    const double start = std::exchange(host_step_[w], end.at(at(w)));
    observer_.on_step({stream(lanes_[w], host_stream), host_steps_, start, host_step_[w]});
  }
  ++host_steps_;
}

void Watch::remember(const std::vector<double>& positions) {
  for (std::size_t w = 0; w < lanes_.size(); ++w) before_[w] = positions[at(w)];
}

// The first loop finds the idle time before each part by the rule of QueuedWork. The second loop
// scales the idle times so that they add up to the idle time of the whole, and reports the parts.
void tell_parts(Observer& observer, const Observer::Stream& stream, Phase phase,
                const PartsDone& done) {
  const std::vector<NamedWork::Part>& parts = done.parts;
  std::vector<double> idle(parts.size());
  double now = done.start, issued = done.issued, busy = 0, all_idle = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double seconds = done.seconds[i];
    const double end = std::max(
        now + seconds, issued + scaled_span(parts[i].work, done.slowness.of(parts[i].work)));
    idle[i] = end - now - seconds;
    issued += parts[i].work.host;
    now = end;
    busy += seconds;
    all_idle += idle[i];
  }
  const double truly_idle = std::max(0.0, done.end - done.start - busy);
  if (all_idle <= 0) idle.front() = all_idle = truly_idle;
  const double scale = all_idle > 0 ? truly_idle / all_idle : 0;
  now = done.start;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const double begin = std::min(done.end, now + scale * idle[i]);
    const double end = last ? done.end : std::min(done.end, begin + done.seconds[i]);
    const Observer::Number launch = done.launch == 0 ? 0 : done.launch + i;
    if (begin > now + clock_precision) {
      observer.on_wait({stream, WaitCause::host_bound, now, begin, launch});
    }
    if (done.seconds[i] > 0) {
      observer.on_work({stream, phase, parts[i].name, begin, end, 0, launch});
    }
    now = done.seconds[i] > 0 ? end : begin;
  }
}

// Beside collectives, the seconds of each part follow from the speed at the time of the part.
void Watch::computed(Phase phase, const QueuedWork& work, const WorkLabel& label,
                     const std::vector<double>& factors, const HostClock& host,
                     const std::vector<double>& positions, Interference* pace) {
  const std::vector<NamedWork::Part> parts = parts_of(work, label);
  std::vector<double> seconds(parts.size());
  for (std::size_t w = 0; w < lanes_.size(); ++w) {
    const double factor = factors[at(w)];
    const int device = devices_.empty() ? 0 : devices_[at(w)];
    const DeviceSlowdown slowness{factor / DeviceSlowdown{1, device}.of(work), device};
    double place = before_[w];
    for (std::size_t i = 0; i < parts.size(); ++i) {
      seconds[i] = slowness.of(parts[i].work) * parts[i].work.busy;
      if (pace == nullptr) continue;
      const double end = pace->end_of_work(phase, at(w), place, seconds[i]);
      seconds[i] = end - std::exchange(place, end);
    }
    tell_parts(
        observer_, stream(lanes_[w], compute_stream), phase,
        {parts, seconds, slowness, host.at(at(w)), before_[w], positions[at(w)], label.number});
  }
}

// A wait for a collective is divided by cause; any other wait has a single cause.
void Watch::waited(const Event::State& state, const std::vector<double>& positions) {
  for (std::size_t w = 0; w < lanes_.size(); ++w) {
    const double from = before_[w], to = positions[at(w)];
    if (to <= from) continue;
    const Observer::Stream compute = stream(lanes_[w], compute_stream);
    if (state.communicator == nullptr) {
      observer_.on_wait({compute, state.cause, from, to, state.number});
      continue;
    }
    state.communicator->idle_before(state, at(w), from,
                                    [&](WaitCause cause, double start, double end) {
                                      observer_.on_wait({compute, cause, start, end, state.number});
                                    });
  }
}

void Watch::step_ended(const std::vector<double>& positions) {
  for (std::size_t w = 0; w < lanes_.size(); ++w) {
    const double start = std::exchange(device_step_[w], positions[at(w)]);
    observer_.on_step({stream(lanes_[w], compute_stream), device_steps_, start, device_step_[w]});
  }
  ++device_steps_;
}

}  // namespace lockstep
