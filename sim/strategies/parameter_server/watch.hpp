// Reports the events of a parameter-server run to an observer (engine/observer.hpp): steps and
// layers of workers, messages on their way, work of servers. PsRun makes it, only if there is an
// observer. Times are seconds of simulated time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "engine/observer.hpp"
#include "strategies/parameter_server/step.hpp"

namespace lockstep {

class PsWatch {
 public:
  PsWatch(Observer& observer, const PsSystem& system);

  // --- a worker
  bool watches(int worker) const { return watched_[at(worker)]; }
  // A worker has finished a step. Reports the step on its compute stream and its host, layer by
  // layer.
  void step(const PsStep& step, double end);
  // A worker's compute stream was idle.
  void waits(int worker, WaitCause cause, double start, double end);

  // --- a message on its way
  // The message is sent. Gives the parcel its number.
  void leaves(PsParcel& parcel);
  // The message has arrived. `start` is the time at which it began to travel.
  void arrives(const PsParcel& parcel, double start, double end);
  // The rest of the message has left the buffers on the route (serial servers).
  void drains(const PsParcel& parcel, double start, double end);
  // A server has worked on a push.
  void serves(const PsParcel& push, double start, double end);

 private:
  // A pulled message that has arrived at a worker.
  struct Pulled {
    Observer::Number number = 0;
    double end = -1;
  };
  const PsMessage& message(int m) const { return system_.messages[at(m)]; }
  // Name of the observer's stream for the parcel. The text exists as long as this object.
  std::string_view lane(const PsParcel& parcel);

  Observer& observer_;
  const PsSystem& system_;
  // By worker, by server: whether the observer watches it.
  std::vector<bool> watched_, watched_servers_;
  std::map<int, Pulled> pulled_;                         // by worker: the latest one
  std::set<std::string> lanes_;                          // names of streams
  std::vector<Observer::Number> served_;                 // by server: number of its latest work
  std::map<Observer::Number, Observer::Number> causes_;  // by pull: the server work that it answers
};

}  // namespace lockstep
