#include "engine/watch.hpp"

#include <algorithm>
#include <numeric>

#include "engine/communicator.hpp"

namespace lockstep {

namespace {

constexpr std::string_view host_stream = "host", compute_stream = "compute";

// The parts of a piece of work; all of it as one, if it has none.
std::vector<NamedWork::Part> parts_of(const QueuedWork& work, const WorkLabel& label) {
  if (label.parts != nullptr && !label.parts->empty()) return *label.parts;
  return {{label.name, work}};
}

}  // namespace

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
  return std::unique_ptr<Watch>(
      new Watch(*observer, spec.name, std::move(watched), spec.one_thread));
}

Watch::Watch(Observer& observer, std::string_view group, std::vector<int> lanes, bool one_thread)
    : observer_(observer),
      group_(group),
      one_thread_(one_thread),
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

// The rule of QueuedWork part by part gives the idle time before each; what a lane's factor makes
// of the span of the whole decides how much it is together.
void Watch::computed(Phase phase, const QueuedWork& work, const WorkLabel& label,
                     const std::vector<double>& factors, const HostClock& host,
                     const std::vector<double>& positions, const Interference* pace,
                     const std::vector<double>& work_ends) {
  const std::vector<NamedWork::Part> parts = parts_of(work, label);
  std::vector<double> seconds(parts.size()), idle(parts.size());
  for (std::size_t w = 0; w < lanes_.size(); ++w) {
    const double factor = factors[at(w)], end = positions[at(w)];
    double place = pace ? work_ends[at(w)] - factor * work.busy : 0;
    double now = before_[w], issued = host.at(at(w)), busy = 0, all_idle = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const QueuedWork& part = parts[i].work;
      seconds[i] = factor * part.busy;
      if (pace) {
        const double from = pace->time_of(phase, place);
        place += factor * part.busy;
        seconds[i] = std::max(0.0, pace->time_of(phase, place) - from);
      }
      const double done = std::max(now + seconds[i], issued + scaled_span(part, factor));
      idle[i] = done - now - seconds[i];
      issued += part.host;
      now = done;
      busy += seconds[i];
      all_idle += idle[i];
    }
    const double truly_idle = std::max(0.0, end - before_[w] - busy);
    if (all_idle <= 0) idle.front() = all_idle = truly_idle;
    const double scale = all_idle > 0 ? truly_idle / all_idle : 0;
    now = before_[w];
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double begin = std::min(end, now + scale * idle[i]);
      const double done = i + 1 < parts.size() ? std::min(end, begin + seconds[i]) : end;
      const Observer::Number launch = label.number == 0 ? 0 : label.number + i;
      if (begin > now + clock_precision) {
        observer_.on_wait(
            {stream(lanes_[w], compute_stream), WaitCause::host_bound, now, begin, launch});
      }
      if (seconds[i] > 0) {
        observer_.on_work(
            {stream(lanes_[w], compute_stream), phase, parts[i].name, begin, done, 0, launch});
      }
      now = seconds[i] > 0 ? done : begin;
    }
  }
}

void Watch::waited(const Event::State& state, const std::vector<double>& positions) {
  std::vector<Communicator::Idle> pieces;
  for (std::size_t w = 0; w < lanes_.size(); ++w) {
    const double from = before_[w], to = positions[at(w)];
    if (to <= from) continue;
    const Observer::Stream compute = stream(lanes_[w], compute_stream);
    if (state.communicator == nullptr) {
      observer_.on_wait({compute, state.cause, from, to, state.number});
      continue;
    }
    pieces.clear();
    state.communicator->idle_before(state, at(w), from, pieces);
    for (const Communicator::Idle& piece : pieces) {
      observer_.on_wait({compute, piece.cause, piece.start, piece.end, state.number});
    }
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
