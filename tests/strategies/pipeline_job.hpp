// A toy job whose model is cut into pipeline stages. Used by tests of pipelines.
#pragma once

#include <numeric>

#include "toy_job.hpp"

namespace lockstep::testing {

// Costs of layers whose backward is half input gradient and half weight gradient. They are so long
// that host times do not matter.
class StageCosts : public ToyCosts {
 public:
  StageCosts() {
    forward = {0, 1e5, 1e5};
    backward = {0, 2e5, 2e5};
    optimizer_seconds = 0;
    stream_bytes_per_second = 1e30;
  }
  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = ToyCosts::layer(step, index);
    cost.input_gradient =
        cost.weight_gradient = {0, cost.backward.busy / 2, cost.backward.busy / 2};
    return cost;
  }
};

// A job with one layer for each part of the model. Messages take no time.
inline Job pipeline_job(
    PipelineSchedule schedule, const PipelineShape& shape, int data = 1, int tensor = 1,
    std::shared_ptr<const ComputeCosts> costs = std::make_shared<StageCosts>()) {
  Job job = toy_job(shape.parts(), 1000, 1, std::move(costs));
  job.mesh = {.pipeline = shape.stages, .data = data, .context = 1, .tensor = tensor};
  job.accumulation = shape.micro_batches;
  job.parallel.pipeline.stages = shape.stages;
  job.parallel.pipeline.schedule = schedule;
  job.parallel.pipeline.chunks = shape.chunks;
  std::vector<int> first_layers(static_cast<std::size_t>(shape.parts()));
  std::iota(first_layers.begin(), first_layers.end(), 0);
  job.parts = std::make_shared<const std::vector<ModelPart>>(cut(*job.step, first_layers, true));
  job.communication_scale = 0;
  return job;
}

}  // namespace lockstep::testing
