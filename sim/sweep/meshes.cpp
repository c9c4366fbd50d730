// Combines the sizes of a mesh's axes and leaves out combinations that do not divide the model. The
// builders of steps and pipelines check the same rules, but checking here first avoids building a
// step.
#include "sweep/meshes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "parallel/mesh.hpp"
#include "parallel/schedule.hpp"

namespace lockstep {

namespace {

// If no limits are given, context parallelism is tried for sequences of at least so many tokens.
constexpr std::int64_t long_sequence = 32'768;

// Counts of a model that the sizes of axes must divide.
struct Divisible {
  std::int64_t heads = 0, tokens = 0, experts = 0, blocks = 0;
};

// Reads the counts from the model's layers.
Divisible divisible_of(const TrainingStep& step) {
  Divisible counts;
  std::set<std::string> blocks;
  for (const Layer& layer : step.layers) {
    if (layer.is_attention) counts.heads = attribute(layer, "heads");
    if (layer.kind == "experts") counts.experts = attribute(layer, "count");
    if (!layer.block.empty()) blocks.insert(layer.block);
  }
  counts.tokens = step.tokens / step.samples;
  counts.blocks = static_cast<std::int64_t>(blocks.size());
  return counts;
}

// Whether even_cuts() can divide blocks evenly among parts: either the blocks, or the blocks with
// embedding and head as two more blocks.
bool are_even(std::int64_t blocks, std::int64_t parts) {
  return parts <= blocks && (blocks % parts == 0 || (blocks + 2) % parts == 0);
}

// Whether the schedule needs several chunks of the model per stage.
bool takes_several(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::looped_bfs;
}

// The pipelines with this number of stages: each schedule of the limits, and each number of chunks
// if the schedule has several.
std::vector<PipelineOptions> pipelines_of(const MeshLimits& limits, const PipelineOptions& base,
                                          std::int64_t stages) {
  std::vector<PipelineOptions> list;
  PipelineOptions pipeline = base;
  pipeline.stages = stages;
  if (stages == 1) return {pipeline};
  for (const PipelineSchedule schedule : limits.schedule) {
    pipeline.schedule = schedule;
    pipeline.chunks = 0;
    if (!takes_several(schedule)) list.push_back(pipeline);
    if (!takes_several(schedule)) continue;
    for (const std::int64_t chunks : limits.chunks) {
      pipeline.chunks = chunks;
      list.push_back(pipeline);
    }
  }
  return list;
}

// Whether every axis divides its count. Context parallelism divides each rank's part of the
// sequence into two halves (zigzag order), hence the factor 2.
bool divides(const ParallelOptions& mesh, const Divisible& counts, int gpus) {
  const std::int64_t tensor = mesh.tensor.size, context = mesh.context.size;
  const std::int64_t expert = mesh.expert.size, stages = mesh.pipeline.stages;
  const std::int64_t rest = gpus / stages;  // GPUs of a stage
  if (gpus % replica_gpus(mesh) != 0 || counts.heads % tensor != 0) return false;
  if (context > 1 && counts.tokens % (2 * context * tensor) != 0) return false;
  if (expert > 1 && (counts.experts % expert != 0 || rest % expert != 0)) return false;
  return stages == 1 || are_even(counts.blocks, stages * chunks_of(mesh.pipeline));
}

}  // namespace

std::vector<ParallelOptions> meshes_of(const MeshLimits& limits, const ParallelOptions& base,
                                       const TrainingStep& step, int gpus, int gpus_per_node,
                                       std::size_t& refused) {
  const Divisible counts = divisible_of(step);
  // If no limits are given, context parallelism is tried only for long sequences. Expert
  // parallelism is tried only if the model has experts.
  std::vector<std::int64_t> contexts = limits.context, experts{1};
  if (contexts.empty()) contexts = {1};
  if (limits.context.empty() && counts.tokens >= long_sequence) contexts = {1, 2, 4, 8, 16};
  if (counts.experts > 1) experts = limits.expert;
  std::vector<ParallelOptions> list;
  ParallelOptions mesh = base;
  const auto add = [&](std::int64_t expert, const PipelineOptions& pipeline) {
    mesh.expert.size = expert;
    mesh.pipeline = pipeline;
    if (replica_gpus(mesh) == 1 && expert == 1) return;
    if (divides(mesh, counts, gpus)) list.push_back(mesh);
    if (!divides(mesh, counts, gpus)) ++refused;
  };
  for (const std::int64_t tensor : limits.tensor) {
    if (tensor > gpus_per_node) continue;
    mesh.tensor.size = tensor;
    for (const std::int64_t context : contexts) {
      mesh.context.size = context;
      for (const std::int64_t expert : experts) {
        for (const std::int64_t stages : limits.pipeline) {
          for (const PipelineOptions& pipeline : pipelines_of(limits, base.pipeline, stages)) {
            add(expert, pipeline);
          }
        }
      }
    }
  }
  return list;
}

std::string mesh_name(const ParallelOptions& mesh) {
  std::vector<std::string> parts;
  const auto add = [&](const char* axis, std::int64_t size) {
    if (size > 1) parts.push_back(fmt::format("{}{}", axis, size));
  };
  add("tp", mesh.tensor.size);
  add("cp", mesh.context.size);
  add("ep", mesh.expert.size);
  add("pp", mesh.pipeline.stages);
  if (mesh.pipeline.stages > 1) parts.emplace_back(enum_name(mesh.pipeline.schedule));
  if (mesh.pipeline.stages > 1) add("x", mesh.pipeline.chunks);
  return fmt::to_string(fmt::join(parts, " "));
}

std::string mesh_setting(const ParallelOptions& mesh, bool recipe) {
  std::vector<std::string> axes;
  if (mesh.tensor.size > 1) {
    axes.push_back(fmt::format("tensor: {{size: {}{}}}", mesh.tensor.size,
                               recipe ? "" : ", sequence: true, split_loss: true"));
  }
  if (mesh.context.size > 1) axes.push_back(fmt::format("context: {}", mesh.context.size));
  if (mesh.expert.size > 1) {
    axes.push_back(
        fmt::format("expert: {{size: {}{}}}", mesh.expert.size, recipe ? "" : ", tensor: 1"));
  }
  if (mesh.pipeline.stages > 1) {
    const PipelineOptions& pipeline = mesh.pipeline;
    axes.push_back(fmt::format(
        "pipeline: {{stages: {}, schedule: {}{}}}", pipeline.stages, enum_name(pipeline.schedule),
        pipeline.chunks > 0 ? fmt::format(", chunks: {}", pipeline.chunks) : ""));
  }
  return fmt::format("parallel={{{}}}", fmt::join(axes, ", "));
}

}  // namespace lockstep
