// The books of a run: time of workers and servers, staleness of updates, ends of steps of all
// workers, and whether steps repeat. PsRun's parts report every event here; results are read once
// at the end. All results lie between the same two snapshots, so that the parts add up exactly.
// Private to the room.
#pragma once

#include <array>
#include <deque>

#include "strategies/parameter_server/rules/change.hpp"
#include "strategies/parameter_server/run.hpp"

namespace lockstep {

struct WorkerBook {
  explicit WorkerBook(int worker) : step(worker) {}
  PsStep step;
  StepSplit sum;                      // whole steps, and the time after compute booked so far
  StepSplit at_start;                 // the sum when the step began
  double booked_until = 0;            // of the time after compute
  int dropped = 0;                    // messages of this step that came too late
  std::array<Activity, 2> transfers;  // by direction
};

// A push, and the version of the message that it was computed on.
struct Contribution {
  int worker = 0;
  std::int64_t read = 0;
  bool answered = false;
};

class Books {
 public:
  explicit Books(PsRun& run);

  WorkerBook& worker(int number) { return workers_[at(number)]; }
  Activity& server(int number) { return servers_[at(number)]; }
  bool done() const { return done_; }
  int steps() const { return static_cast<int>(trace_.step_ends.size()); }

  void begin_step(int worker);
  // The worker has finished its step.
  void end_step(int worker);
  // Counts the step. Returns true if one more step of all ranks is complete.
  bool count_step(int worker);
  // A transfer begins (+1) or ends (-1).
  void transfer(const PsParcel& parcel, int change);
  // The same for messages that move no bytes over a route.
  void communicate(const PsParcel& parcel, int change);
  // A server takes up a push.
  void take(const PsParcel& push) { pushes_ += run_.ranks(push.worker); }
  // The push was applied to `version` of the message (used), or dropped.
  void settle(int message, const Contribution& push, std::int64_t version, bool used);
  PsTrace trace(const RuleChanges& changes);

 private:
  struct Snapshot {
    struct Worker {
      StepSplit sum;
      int steps = 0;  // begun
      std::array<double, 2> transfers;
    };
    double time = 0;
    StepSplit sum;  // over all ranks
    std::vector<Worker> workers;
    std::vector<Executor::Traffic> links;
    std::vector<double> servers;
  };
  // Time after compute: exposed communication while an own transfer runs, waiting otherwise.
  void book(WorkerBook& worker, double until);
  Snapshot snapshot();
  bool repeats() const;

  PsRun& run_;
  std::deque<WorkerBook> workers_;
  std::vector<Activity> servers_;
  int ranks_ = 0;
  std::int64_t completed_ = 0;  // messages of ranks' steps that were used
  std::int64_t pushes_ = 0, dropped_ = 0;
  std::vector<std::int64_t> staleness_;  // histogram
  bool done_ = false;
  Snapshot base_;                // what is reported begins here
  std::deque<Snapshot> latest_;  // of the steps that may turn out to be the steady state
  PsTrace trace_;
};

}  // namespace lockstep
