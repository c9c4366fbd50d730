// Computes the bounds of a mesh from sums over the layers of each stage. The step is built once
// without the pipeline, on the GPUs of one stage. A stage's sum is then a difference of two prefix
// sums, for every cut into stages.
#include "sweep/mesh_bounds.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "costs/optimizer.hpp"
#include "parallel/schedule.hpp"
#include "points/measured.hpp"
#include "strategies/common/mesh_groups.hpp"
#include "workload/partition.hpp"

namespace lockstep {

namespace {

// The job without its pipeline, on the GPUs of one stage, which then have all layers.
Scenario without_pipeline(const Scenario& job) {
  Scenario alone = job;
  alone.gpus = {job.gpus.front() / static_cast<int>(job.parallel.pipeline.stages)};
  alone.parallel.pipeline = {};
  alone.stragglers = {};  // least_step_seconds() decides whether stragglers allow a bound
  alone.faults.reset();
  return alone;
}

// Bytes that a rank holds for each parameter of its layers: parameter and optimizer state, and
// gradient. With sharding, a rank holds only a part of these bytes.
struct Held {
  double dense = 0, expert = 0;
  double dense_gradient = 0, expert_gradient = 0;
};

// The bytes per parameter with this strategy. FSDP shards everything among the copies of a
// parameter, ZeRO shards only the optimizer state (`recommend` tries stage 1), DDP shards nothing.
Held held_by(const Point& point, const StrategyOptions& strategy) {
  const Job& job = point.job;
  const double element = parameter_bytes(point.precision);
  const double state = optimizer_state_bytes(job.optimizer, point.precision);
  const double copies = job.mesh.copies();
  const double expert_copies = std::max(copies, double{1} * job.mesh.expert_copies());
  if (std::holds_alternative<FsdpOptions>(strategy)) {
    return {(element + state) / copies, (element + state) / expert_copies, element / copies,
            element / expert_copies};
  }
  if (std::holds_alternative<ZeroOptions>(strategy)) {
    return {element + state / copies, element + state / expert_copies, element, element};
  }
  return {element + state, element + state, element, element};
}

// For each rank, the largest number of micro-batches that wait for their backward at the same time,
// over all chunks.
std::vector<int> fewest_in_flight(PipelineSchedule schedule, const PipelineShape& shape) {
  if (shape.stages == 1) return {1};
  std::vector<int> counts;
  for (const RankProgram& program : programs_of(schedule, settled_shape(schedule, shape))) {
    counts.push_back(in_flight(program).until_input);
  }
  return counts;
}

}  // namespace

const MeshBounds::Sums& MeshBounds::sums_of(const Point& point) {
  const Job& job = point.job;
  const auto [known, is_new] = sums_.try_emplace({job.step, job.mesh.stage_gpus()});
  Sums& sums = known->second;
  if (!is_new) return sums;
  // Seconds of exchanges that kernels must wait for. A lower bound leaves out exchanges beside
  // compute.
  const auto waited = [&](const std::vector<AxisExchange>& exchanges) {
    double seconds = 0;
    for (const AxisExchange& exchange : exchanges) {
      if (exchange.beside == Beside::nothing) seconds += exchange_seconds(job, exchange);
    }
    return seconds;
  };
  for (auto* list : {&sums.forward, &sums.backward, &sums.dense, &sums.expert, &sums.saved}) {
    list->push_back(0);
  }
  // A storage that several layers save counts once. Copies of weights do not count here.
  std::set<int> storages;
  const auto add = [](std::vector<double>& list, double more) {
    list.push_back(list.back() + more);
  };
  for (std::size_t i = 0; i < job.step->layers.size(); ++i) {
    const Layer& layer = job.step->layers[i];
    const LayerCost cost = job.costs->layer(*job.step, i);
    double dense = 0, expert = 0, saved = 0;
    for (const SavedTensor& tensor : layer.saved) {
      if (layer.checkpointed || tensor.weight_copy || tensor.produced_by < 0) continue;
      if (storages.insert(tensor.storage).second) saved += tensor.bytes;
    }
    for (const Parameter& parameter : layer.parameters) {
      if (parameter.trainable)
        (parameter.expert ? expert : dense) += static_cast<double>(parameter.count);
    }
    add(sums.forward, cost.forward.busy + waited(layer.forward_exchanges));
    add(sums.backward, cost.backward.busy + waited(layer.backward_exchanges));
    add(sums.dense, dense);
    add(sums.expert, expert);
    add(sums.saved, saved);
  }
  return sums;
}

MeshBound MeshBounds::of(const Scenario& job) {
  MeshBound bound;
  const PipelineOptions& pipeline = job.parallel.pipeline;
  const Scenario alone = without_pipeline(job);
  const Point point = expand(alone, files_.of(alone), workloads_).front();
  const int micro_batches = point.job.accumulation;
  // A schedule may exclude this number of stages, chunks or micro-batches.
  const PipelineShape shape{static_cast<int>(pipeline.stages), chunks_of(pipeline), micro_batches,
                            0};
  if (shape.stages > 1) {
    const auto misfits = misfits_of(pipeline.schedule, shape);
    if (!misfits.empty()) bound.refused = misfits.front().message;
    if (!misfits.empty()) return bound;
  }
  const Sums& sums = sums_of(point);
  // The layers of a part of the model are first[part] .. first[part + 1].
  std::vector<int> first = even_cuts(*point.job.step, pipeline, shape.parts(), job.parallel.where);
  first.push_back(static_cast<int>(point.job.step->layers.size()));
  const auto of_part = [&](const std::vector<double>& list, int part) {
    const auto at = static_cast<std::size_t>(part);
    return list[static_cast<std::size_t>(first[at + 1])] -
           list[static_cast<std::size_t>(first[at])];
  };
  const Held held = held_by(point, job.strategies.front().options);
  const std::vector<int> in_flight_of = fewest_in_flight(pipeline.schedule, shape);
  // `before`: seconds that one micro-batch spends in the stages before the rank.
  double seconds = 0, before = 0;
  for (int rank = 0; rank < shape.stages; ++rank) {
    // Sum over the parts on this rank. A lower bound of the activations in flight takes the part
    // that saves least.
    double work = 0, bytes = 0, gradients = 0, saved = std::numeric_limits<double>::infinity();
    for (int part = 0; part < shape.parts(); ++part) {
      if (place_of(pipeline.schedule, shape, part).rank != rank) continue;
      const double dense = of_part(sums.dense, part), expert = of_part(sums.expert, part);
      work += of_part(sums.forward, part) + of_part(sums.backward, part);
      bytes += held.dense * dense + held.expert * expert;
      gradients += held.dense_gradient * dense + held.expert_gradient * expert;
      saved = std::min(saved, of_part(sums.saved, part));
    }
    saved *= in_flight_of[static_cast<std::size_t>(rank)];
    seconds = std::max(seconds, before + micro_batches * work);
    bound.bytes = std::max(bound.bytes, bytes + std::max(gradients, saved));
    before += of_part(sums.forward, rank);
    if (!splits_backward(pipeline.schedule)) before += of_part(sums.backward, rank);
  }
  Point asked = point;
  asked.job.stragglers = job.stragglers;
  const int gpus = job.gpus.front();
  // With token slices the bound would not hold: slices of one sequence are in all stages at the
  // same time, and the causal mask makes earlier slices cheaper.
  const bool whole = pipeline.slices == 1;
  if (whole && least_step_seconds(asked) > 0) bound.total = seconds * steps_of_run(job, point);
  bound.capacity = point.job.machine.device.memory_bytes;
  bound.dollars = bound.total / 3600 * point.job.machine.price_per_gpu_hour *
                  rented_gpus(job, gpus, point.job.machine);
  return bound;
}

}  // namespace lockstep
