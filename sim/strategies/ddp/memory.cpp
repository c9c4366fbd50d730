// DDP's device memory and messages: a replica with its buckets (facts 13, 14), the state of a
// communication hook, and the buffers of communicators. The allocator plays the plan (sim/memory).
#include <nlohmann/json.hpp>

#include "strategies/common/stage_memory.hpp"
#include "strategies/ddp/ddp.hpp"
#include "strategies/ddp/plan.hpp"

namespace lockstep {

namespace {

// The memory of a rank, with the buckets of the second and later steps. PyTorch allocates these
// when it rebuilds the buckets of the first step.
MemoryPlan memory_plan(const Job& job, const DdpOptions& options) {
  MemoryPlan plan = replica_memory_plan(job);
  if (job.mesh.copies() == 1) return plan;
  double gradients = 0;
  const double share =
      plan.replicated.gradients_join_late
          ? 1.0 * parameter_bytes(job.step->precision) / gradient_bytes(job.step->precision)
          : 1;
  for (const Bucket& bucket : ddp_buckets(job, options).later) {
    plan.replicated.bucket_bytes.push_back(share * bucket.bytes);
    gradients += bucket.bytes;
  }
  if (const auto* horovod = std::get_if<HorovodFusion>(&options.fusion)) {
    plan.replicated.rebuilds_buckets = false;
    // All buckets pass through one buffer.
    if (!has_main_gradients(job.step->precision)) {
      plan.replicated.bucket_bytes.assign(1, horovod->threshold);
    }
  } else {
    plan.replicated.rebuilds_buckets = !options.find_unused_parameters || options.static_graph;
    plan.replicated.gradient_as_bucket_view = options.gradient_as_bucket_view;
  }
  const CommGroup group = gradient_group(job);
  const HookMemory hook = hook_memory(options.comm_hook, group.ranks(),
                                      ddp_gradient_bytes(options, job.step->precision));
  plan.replicated.hook_state_bytes = hook.kept * gradients;
  plan.replicated.hook_temporary_fraction = hook.in_flight;
  plan.communication_bytes = communicator_bytes(job.machine, group);
  if (job.mesh.expert > 1) {
    plan.communication_bytes += communicator_bytes(job.machine, expert_gradient_group(job));
  }
  return plan;
}

}  // namespace

std::vector<MemoryUse> Ddp::stage_memory(const Job& job, const MemoryQuery& query) const {
  return replica_memory_of_stages(job, query, [this](const Job& rank) {
    return memory_plan(rank, options_for(rank, options_));
  });
}

// The bytes of each bucket of the second and later steps, for `export --layers`.
nlohmann::ordered_json Ddp::communication(const Job& job) const {
  const DdpOptions options = options_for(job, options_);
  nlohmann::ordered_json j;
  j["bucket_cap_bytes"] = static_cast<std::int64_t>(options_.bucket_bytes);
  j["bucket_bytes"] = nlohmann::ordered_json::array();
  for (const Bucket& bucket : ddp_buckets(job, options).later) {
    j["bucket_bytes"].push_back(static_cast<std::int64_t>(bucket.bytes));
  }
  return j;
}

std::unique_ptr<Strategy> make_strategy(const DdpOptions& options) {
  return std::make_unique<Ddp>(options);
}

}  // namespace lockstep
