// An endless stream of failures, by rate and at given times. Used by the player of a long run.
#pragma once

#include <cstdint>
#include <map>
#include <queue>
#include <tuple>
#include <vector>

#include "faults/options.hpp"

namespace lockstep {

enum class Failing { node, server, job, worker, link, leaves, joins, slows };

// Failures per second of a single unit; a node's rate includes its GPUs. `workers`: rate of all
// workers of one node together.
struct FailureSpeeds {
  double node = 0, server = 0, job = 0, workers = 0, link = 0;
  double slows = 0;  // how often a node becomes slow
};

struct FailureEvent {
  double seconds = 0;
  Failing what = Failing::job;
  int number = 0;  // which server; of all others but the job which node
};

// Failures at given times, the earliest first.
std::vector<ScheduledFailure> in_time(std::vector<ScheduledFailure> given);

// Only nodes in use fail, with their workers and links: after enters() and until leaves(). Draws
// are keyed by (seed, run, unit, number of the unit's failure), so that no draw depends on other
// events.
class Failures {
 public:
  Failures(const FailureSpeeds& speeds, int servers, const std::vector<ScheduledFailure>& given,
           int workers_per_node, std::uint64_t seed, int run);

  void enters(int node, double now);
  void leaves(int node) { ++generation_[node]; }
  double next_seconds();  // infinity = never
  FailureEvent take();    // the next one; of what stays in use, the one after it is drawn

 private:
  struct Coming : FailureEvent {
    int generation = 0;
    bool given = false;
    bool operator>(const Coming& other) const {
      return std::tuple(seconds, what, number, given) >
             std::tuple(other.seconds, other.what, other.number, other.given);
    }
  };
  void draw(Failing what, int number, double now);
  bool outdated(const Coming& coming) const;

  FailureSpeeds speeds_;
  std::uint64_t seed_;
  std::uint32_t run_;
  std::priority_queue<Coming, std::vector<Coming>, std::greater<>> coming_;
  std::map<std::pair<Failing, int>, std::uint32_t> drawn_;
  std::map<int, int> generation_;  // of nodes
};

}  // namespace lockstep
