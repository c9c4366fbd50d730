// Remarks about meshes (declared in advice.hpp): choices that cost much, with the time that they
// cost. The time of exchanges is computed like that of collectives, the bubble of a pipeline by its
// closed form.
#include <fmt/format.h>

#include <algorithm>

#include "core/units.hpp"
#include "questions/advice.hpp"
#include "strategies/common/mesh_groups.hpp"

namespace lockstep {

namespace {

// Seconds that the tensor-parallel exchanges of one optimizer step take on a mean stage if they run
// one after the other.
double tensor_seconds(const Job& job) {
  double seconds = 0;
  for (const Layer& layer : job.step->layers) {
    for (const auto* exchanges : {&layer.forward_exchanges, &layer.backward_exchanges}) {
      for (const AxisExchange& exchange : *exchanges) {
        if (exchange.axis == Axis::tensor) seconds += exchange_seconds(job, exchange);
      }
    }
  }
  return seconds * job.accumulation / job.mesh.pipeline;
}

// Tokens per sample of each slice.
std::vector<std::int64_t> lengths_of(const std::vector<PricedStep>& slices) {
  std::vector<std::int64_t> lengths;
  for (const PricedStep& slice : slices) {
    lengths.push_back(slice.step->tokens / slice.step->samples);
  }
  return lengths;
}

}  // namespace

std::vector<std::string> mesh_remarks(const std::vector<Point>& points) {
  std::vector<std::string> remarks;
  const auto add = [&](std::string remark) {
    if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) {
      remarks.push_back(std::move(remark));
    }
  };
  for (const Point& point : points) {
    const Job& job = point.job;
    const Mesh& mesh = job.mesh;
    if (mesh.tensor > job.machine.gpus_per_node) {
      add(fmt::format(
          "{} on {} GPUs: tensor parallelism over {} GPUs leaves the nodes of {}, and its "
          "exchanges take {} of every step on the network",
          point.label, mesh.gpus(), mesh.tensor, job.machine.gpus_per_node,
          human(tensor_seconds(job), Dimension::seconds)));
    }
    if (!job.slices.empty() && job.parallel.pipeline.slices == 0) {
      add(fmt::format("{} on {} GPUs: slices of {} tokens", point.label, mesh.gpus(),
                      fmt::join(lengths_of(job.slices), ", ")));
    }
    if (job.step->dropped_tokens > 0) {
      add(
          fmt::format("{} on {} GPUs: {:.1f} % of the tokens' choices of experts are over the "
                      "capacity and dropped",
                      point.label, mesh.gpus(), 100 * job.step->dropped_tokens));
    }
    const PipelineShape shape = pipeline_shape(job);
    if (mesh.pipeline > 1 && shape.micro_batches < shape.stages) {
      const char* pieces = shape.slices > 1 ? "token slices" : "micro-batches";
      // Bubble of equal stages: (p - 1) / (m v + p - 1) of the step, with p stages, m micro-batches
      // and v chunks per stage.
      const double rounds = static_cast<double>(shape.micro_batches) * shape.chunks;
      add(fmt::format(
          "{} on {} GPUs: {} {} do not fill {} stages: with equal stages, {:.0f} % of the step is "
          "bubble",
          point.label, mesh.gpus(), shape.micro_batches, pieces, shape.stages,
          100 * (shape.stages - 1) / (rounds + shape.stages - 1)));
    }
  }
  return remarks;
}

}  // namespace lockstep
