// What an observer is told of workers, messages and servers. Exists only where somebody listens.
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
  // Servers on its core took so long from it, when its step was `at` seconds old but for that.
  void loses(int worker, double at, double seconds);
  void step(const PsStep& step, double end);
  void waits(int worker, WaitCause cause, double start, double end);

  // --- a message on its way: numbered when it leaves, told when it has arrived
  void leaves(PsParcel& parcel);
  void arrives(const PsParcel& parcel, double start, double end);
  // The rest of it, from buffers on the way.
  void drains(const PsParcel& parcel, double start, double end);
  // A server has worked on a push.
  void serves(const PsParcel& push, double start, double end);

 private:
  struct Loss {
    double at = 0, seconds = 0;
  };
  struct Pulled {
    Observer::Number number = 0;
    double end = -1;
  };
  const PsMessage& message(int m) const { return system_.messages[at(m)]; }
  double issue(int worker, const PsDone& done, double start, Observer::Number first);
  std::string_view lane(const PsParcel& parcel);

  Observer& observer_;
  const PsSystem& system_;
  std::vector<bool> watched_, watched_servers_;
  std::map<int, std::vector<Loss>> losses_;              // by worker, of the step under way
  std::map<int, Pulled> pulled_;                         // by worker, the latest
  std::set<std::string> lanes_;                          // their names
  std::vector<Observer::Number> served_;                 // the latest work of each server
  std::map<Observer::Number, Observer::Number> causes_;  // of a pull: the work that it answers
};

}  // namespace lockstep
