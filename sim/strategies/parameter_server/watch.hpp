// What an observer is told of workers, messages and servers. Exists only where somebody listens.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/observer.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// Of a worker's step, in the order in which its device did it; seconds since the step began.
struct PsDone {
  const PsSegment* segment = nullptr;  // null: it stood still
  WaitCause cause = WaitCause::host_bound;
  DeviceSlowdown slowness;
  double issued = 0;  // when the host began to
  double start = 0, end = 0;
};

class PsWatch {
 public:
  PsWatch(Observer& observer, const PsSystem& system);

  // --- a worker
  bool watches(int worker) const { return watched_[static_cast<std::size_t>(worker)]; }
  // Servers on its core took so long from it, when its step was `at` seconds old but for that.
  void loses(int worker, double at, double seconds);
  void step(int worker, int index, const std::vector<PsDone>& done, double start, double end);
  void waits(int worker, WaitCause cause, double start, double end);

  // --- a message on its way: numbered when it leaves, told when it has arrived
  Observer::Number leaves(bool pull, int message);
  void arrives(bool pull, int worker, int message, Observer::Number number, double start,
               double end);
  // The rest of it, from buffers on the way.
  void drains(int worker, int message, Observer::Number number, double start, double end);
  // A server has worked on a push.
  void serves(int message, Observer::Number push, double start, double end);

 private:
  struct Loss {
    double at = 0, seconds = 0;
  };
  struct Pulled {
    Observer::Number number = 0;
    double end = -1;
  };
  const PsMessage& message(int m) const { return system_.messages[static_cast<std::size_t>(m)]; }
  double issue(int worker, const PsDone& done, double start, Observer::Number first);
  std::string_view lane(bool pull, int worker, int message);

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
