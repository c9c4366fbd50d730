// An endless stream of failures in the order of time: failures that are drawn by rate, and failures
// at given times. The player of a long run (player.hpp) takes one event after the other and reports
// which nodes are in use.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "faults/options.hpp"

namespace lockstep {

// The kind of an event. The values are part of the keys of random draws.
enum class Failing { node, server, job, worker, link, leaves, joins, slows };

// Failures per second of a single unit. A node's rate includes the rates of its GPUs. `workers` is
// the rate of all workers of one node together.
struct FailureSpeeds {
  double node = 0, server = 0, job = 0, workers = 0, link = 0;
  double slows = 0;  // rate at which one node becomes slow
};

// An event of the stream.
struct FailureEvent {
  double seconds = 0;  // since the start of the run
  Failing what = Failing::job;
  int number = 0;  // of the server for Failing::server, 0 for Failing::job, otherwise of the node
};

// The given failures, sorted by time.
std::vector<ScheduledFailure> in_time(std::vector<ScheduledFailure> given);

// The stream of failures. By rate, nodes, their workers and their links fail, and nodes become
// slow, only while the node is in use: between enters() and leaves(). The key of a draw is (seed,
// run, kind of failure, unit, number of the unit's draw of this kind), so that no random number
// depends on other events.
class Failures {
 public:
  // `given` are the events at given times. `run` is the number of the run among the repetitions.
  Failures(const FailureSpeeds& speeds, int servers, const std::vector<ScheduledFailure>& given,
           int workers_per_node, std::uint64_t seed, int run);

  // enters(): a node begins to be in use, and its next failures are drawn. leaves(): the node is no
  // longer in use, and its drawn failures become invalid.
  void enters(int node, double now);
  void leaves(int node) { ++generation_[node]; }
  double next_seconds();  // time of the next event; infinity = never
  // Takes the next event. If the event was drawn, draws the unit's next failure of this kind,
  // unless the node or its link fails: the node is then no longer in use.
  // REQUIRES: next_seconds() is finite.
  FailureEvent take();

 private:
  // A failure that is drawn or given. `generation` is the node's generation at the time of the
  // draw. If the node has left since, a drawn failure is invalid.
  struct Coming : FailureEvent {
    int generation = 0;
    bool given = false;
    bool operator>(const Coming& other) const {
      return std::tuple(seconds, what, number, given) >
             std::tuple(other.seconds, other.what, other.number, other.given);
    }
  };
  // Draws the next failure of a unit after `now`.
  void draw(Failing what, int number, double now);
  bool outdated(const Coming& coming) const;

  FailureSpeeds speeds_;
  std::uint64_t seed_;
  std::uint32_t run_;
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming_;
  // Number of draws of each unit so far.
  std::map<std::pair<Failing, int>, std::uint32_t> drawn_;
  std::map<int, int> generation_;  // by node: how often it has left
};

}  // namespace lockstep
