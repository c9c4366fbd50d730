// The progress of a run, and its saved states: checkpoints in storage and copies in the memory of
// hosts. The player of a long run (player.hpp) reports when training continues and at which pace.
#pragma once

#include <limits>
#include <vector>

#include "faults/long_run.hpp"

namespace lockstep {

// How far a run has come.
struct Mark {
  double steps = 0;
  double seconds = 0;  // of training that these steps took
};

// One kind of checkpoint. Training stands still for stall_seconds; then the write continues beside
// training for beside_seconds. Only one checkpoint is written at the same time:
//   training  |  stall  |  training, maybe slower  |
//   write               |  beside                  |
//                       begin()                    completes
struct Checkpointing {
  double steps_between = std::numeric_limits<double>::infinity();  // infinity = none
  double stall_seconds = 0;
  double beside_seconds = 0;
  // The progress that the last complete checkpoint saved; at first the beginning of the run.
  Mark kept{};
  // The progress that the checkpoint in progress saves, and the time at which it will be complete;
  // infinity = no checkpoint is in progress.
  Mark begun{};
  double completes = std::numeric_limits<double>::infinity();

  bool writing() const { return completes < std::numeric_limits<double>::infinity(); }
  // The progress, in steps, at which the next checkpoint is due.
  double next_steps() const { return (writing() ? begun : kept).steps + steps_between; }
  void begin(const Mark& mark, double now) {
    begun = mark;
    completes = now + beside_seconds;
  }
  void abandon() { completes = std::numeric_limits<double>::infinity(); }
  // Completes the checkpoint if its write has ended. Returns whether it did.
  bool settle(double now);
};

// The progress, and the states to which a failure may return it.
class Progress {
 public:
  explicit Progress(const LongRun& plan);

  const Mark& done() const { return done_; }
  const Checkpointing& storage() const { return storage_; }

  // From `now` on, training makes `pace` steps per second; 0 = training stands still.
  void goes_on_at(double pace, double now);
  // Updates the progress and the complete checkpoints to the time `now`. During training, a copy in
  // memory begins by itself, as soon as it is due and the previous copy is complete.
  void reach(double now);
  // Sets the progress to an exact number of steps.
  void arrives_at(double steps) { done_.steps = steps; }
  // Begins to write a checkpoint of the present state. It is complete at once if no write runs
  // beside training.
  void begins_to_store(double now);
  // The present state is in storage; a write in progress is abandoned.
  void saved();
  // The host at this place of the job has lost its memory, with the copies in it. A copy in
  // progress is abandoned.
  void loses_host(int place, double now);
  // After a failure: abandons checkpoints in progress and goes back to the latest saved state.
  // Returns the seconds of training that are lost.
  double go_back(double now);
  // Whether a restart reads from memory: every share of the copies has survived, and storage has no
  // later state.
  bool reads_memory() const { return memory_holds_ && memory_.kept.steps >= storage_.kept.steps; }
  // The seconds in which a restart reads the state.
  double reading_seconds() const;
  // Records that every host has its copies again, after a restart or a complete copy.
  void restarted();

 private:
  const LongRun& plan_;
  // Begins the copies in memory that were due since progress `from`, which was reached at time
  // `then`.
  void copy(const Mark& from, double then);
  // Completes a copy in memory if its time has come.
  void completes_copy(double now);

  Mark done_;
  // The progress and the time at the latest call of goes_on_at().
  Mark base_;
  double pace_ = 0, told_at_ = 0;  // pace in steps per second; time of goes_on_at()
  double now_ = 0;
  Checkpointing storage_, memory_;
  // Whether each share of memory_.kept is in the memory of at least one host.
  bool memory_holds_ = false;
  // By group, the number of hosts lost since the latest copy or restart. A group is the hosts that
  // hold the same shares.
  std::vector<int> lost_hosts_;
};

}  // namespace lockstep
