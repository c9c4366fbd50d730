// Peak memory of training: one replica's steps played in the host's program order through the
// caching allocator. See docs/memory.md for every number's formula.
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

// Whether the device is a CPU, which trains in the memory of its host.
bool is_host(const Device& device);

struct StepMemory {
  double allocated = 0;                   // peak of live blocks (torch.cuda.max_memory_allocated)
  double reserved = 0;                    // peak of segments (torch.cuda.max_memory_reserved)
  double device = 0;                      // reserved + context + communication buffers (nvidia-smi)
  std::string moment;                     // of the allocated peak: "backward of layer4.2.conv3"
  std::map<std::string, double> at_peak;  // bytes by kind; their sum is `allocated`
  double after_forward = 0;  // live activations at the end of the last step's first forward pass
  bool out_of_memory = false;
  std::string failed_at;  // moment of the first allocation that did not fit
  double shortfall = 0;   // bytes the device would need more; 0 when it fits
  int retries = 0;        // times cached segments had to be given back to go on
};

// Of one step on one device, what plans need that were played to their end without running into
// the device's capacity: that is the same whatever lies outside the allocator.
class KnownMemory {
 public:
  const StepMemory* find(const MemoryPlan& plan, std::int64_t capacity) const;
  void add(const MemoryPlan& plan, const StepMemory& memory);

 private:
  std::vector<std::pair<MemoryPlan, StepMemory>> known_;
};

struct MemoryQuery {
  MemoryLog* log = nullptr;  // filled with the moments of the step with the highest peak
  // What needs more need not be played to its end: its peak may be higher still.
  double most = std::numeric_limits<double>::infinity();  // bytes on the device
  KnownMemory* known = nullptr;  // of this step on this device; is added to
};

StepMemory step_memory(const TrainingStep& step, const MemoryPlan& plan, const Device& device,
                       const MemoryQuery& query = {});

// Tensors that the host's program of a pipeline holds beside those that backward needs.
struct PipelineHolding {
  // As PyTorch 2.15: the graph stays from the gradient of a part's input to those of its weights
  // (stage_backward_input retains it), the model's first part does everything with the latter, losses keep
  // what arrived at the last part. false: only what products for weights' gradients need stays between the
  // two (the zero-bubble paper, Megatron-LM).
  bool keep_outputs = true;
  // The last part's outputs of all micro-batches, until the next step (PyTorch's `return_outputs`).
  bool return_outputs = false;
  // Micro-batches of the step beyond those of the program, which is that of a settled shape
  // (parallel/schedule.hpp): their batch is there, and what is held to the end of the step.
  int further_micro_batches = 0;
};

// Memory of a rank of a pipeline. `program`: its program with messages (with_messages of
// parallel/schedule.hpp). `plan` is that of the joined parts; its micro-batches are the program's.
StepMemory pipeline_memory(const JoinedParts& rank, const RankProgram& program,
                           const PipelineHolding& holding, const MemoryPlan& plan,
                           const Device& device, const MemoryQuery& query = {});

StepMemory server_memory(const ServerPlan& plan, const Device& device);

}  // namespace lockstep
