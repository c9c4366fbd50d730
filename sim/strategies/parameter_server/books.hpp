// The books of a run: where the time of workers and servers goes, staleness of updates, ends of
// steps of all ranks, and whether steps repeat. Workers, servers and the wire report their events
// here; trace() is read once at the end. All times are differences between the same two snapshots,
// so that the parts of a step add up to its time exactly. Private to the room.
#pragma once

#include <array>
#include <deque>

#include "strategies/parameter_server/rules/change.hpp"
#include "strategies/parameter_server/run.hpp"

namespace lockstep {

// The books of one worker. Compute is booked when a step ends (step.parts). Time after compute is
// booked as it passes: exposed communication while a transfer of the worker runs, else waiting.
struct WorkerBook {
  explicit WorkerBook(int worker) : step(worker) {}
  PsStep step;              // the step under way, or the last one
  StepSplit sum;            // finished steps, and the time after compute booked so far
  StepSplit at_start;       // value of `sum` when the step began
  double booked_until = 0;  // simulated time until which compute or the time after it is booked
  int dropped = 0;          // messages of this step that came too late
  std::array<Activity, 2> transfers;  // of the worker's own messages: pushes, pulls
};

// A push that a server has taken up.
struct Contribution {
  int worker = 0;
  std::int64_t read = 0;  // version of the message on which the push was computed
  bool answered = false;  // the worker already has its weights (softsync)
};

class Books {
 public:
  explicit Books(PsRun& run);

  WorkerBook& worker(int number) { return workers_[at(number)]; }
  Activity& server(int number) { return servers_[at(number)]; }  // busy with a message
  bool done() const { return done_; }                            // the run may end
  // Number of complete steps of all ranks.
  int steps() const { return static_cast<int>(trace_.step_ends.size()); }

  void begin_step(int worker);
  // Books the worker's finished step. Call count_step() afterwards.
  void end_step(int worker);
  // Counts the worker's step. Returns true if one more step of all ranks is complete.
  bool count_step(int worker);
  // A transfer begins (+1) or ends (-1).
  void transfer(const PsParcel& parcel, int change);
  // Communication that moves no bytes over a route begins (+1) or ends (-1): a node's collective.
  void communicate(const PsParcel& parcel, int change);
  // A server takes up a push.
  void take(const PsParcel& push) { pushes_ += run_.ranks(push.worker); }
  // The push was applied when the message had had `version` updates (`used`), or dropped.
  void settle(int message, const Contribution& push, std::int64_t version, bool used);
  // The results of the run. Call it once, when the run is over.
  PsTrace trace(const RuleChanges& changes);

 private:
  // All running sums at one moment.
  struct Snapshot {
    struct Worker {
      StepSplit sum;
      int steps = 0;                    // begun
      std::array<double, 2> transfers;  // seconds of pushes and of pulls
    };
    double time = 0;
    StepSplit sum;  // over all ranks
    std::vector<Worker> workers;
    std::vector<Executor::Traffic> links;
    std::vector<double> servers;  // busy seconds
  };
  // Books the worker's time after compute up to `until`: as exposed communication if a transfer of
  // the worker runs, as waiting otherwise. Call it before the number of its transfers changes.
  void book(WorkerBook& worker, double until);
  Snapshot snapshot();
  // Whether the latest steps of all ranks are equal, so that the run may end.
  bool repeats() const;

  PsRun& run_;
  std::deque<WorkerBook> workers_;
  std::vector<Activity> servers_;
  int ranks_ = 0;                          // of all workers
  std::int64_t completed_ = 0;             // used messages of finished steps, counted by rank
  std::int64_t pushes_ = 0, dropped_ = 0;  // counted by rank, after the first step
  std::vector<std::int64_t> staleness_;    // ranks' pushes after the first step, by staleness
  bool done_ = false;
  Snapshot base_;                // the reported steps begin here
  std::deque<Snapshot> latest_;  // at the ends of the latest steps, which may be the steady state
  PsTrace trace_;
};

}  // namespace lockstep
