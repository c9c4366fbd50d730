// Reports the streams of a rank group to an observer, for the lanes that it watches. Exists only if
// there is an observer. Private to the engine.
#pragma once

#include <string>
#include <vector>

#include "costs/named_work.hpp"
#include "engine/event_state.hpp"
#include "engine/interference.hpp"
#include "engine/observer.hpp"

namespace lockstep {

// The name of a piece of issued work: the names of its parts, or one name for all of it. `number`:
// of the host's first part; null parts = one.
struct WorkLabel {
  std::string_view name;
  const std::vector<NamedWork::Part>* parts = nullptr;
  Observer::Number number = 0;
};

// The timing of a work's parts on a stream.
struct PartsDone {
  const std::vector<NamedWork::Part>& parts;
  const std::vector<double>& seconds;  // in which each kept it busy
  DeviceSlowdown slowness;
  double issued = 0;  // when the host began to
  double start = 0, end = 0;
  Observer::Number launch = 0;  // of the host's first part; 0 = no host
};
// Applies the rule of QueuedWork part by part to find where the stream stood still; `end`, known
// from the whole, gives the duration.
void tell_parts(Observer& observer, const Observer::Stream& stream, Phase phase,
                const PartsDone& done);

class Watch {
 public:
  // Null if the observer watches no lane. `one_thread`: there is no host beside the compute stream.
  static std::unique_ptr<Watch> make(Observer* observer, const RankGroupSpec& spec);

  Observer& observer() const { return observer_; }
  const std::vector<int>& lanes() const { return lanes_; }
  Observer::Stream stream(int lane, std::string_view name) const { return {group_, lane, name}; }

  // --- the host, where there is one. Numbers the work's parts, and tells when they are issued.
  void issue(Phase phase, const QueuedWork& work, WorkLabel& label, const HostClock& host);
  void host_work(std::string_view name, const HostClock& host, double seconds,
                 Observer::Number number = 0);
  void host_wait(const HostClock& before, const HostClock& after, const Event::State& state);
  void host_step(const HostClock& end);

  // --- the compute stream: where its lanes are before an item is worked out, then what it was
  void remember(const std::vector<double>& positions);
  // `pace`: the cause that slowed the work down; null = none.
  void computed(Phase phase, const QueuedWork& work, const WorkLabel& label,
                const std::vector<double>& factors, const HostClock& host,
                const std::vector<double>& positions, Interference* pace);
  void waited(const Event::State& state, const std::vector<double>& positions);
  void step_ended(const std::vector<double>& positions);

 private:
  Watch(Observer& observer, const RankGroupSpec& spec, std::vector<int> lanes);
  std::size_t at(std::size_t watched) const { return static_cast<std::size_t>(lanes_[watched]); }

  Observer& observer_;
  std::string group_;
  bool one_thread_;
  std::vector<int> devices_;  // by lane; empty = alike
  std::vector<int> lanes_;
  std::vector<double> before_;                   // by watched lane
  std::vector<double> host_step_, device_step_;  // where the step began
  int host_steps_ = 0, device_steps_ = 0;
};

}  // namespace lockstep
