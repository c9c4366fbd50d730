// Reports the streams of a rank group to an observer, for the lanes that it watches. Exists only if
// there is an observer, so that a run without one pays nothing. Private to the engine.
#pragma once

#include <string>
#include <vector>

#include "costs/named_work.hpp"
#include "engine/event_state.hpp"
#include "engine/interference.hpp"
#include "engine/observer.hpp"

namespace lockstep {

// The name of issued work: the names of its parts, or one name for the whole (`parts` null).
// `number` is the observer's number of the host's first part.
struct WorkLabel {
  std::string_view name;
  const std::vector<NamedWork::Part>* parts = nullptr;
  Observer::Number number = 0;
};

// The timing of a work's parts on a stream, in seconds.
struct PartsDone {
  const std::vector<NamedWork::Part>& parts;
  const std::vector<double>& seconds;  // by part: the stream is busy with it
  DeviceSlowdown slowness;
  double issued = 0;  // the host begins to issue the first part
  double start = 0, end = 0;
  Observer::Number launch = 0;  // number of the host's first part; 0 = no host
};
// Reports work part by part. The rule of QueuedWork, applied to each part, says where the stream
// stands still; the end of the whole, which is known, says for how long.
void tell_parts(Observer& observer, const Observer::Stream& stream, Phase phase,
                const PartsDone& done);

// Names issued work and reports its times. RankGroup, streams and communicators call it.
class Watch {
 public:
  // Null if there is no observer or the observer watches no lane.
  static std::unique_ptr<Watch> make(Observer* observer, const RankGroupSpec& spec);

  Observer& observer() const { return observer_; }
  // The watched lanes.
  const std::vector<int>& lanes() const { return lanes_; }
  Observer::Stream stream(int lane, std::string_view name) const { return {group_, lane, name}; }

  // --- the host, without effect on CPU ranks, which have no host beside the compute stream
  // Numbers the work's parts, and reports when they are issued.
  void issue(Phase phase, const QueuedWork& work, WorkLabel& label, const HostClock& host);
  void host_work(std::string_view name, const HostClock& host, double seconds,
                 Observer::Number number = 0);
  void host_wait(const HostClock& before, const HostClock& after, const Event::State& state);
  void host_step(const HostClock& end);

  // --- the compute stream
  // remember() keeps the lanes' positions before an item is computed; the calls below report the
  // item.
  void remember(const std::vector<double>& positions);
  // Reports work. `pace` is the interference that slowed the work down; null = none.
  void computed(Phase phase, const QueuedWork& work, const WorkLabel& label,
                const std::vector<double>& factors, const HostClock& host,
                const std::vector<double>& positions, Interference* pace);
  void waited(const Event::State& state, const std::vector<double>& positions);
  void step_ended(const std::vector<double>& positions);

 private:
  Watch(Observer& observer, const RankGroupSpec& spec, std::vector<int> lanes);
  // The lane's number of the i-th watched lane.
  std::size_t at(std::size_t watched) const { return static_cast<std::size_t>(lanes_[watched]); }

  Observer& observer_;
  std::string group_;
  bool one_thread_;
  std::vector<int> devices_;  // by lane; empty = all alike
  std::vector<int> lanes_;
  std::vector<double> before_;  // by watched lane: position before the present item
  std::vector<double> host_step_, device_step_;  // by watched lane: start of the step
  int host_steps_ = 0, device_steps_ = 0;        // ended so far
};

}  // namespace lockstep
