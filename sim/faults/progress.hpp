// The progress of a run, and its saved states: checkpoints in storage and copies in the memory of
// hosts. Used by the player of a long run.
#pragma once

#include <limits>
#include <vector>

#include "faults/long_run.hpp"

namespace lockstep {

// A point of a run's progress.
struct Mark {
  double steps = 0;
  double seconds = 0;  // of training that they took
};

// One kind of checkpoint: seconds that training stands still for it, and seconds of the write
// beside training after that. One checkpoint is written at a time.
struct Checkpointing {
  double steps_between = std::numeric_limits<double>::infinity();  // infinity = none
  double stall_seconds = 0;
  double beside_seconds = 0;
  Mark kept{};   // the last complete one; at first the beginning of the run
  Mark begun{};  // the one that is being written
  double completes = std::numeric_limits<double>::infinity();  // when; infinity = none is written

  bool writing() const { return completes < std::numeric_limits<double>::infinity(); }
  double next_steps() const { return (writing() ? begun : kept).steps + steps_between; }
  void begin(const Mark& mark, double now) {
    begun = mark;
    completes = now + beside_seconds;
  }
  void abandon() { completes = std::numeric_limits<double>::infinity(); }
  // Completes a checkpoint whose write has ended; returns whether there was one.
  bool settle(double now);
};

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
  // Begins a checkpoint of the present state; it is complete at once unless it is written beside
  // training.
  void begins_to_store(double now);
  // Everything is in storage, also states that were being written.
  void saved();
  // The host of a place has lost its memory.
  void loses_host(int place, double now);
  // After a failure: returns to the latest saved state. Returns the lost seconds of training.
  double go_back(double now);
  // Whether a restart reads from memory; it takes reading_seconds().
  bool reads_memory() const { return memory_holds_ && memory_.kept.steps >= storage_.kept.steps; }
  double reading_seconds() const;
  // A restart from memory is complete: every host holds its copies.
  void restarted();

 private:
  const LongRun& plan_;
  // Starts the copies that were due since `from`, the progress at time `then`.
  void copy(const Mark& from, double then);
  void completes_copy(double now);

  Mark done_;
  Mark base_;                      // when pace_ was told,
  double pace_ = 0, told_at_ = 0;  // and when that was
  double now_ = 0;
  Checkpointing storage_, memory_;
  bool memory_holds_ = false;  // for every share of memory_.kept some host has it
  // Number of hosts lost since then, by group; a group is the hosts that hold the same shares.
  std::vector<int> lost_hosts_;
};

}  // namespace lockstep
