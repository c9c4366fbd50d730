// Reports workers, messages and servers to an observer. Exists only in runs with an observer.
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
  void step(const PsStep& step, double end);
  void waits(int worker, WaitCause cause, double start, double end);

  // --- a message on its way: numbered when it leaves, told when it has arrived
  void leaves(PsParcel& parcel);
  void arrives(const PsParcel& parcel, double start, double end);
  // The rest of the message drains from buffers on the way.
  void drains(const PsParcel& parcel, double start, double end);
  // A server has worked on a push.
  void serves(const PsParcel& push, double start, double end);

 private:
  struct Pulled {
    Observer::Number number = 0;
    double end = -1;
  };
  const PsMessage& message(int m) const { return system_.messages[at(m)]; }
  std::string_view lane(const PsParcel& parcel);

  Observer& observer_;
  const PsSystem& system_;
  std::vector<bool> watched_, watched_servers_;
  std::map<int, Pulled> pulled_;                         // by worker, the latest
  std::set<std::string> lanes_;                          // their names
  std::vector<Observer::Number> served_;                 // the latest work of each server
  std::map<Observer::Number, Observer::Number> causes_;  // of a pull: the work that it answers
};

}  // namespace lockstep
