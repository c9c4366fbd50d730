// Peak memory of training on one rank. The allocations and frees of several steps are carried out,
// in the host's program order, on a model of the caching allocator; comments call this "playing" a
// step. The result is not a sum of sizes, because a peak depends on the order of allocations and on
// fragmentation. Strategies fill in a plan and call step_memory() or pipeline_memory();
// docs/memory.md has the formula of every number.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hardware/device.hpp"
#include "memory/memory_plan.hpp"
#include "memory/moments.hpp"
#include "parallel/schedule.hpp"
#include "workload/joined_parts.hpp"
#include "workload/step.hpp"

namespace lockstep {

// Whether the device is a CPU, which uses its host's memory through malloc.
bool is_host(const Device& device);

// The result; all sizes in bytes. allocated <= reserved <= device.
struct StepMemory {
  double allocated = 0;  // peak of live blocks (torch.cuda.max_memory_allocated)
  double reserved = 0;   // peak of segments (torch.cuda.max_memory_reserved)
  double device = 0;     // reserved + context + communication buffers (nvidia-smi)
  std::string moment;    // moment of the allocated peak: "backward of layer4.2.conv3"
  std::map<std::string, double> at_peak;  // bytes by kind; their sum is `allocated`
  double after_forward = 0;  // live activations at the end of the last step's first forward pass
  bool out_of_memory = false;
  std::string failed_at;  // moment of the first allocation that did not fit
  double shortfall = 0;   // bytes that the device lacks; 0 = it fits
  int retries = 0;        // times that cached segments had to be returned to the device
};

// Cache of results for one step on one device, by plan. It contains plans that were played to their
// end without reaching the device's capacity, because their result does not depend on the memory
// outside the allocator.
class KnownMemory {
 public:
  // The result of an equal plan if it fits into `capacity` bytes; else nullptr. Plans that differ
  // only in communication buffers, or in a number of micro-batches above two, are equal. Valid
  // until the next add().
  const StepMemory* find(const MemoryPlan& plan, std::int64_t capacity) const;
  void add(const MemoryPlan& plan, const StepMemory& memory);

 private:
  std::vector<std::pair<MemoryPlan, StepMemory>> known_;
};

// Options of a query.
struct MemoryQuery {
  MemoryLog* log = nullptr;  // filled with the moments of the step with the highest peak
  // Limit for searches: playing stops early beyond it, and the result is a lower bound.
  double most = std::numeric_limits<double>::infinity();  // bytes on the device
  // Cache of this step and device. step_memory() uses it on GPUs if `log` is null.
  KnownMemory* known = nullptr;
};

// Memory of a rank that holds the whole model, without a pipeline.
StepMemory step_memory(const TrainingStep& step, const MemoryPlan& plan, const Device& device,
                       const MemoryQuery& query = {});

// Tensors that the host's program of a pipeline holds in addition to the tensors that backward
// needs.
struct PipelineHolding {
  // true = as PyTorch 2.15: between the halves of a split backward the whole graph remains
  // (stage_backward_input retains it), the model's first part runs all of backward in the weights'
  // half, and losses hold the activation that arrived at the last part. false = as the zero-bubble
  // paper and Megatron-LM: between the halves only the operands of products for weights' gradients
  // remain.
  bool keep_outputs = true;
  // Whether the outputs of the last part of all micro-batches live until the next step (PyTorch's
  // `return_outputs`).
  bool return_outputs = false;
  // Number of the step's micro-batches that the program leaves out, if it is the program of a
  // settled_shape() (parallel/schedule.hpp). Their inputs, and the tensors that they hold to the
  // end of the step, are counted.
  int further_micro_batches = 0;
};

// Memory of one rank of a pipeline. `rank`: the rank's parts of the model, joined. `program`: the
// rank's program from with_messages() of parallel/schedule.hpp. `plan`: the plan for the joined
// parts; its `micro_batches` is ignored, because the program has them.
StepMemory pipeline_memory(const JoinedParts& rank, const RankProgram& program,
                           const PipelineHolding& holding, const MemoryPlan& plan,
                           const Device& device, const MemoryQuery& query = {});

// Memory of a parameter server on a GPU: parameters, receive buffers, optimizer state, and one
// update.
StepMemory server_memory(const ServerPlan& plan, const Device& device);

}  // namespace lockstep
