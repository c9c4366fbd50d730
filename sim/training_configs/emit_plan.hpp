// A point (one strategy on one GPU count) of a scenario in terms that all emitted formats share,
// and the functions that write the formats. emitted_config.cpp uses it. A new format needs a
// function here and a row in `emitters` in emitted_config.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "training_configs/emitted_config.hpp"

namespace lockstep {

// Answers the writers' questions about the point, and collects their notes. The plan refers to the
// question's scenario and point, which must outlive it.
class EmitPlan {
 public:
  explicit EmitPlan(const EmitQuestion& question)
      : scenario(*question.scenario),
        point(*question.point),
        entry(scenario.strategies[point.entry]),
        parallel(parallel_of(scenario, entry)),
        longest(question.longest_seconds) {}

  const Scenario& scenario;
  const Point& point;
  // The point's entry of `strategies:`, and the mesh of this entry.
  const StrategyEntry& entry;
  const ParallelOptions& parallel;
  // Upper bound of the run's duration in seconds; 0 = not known.
  double longest;
  std::vector<std::string> notes;

  int gpus() const { return point.job.mesh.gpus(); }
  // GPUs used on each node; on the last node, fewer may be used.
  int per_node() const { return std::min(gpus(), point.job.machine.gpus_per_node); }
  int nodes() const { return (gpus() + per_node() - 1) / per_node(); }
  // Micro-batches of a step.
  std::int64_t accumulation() const { return point.job.accumulation; }
  // Tokens of a sample; 0 = the model has none.
  std::int64_t sequence() const { return point.tokens_per_sample; }
  // The entry's value if it has one, otherwise the scenario's.
  bool recomputes() const {
    return entry.activation_checkpointing.value_or(scenario.activation_checkpointing);
  }
  Recompute recompute() const { return entry.recompute.value_or(scenario.recompute); }
  Precision precision() const { return point.precision; }
  // Whether matrix products have this element type.
  bool is_fp16() const {
    return precision() == Precision::amp_fp16 || precision() == Precision::pure_fp16;
  }
  bool is_bf16() const { return precision() >= Precision::amp_bf16 && !is_fp16(); }
  // Whether weights are fp32, and torch.autocast makes 16-bit copies.
  bool is_autocast() const {
    return precision() == Precision::amp_fp16 || precision() == Precision::amp_bf16;
  }
  // Whether any axis other than data parallelism is used.
  bool has_mesh() const {
    return parallel.tensor.size > 1 || parallel.context.size > 1 || parallel.pipeline.stages > 1 ||
           parallel.expert.size > 1;
  }

  // The options of the point's strategy; null if the point has another strategy.
  const DdpOptions* ddp() const { return std::get_if<DdpOptions>(&entry.options); }
  const FsdpOptions* fsdp() const { return std::get_if<FsdpOptions>(&entry.options); }
  const ZeroOptions* zero() const { return std::get_if<ZeroOptions>(&entry.options); }

  // Throws ConfigError at the strategy: "FORMAT cannot say WHAT".
  [[noreturn]] void refuse(const std::string& format, const std::string& what) const;
  // Throws ConfigError for strategies other than ddp, fsdp and zero, and for zero with `reduction:
  // all-reduce` unless `partition: elements`.
  void must_be_data_parallel(const std::string& format) const;
  // Throws ConfigError for features that the format cannot express: torch.compile other than `but`,
  // hand-fused kernels unless `fused_too`, CUDA graphs, and low-precision products. torchao's fp8
  // products are allowed if `but` is Compile::blocks.
  void must_be_eager(const std::string& format, Compile but, bool fused_too) const;

  // The class name of the optimizer in Python, for example in torch.optim.
  std::string optimizer_class() const {
    constexpr std::array names{"SGD", "Adam", "AdamW", "RMSprop", "Lion", "Lamb", "Muon"};
    return names[static_cast<std::size_t>(scenario.optimizer.name)];
  }
};

// The writers of the formats. Each throws ConfigError for features that its format cannot express,
// and adds notes on values that it leaves open.
EmittedFile deepspeed_file(EmitPlan& plan);
EmittedFile accelerate_file(EmitPlan& plan);
EmittedFile trainer_file(EmitPlan& plan);
EmittedFile torchtitan_file(EmitPlan& plan);
EmittedFile megatron_file(EmitPlan& plan);
EmittedFile sbatch_file(EmitPlan& plan);
EmittedFile skypilot_file(EmitPlan& plan);

}  // namespace lockstep
