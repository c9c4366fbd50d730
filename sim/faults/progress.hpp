// The progress of a run, and what outlasts a failure: checkpoints in storage and copies in the
// memory of hosts.
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

// One kind of checkpoint: how long training stands still for it, and how long it is written beside
// training after that. One is written at a time.
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
  // Whether one has become complete.
  bool settle(double now);
};

class Progress {
 public:
  explicit Progress(const LongRun& plan);

  const Mark& done() const { return done_; }
  const Checkpointing& storage() const { return storage_; }

  // From now on it trains at so many steps per second; 0 = it does not.
  void goes_on_at(double pace, double now);
  // Notes what is done and complete by now. Copies in memory begin by themselves, each when it is due
  // and the one before is complete.
  void reach(double now);
  // It has reached a step, to the last bit.
  void arrives_at(double steps) { done_.steps = steps; }
  // A checkpoint of this moment begins where it is written beside training; else it is complete.
  void begins_to_store(double now);
  // Everything is in storage, whatever else was being written.
  void saved();
  // The host of a place has lost its memory.
  void loses_host(int place, double now);
  // After a failure: back to what is kept. Seconds of training that are lost.
  double go_back(double now);
  // Whether a restart reads from memory; it takes reading_seconds().
  bool reads_memory() const { return memory_holds_ && memory_.kept.steps >= storage_.kept.steps; }
  double reading_seconds() const;
  // Such a restart is over: every host holds its copies.
  void restarted();

 private:
  const LongRun& plan_;
  // Copies that have begun since `from`, which was at `then`.
  void copy(const Mark& from, double then);
  void completes_copy(double now);

  Mark done_;
  Mark base_;                      // when pace_ was told,
  double pace_ = 0, told_at_ = 0;  // and when that was
  double now_ = 0;
  Checkpointing storage_, memory_;
  bool memory_holds_ = false;  // for every share of memory_.kept some host has it
  // Hosts of each group that were lost since then: a group are the hosts that hold the same shares.
  std::vector<int> lost_hosts_;
};

}  // namespace lockstep
