// The progress of a run, and its saved states: checkpoints in storage and copies in the memory of
// hosts. Used by the player of a long run, which says when training goes on and at which pace.
#pragma once

#include <limits>
#include <vector>

#include "faults/long_run.hpp"

namespace lockstep {

// A point of a run's progress.
struct Mark {
  double steps = 0;
  double seconds = 0;  // of training that the steps took
};

// One kind of checkpoint: seconds that training stands still for it, and seconds of the write
// beside training after that. One checkpoint is written at a time:
//   training  |  stall  |  training, maybe slower  |
//   write               |  beside                  |
//                       begin()                    completes
struct Checkpointing {
  double steps_between = std::numeric_limits<double>::infinity();  // infinity = none
  double stall_seconds = 0;
  double beside_seconds = 0;
  // The last complete checkpoint; at first the beginning of the run.
  Mark kept{};
  // The checkpoint that is being written, and the time at which it completes; infinity = none.
  Mark begun{};
  double completes = std::numeric_limits<double>::infinity();

  bool writing() const { return completes < std::numeric_limits<double>::infinity(); }
  // Progress in steps at which the next checkpoint is due.
  double next_steps() const { return (writing() ? begun : kept).steps + steps_between; }
  void begin(const Mark& mark, double now) {
    begun = mark;
    completes = now + beside_seconds;
  }
  void abandon() { completes = std::numeric_limits<double>::infinity(); }
  // Completes a checkpoint whose write has ended; returns whether there was one.
  bool settle(double now);
};

// Steps done, and the states to which a failure may return.
class Progress {
 public:
  explicit Progress(const LongRun& plan);

  const Mark& done() const { return done_; }
  const Checkpointing& storage() const { return storage_; }

  // From `now` on training makes `pace` steps per second; 0 = it stands still.
  void goes_on_at(double pace, double now);
  // Updates progress and complete checkpoints to `now`. A copy in memory begins by itself when it
  // is due and the previous one is complete.
  void reach(double now);
  // Sets the progress to an exact number of steps.
  void arrives_at(double steps) { done_.steps = steps; }
  // Begins a checkpoint of the present state. Without a write beside training it is complete at
  // once.
  void begins_to_store(double now);
  // The present state is in storage; a write in progress is void.
  void saved();
  // The host at this place of the job has lost its memory, and the copies in it.
  void loses_host(int place, double now);
  // After a failure: returns to the latest saved state. Returns the lost seconds of training.
  double go_back(double now);
  // Whether a restart reads from memory: every share of the copies survives, and storage has no
  // later state.
  bool reads_memory() const { return memory_holds_ && memory_.kept.steps >= storage_.kept.steps; }
  // Seconds that a restart takes to read the state.
  double reading_seconds() const;
  // Every host holds its copies: after a restart, or after a complete copy.
  void restarted();

 private:
  const LongRun& plan_;
  // Starts the copies that were due since `from`, the progress at time `then`.
  void copy(const Mark& from, double then);
  // Completes a copy in memory whose time has come.
  void completes_copy(double now);

  Mark done_;
  // Progress and time at the latest goes_on_at().
  Mark base_;
  double pace_ = 0, told_at_ = 0;  // pace in steps per second
  double now_ = 0;
  Checkpointing storage_, memory_;
  // Whether some host has each share of memory_.kept.
  bool memory_holds_ = false;
  // Number of hosts lost since the copy, by group; a group is the hosts that hold the same shares.
  std::vector<int> lost_hosts_;
};

}  // namespace lockstep
