// Reports the streams of a rank group to an observer (engine/observer.hpp), for the lanes that the
// observer watches. Exists only if there is an observer, so that a run without an observer loses no
// time. Private to the engine.
#pragma once

#include <string>
#include <vector>

#include "costs/named_work.hpp"
#include "engine/event_state.hpp"
#include "engine/interference.hpp"
#include "engine/observer.hpp"

namespace lockstep {

// The name of issued work: the names of its parts, or one name for the whole (`parts` is null).
// `number` is the number under which the observer knows the host's issue of the first part.
struct WorkLabel {
  std::string_view name;
  const std::vector<NamedWork::Part>* parts = nullptr;
  Observer::Number number = 0;
};

// The timing of a work's parts on a stream, in seconds.
struct PartsDone {
  const std::vector<NamedWork::Part>& parts;
  const std::vector<double>& seconds;  // by part: the time in which the stream executes the part
  DeviceSlowdown slowness;
  double issued = 0;  // the time at which the host begins to issue the first part
  double start = 0, end = 0;
  // Observer's number of the host's issue of the first part; 0 = no host.
  Observer::Number launch = 0;
};
// Reports work part by part. The rule of QueuedWork, applied to each part, shows before which parts
// the stream stands still; these idle times are scaled to fit the known end of the whole work.
void tell_parts(Observer& observer, const Observer::Stream& stream, Phase phase,
                const PartsDone& done);

// Names issued work and reports its times. RankGroup, its streams and its communicators call it.
class Watch {
 public:
  // Null if there is no observer, or if it watches no lane of the group.
  static std::unique_ptr<Watch> make(Observer* observer, const RankGroupSpec& spec);

  Observer& observer() const { return observer_; }
  // The watched lanes.
  const std::vector<int>& lanes() const { return lanes_; }
  Observer::Stream stream(int lane, std::string_view name) const { return {group_, lane, name}; }

  // --- the host. CPU ranks have no host beside the compute stream and report nothing here.
  // Numbers the work's parts, and reports when they are issued.
  void issue(Phase phase, const QueuedWork& work, WorkLabel& label, const HostClock& host);
  void host_work(std::string_view name, const HostClock& host, double seconds,
                 Observer::Number number = 0);
  void host_wait(const HostClock& before, const HostClock& after, const Event::State& state);
  void host_step(const HostClock& end);

  // --- the compute stream
  // remember() saves the lanes' positions before an item is computed; the calls below report the
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
  // The number of the lane that is at index `watched` of the watched lanes.
  std::size_t at(std::size_t watched) const { return static_cast<std::size_t>(lanes_[watched]); }

  Observer& observer_;
  std::string group_;
  bool one_thread_;
  std::vector<int> devices_;  // by lane; empty = all lanes run on the platform's device
  std::vector<int> lanes_;
  std::vector<double> before_;  // by watched lane: the position before the present item
  std::vector<double> host_step_, device_step_;  // by watched lane: the start of the step
  int host_steps_ = 0, device_steps_ = 0;        // number of steps that have ended
};

}  // namespace lockstep
