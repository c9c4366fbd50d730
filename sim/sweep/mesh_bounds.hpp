// Lower bounds for a candidate with a mesh, computed without a simulation: seconds of the whole run
// and bytes of the fullest stage. mesh_search.hpp uses them to rule out candidates.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "points/points.hpp"
#include "sweep/judge.hpp"

namespace lockstep {

// The bounds of one candidate.
struct MeshBound {
  double total = 0;       // seconds of the whole run; 0 = no bound
  double bytes = 0;       // memory that one GPU needs at least
  double dollars = 0;     // of the whole run; 0 = no bound or no price
  double capacity = 0;    // memory that a GPU has
  std::string refused{};  // why the candidate is impossible; "" = it is possible
};

// Computes bounds. Caches computed steps and sums, so candidates with equal layers should follow
// each other.
class MeshBounds {
 public:
  explicit MeshBounds(const InputFiles& files) : files_(files) {}

  // Bounds of a job with one strategy on one GPU count. Throws ConfigError if the job is refused;
  // if only the pipeline's schedule refuses it, sets `refused` instead.
  //
  // Time: each rank waits until the first micro-batch has passed the stages before it, and then
  // does its own work for all micro-batches. At the end, the last backward passes the earlier
  // stages, unless the schedule splits backward into two parts. For example, with p equal stages of
  // one chunk and m micro-batches, a step takes at least (m + p - 1) / m times as long as one
  // rank's work in it. Work is kernels, and the exchanges between ranks that no compute can hide.
  // Jobs with token slices, and jobs with stragglers that may make ranks faster, have no bound of
  // time.
  //
  // Memory: parameters and optimizer state of the stage, plus the larger of two numbers: its
  // gradients, or its saved activations of all micro-batches in flight. Activations that are
  // recomputed do not count.
  MeshBound of(const Scenario& job);

 private:
  // Prefix sums over the layers of one micro-batch: seconds of forward and backward, number of
  // parameters outside and inside of experts, bytes of saved activations.
  struct Sums {
    std::vector<double> forward, backward, dense, expert, saved;
  };
  const Sums& sums_of(const Point& point);

  InputFiles files_;
  Workloads workloads_;
  std::map<std::pair<std::shared_ptr<const TrainingStep>, int>, Sums> sums_;  // by GPUs of a stage
};

}  // namespace lockstep
