// A point of a scenario in terms that all emitted formats share, and the functions that write the
// formats. Used by emitted_config.cpp. To add a format, add a function here and a row to `emitters`
// there.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "training_configs/emitted_config.hpp"

namespace lockstep {

// Reads the point for the writers, and gathers their notes. Keeps references to the question's
// scenario and point, which must outlive the plan.
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
  // The point's entry of `strategies:`, and the mesh that holds for it.
  const StrategyEntry& entry;
  const ParallelOptions& parallel;
  // Seconds that the run takes at most; 0 = not known.
  double longest;
  std::vector<std::string> notes;

  int gpus() const { return point.job.mesh.gpus(); }
  // GPUs used on each node; the last node may be used in part.
  int per_node() const { return std::min(gpus(), point.job.machine.gpus_per_node); }
  int nodes() const { return (gpus() + per_node() - 1) / per_node(); }
  // Micro-batches of a step.
  std::int64_t accumulation() const { return point.job.accumulation; }
  // Tokens of a sample; 0 = the model has none.
  std::int64_t sequence() const { return point.tokens_per_sample; }
  // The entry's override, else the scenario's value.
  bool recomputes() const {
    return entry.activation_checkpointing.value_or(scenario.activation_checkpointing);
  }
  Recompute recompute() const { return entry.recompute.value_or(scenario.recompute); }
  Precision precision() const { return point.precision; }
  // The element type of the products.
  bool is_fp16() const {
    return precision() == Precision::amp_fp16 || precision() == Precision::pure_fp16;
  }
  bool is_bf16() const { return precision() >= Precision::amp_bf16 && !is_fp16(); }
  // fp32 weights, of which autocast makes 16-bit copies (torch.autocast).
  bool is_autocast() const {
    return precision() == Precision::amp_fp16 || precision() == Precision::amp_bf16;
  }
  // Any axis beside data parallelism.
  bool has_mesh() const {
    return parallel.tensor.size > 1 || parallel.context.size > 1 || parallel.pipeline.stages > 1 ||
           parallel.expert.size > 1;
  }

  // The options of the point's strategy; null if it is another strategy.
  const DdpOptions* ddp() const { return std::get_if<DdpOptions>(&entry.options); }
  const FsdpOptions* fsdp() const { return std::get_if<FsdpOptions>(&entry.options); }
  const ZeroOptions* zero() const { return std::get_if<ZeroOptions>(&entry.options); }

  // Throws ConfigError at the strategy: "FORMAT cannot say WHAT".
  [[noreturn]] void refuse(const std::string& format, const std::string& what) const;
  // Throws ConfigError for strategies other than ddp, fsdp and zero, and for a zero that
  // all-reduces gradients without splitting state by elements.
  void must_be_data_parallel(const std::string& format) const;
  // Throws ConfigError for features that the format cannot express: torch.compile except graphs
  // like `but`, hand-fused kernels unless `fused_too`, CUDA graphs, and low-precision products
  // except torchao's beside compiled blocks.
  void must_be_eager(const std::string& format, Compile but, bool fused_too) const;

  // The optimizer as torch.optim calls it.
  std::string optimizer_class() const {
    constexpr std::array names{"SGD", "Adam", "AdamW", "RMSprop", "Lion", "Lamb", "Muon"};
    return names[static_cast<std::size_t>(scenario.optimizer.name)];
  }
};

// Each throws ConfigError for features that its format cannot express, and notes values that it
// leaves open.
EmittedFile deepspeed_file(EmitPlan& plan);
EmittedFile accelerate_file(EmitPlan& plan);
EmittedFile trainer_file(EmitPlan& plan);
EmittedFile torchtitan_file(EmitPlan& plan);
EmittedFile megatron_file(EmitPlan& plan);
EmittedFile sbatch_file(EmitPlan& plan);
EmittedFile skypilot_file(EmitPlan& plan);

}  // namespace lockstep
