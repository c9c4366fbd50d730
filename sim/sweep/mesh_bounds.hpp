// Lower bounds of a candidate with a mesh, without its simulation: seconds of a step and bytes of
// the fullest stage. Used to rule out candidates (mesh_search.hpp).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "points/points.hpp"
#include "sweep/judge.hpp"

namespace lockstep {

struct MeshBound {
  double total = 0;       // seconds of the whole run
  double bytes = 0;       // of one GPU's memory
  double dollars = 0;     // of the whole run; 0 = no price
  double capacity = 0;    // bytes that a GPU has
  std::string refused{};  // why the candidate cannot be; "" = it can
};

class MeshBounds {
 public:
  explicit MeshBounds(const InputFiles& files) : files_(files) {}

  // A job of one strategy on one GPU count. Time bound of every rank: the forwards of the stages
  // before it, its own work of all micro-batches, and the backwards of the stages before it, unless
  // the schedule splits these (for equal stages (m + p - 1) / m of the work). Work is kernels and
  // blocking exchanges. Memory bound: parameters and optimizer state, plus gradients or the
  // activations of micro-batches in flight that are not recomputed.
  MeshBound of(const Scenario& job);

 private:
  // Prefix sums over the layers, of one micro-batch.
  struct Sums {
    std::vector<double> forward, backward, dense, expert, saved;
  };
  const Sums& sums_of(const Point& point);

  InputFiles files_;
  Workloads workloads_;
  std::map<std::pair<std::shared_ptr<const TrainingStep>, int>, Sums> sums_;  // by GPUs of a stage
};

}  // namespace lockstep
