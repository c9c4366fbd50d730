// The records of a run: the parts of the time of workers and servers, the staleness of updates, the
// ends of steps of all ranks, and whether steps repeat. Workers, servers and Wire report their
// events; trace() returns the results at the end. All times are differences between the same two
// snapshots, so that the parts of a step add up exactly to its time. Private to
// sim/strategies/parameter_server.
#pragma once

#include <array>
#include <deque>

#include "strategies/parameter_server/rules/change.hpp"
#include "strategies/parameter_server/run.hpp"

namespace lockstep {

// The records of one worker. Compute is added when a step ends (step.parts). Time after compute is
// added as it passes: as exposed communication while a transfer of the worker runs, otherwise as
// waiting.
struct WorkerBook {
  explicit WorkerBook(int worker) : step(worker) {}
  PsStep step;         // the present or the last step
  StepSplit sum;       // finished steps, plus the time after compute that was added so far
  StepSplit at_start;  // value of `sum` when the step began
  // Simulated time up to which all of the worker's time is assigned to a part.
  double booked_until = 0;
  int dropped = 0;                    // number of messages of this step that came too late
  std::array<Activity, 2> transfers;  // the worker's own pushes, and its pulls
};

// A push that a server has received.
struct Contribution {
  int worker = 0;
  std::int64_t read = 0;  // version of the message on which its gradients were computed
  bool answered = false;  // whether the worker already has its weights (softsync)
};

class Books {
 public:
  explicit Books(PsRun& run);

  WorkerBook& worker(int number) { return workers_[at(number)]; }
  // Runs while the server is busy with a message.
  Activity& server(int number) { return servers_[at(number)]; }
  bool done() const { return done_; }  // whether the run may end
  // Number of complete steps of all ranks (PsTrace).
  int steps() const { return static_cast<int>(trace_.step_ends.size()); }

  void begin_step(int worker);
  // Adds the worker's finished step to the records. Call count_step() afterwards.
  void end_step(int worker);
  // Counts the worker's step. Returns whether one more step of all ranks is complete.
  bool count_step(int worker);
  // A transfer begins (+1) or ends (-1). When it ends, its bytes are counted.
  void transfer(const PsParcel& parcel, int change);
  // A collective of a node, which moves no bytes over a route, begins (+1) or ends (-1).
  void communicate(const PsParcel& parcel, int change);
  // A server begins to work on a push.
  void take(const PsParcel& push) { pushes_ += run_.ranks(push.worker); }
  // The push was applied (`used`) or dropped, when the message had had `version` updates.
  void settle(int message, const Contribution& push, std::int64_t version, bool used);
  // The results of the run.
  // REQUIRES: the run has ended, and this is the only call.
  PsTrace trace(const RuleChanges& changes);

 private:
  // All running sums at one time.
  struct Snapshot {
    struct Worker {
      StepSplit sum;
      int steps = 0;                    // number of steps begun
      std::array<double, 2> transfers;  // seconds of pushes and of pulls
    };
    double time = 0;
    StepSplit sum;  // over all ranks
    std::vector<Worker> workers;
    std::vector<Executor::Traffic> links;
    std::vector<double> servers;  // busy seconds
  };
  // Adds the worker's time after compute, up to `until`: as exposed communication if a transfer of
  // the worker runs, otherwise as waiting.
  // REQUIRES: it is called before the number of the worker's transfers changes.
  void book(WorkerBook& worker, double until);
  Snapshot snapshot();
  // Whether the latest steps of all ranks are equal, so that the run may end.
  bool repeats() const;

  PsRun& run_;
  std::deque<WorkerBook> workers_;
  std::vector<Activity> servers_;
  int ranks_ = 0;  // number of ranks of all workers
  // Number of used messages of finished steps; a message of a worker counts once for each rank.
  std::int64_t completed_ = 0;
  std::int64_t pushes_ = 0, dropped_ = 0;  // counted by rank, after the first step
  // By staleness: number of ranks' pushes after the first step.
  std::vector<std::int64_t> staleness_;
  bool done_ = false;
  Snapshot base_;                // the reported steps begin at this snapshot
  std::deque<Snapshot> latest_;  // at the ends of the latest steps, which may be the steady state
  PsTrace trace_;
};

}  // namespace lockstep
