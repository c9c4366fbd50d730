// Options of DDP that have no effect in a job. Every condition mirrors the code that reads the
// option (ddp.cpp, plan.cpp, hooks.cpp); tests/questions/options_test.cpp tries all options.
#include <algorithm>

#include "strategies/ddp/ddp.hpp"
#include "strategies/ddp/plan.hpp"

namespace lockstep {

namespace {

// The tensors of each bucket: first the buckets of the first step, then the buckets of later steps.
std::vector<std::vector<int>> bucket_tensors(const Job& job, const DdpOptions& options) {
  const BucketPlan plan = ddp_buckets(job, options);
  std::vector<std::vector<int>> tensors;
  for (const auto* buckets : {&plan.first, &plan.later}) {
    for (const Bucket& bucket : *buckets) tensors.push_back(bucket.tensors);
  }
  return tensors;
}

}  // namespace

std::vector<IdleOption> Ddp::idle_options(const Job& job) const {
  IdleOptions idle;
  const DdpOptions usual, &o = options_;
  const bool alone = job.mesh.copies() == 1;
  const bool one_buffer = keeps_one_buffer(job, o);
  const std::string nothing = "one GPU reduces nothing";
  const std::string megatron = "without overlap Megatron keeps all gradients in one buffer";
  const std::string horovod = "Horovod has its own buffer";
  // A bucket size is idle if the default size gives the same buckets.
  const auto idle_size = [&](const char* option, double DdpOptions::*size) {
    if (o.*size == usual.*size) return;
    DdpOptions other = o;
    other.*size = usual.*size;
    const bool same = bucket_tensors(job, o) == bucket_tensors(job, other);
    idle.idle_if(option, true, alone || one_buffer || same,
                 alone         ? nothing
                 : o.horovod() ? horovod
                 : one_buffer  ? megatron
                               : "the gradients fall into the same buckets");
  };
  idle_size("bucket_size", &DdpOptions::bucket_bytes);
  idle_size("first_bucket_size", &DdpOptions::first_bucket_bytes);
  idle.idle_if("gradient_as_bucket_view", o.gradient_as_bucket_view,
               alone || one_buffer || o.horovod(),
               alone         ? nothing
               : o.horovod() ? horovod
                             : megatron);
  idle.idle_if("fusion", o.horovod(), alone, nothing);
  idle.idle_if("comm_hook", !std::holds_alternative<PlainHook>(o.comm_hook), alone, nothing);
  idle.idle_if("overlap", !o.overlap, alone, nothing);
  idle.idle_if("gradient_element_size", o.gradient_bytes != 0, alone && job.passes() == 1, nothing);
  const bool buffers = std::any_of(job.step->layers.begin(), job.step->layers.end(),
                                   [](const Layer& layer) { return layer.buffers > 0; });
  idle.idle_if("broadcast_buffers", !o.broadcast_buffers, alone || !buffers || o.horovod(),
               !buffers ? job.step->model + " has no buffers"
               : alone  ? "one GPU broadcasts nothing"
                        : "Horovod broadcasts none");
  idle.idle_if("sync_batch_norm", o.sync_batch_norm, shared_statistics(job, o).empty(),
               alone ? "one GPU has all statistics" : job.step->model + " has no batch norm");
  idle.idle_if("find_unused_parameters", o.find_unused_parameters,
               alone || o.static_graph || o.horovod(),
               alone         ? nothing
               : o.horovod() ? "Horovod searches nothing"
                             : "with static_graph nothing is searched");
  idle.idle_if("static_graph", o.static_graph, alone || !o.find_unused_parameters || o.horovod(),
               alone         ? nothing
               : o.horovod() ? "Horovod searches nothing"
                             : "it only spares the search of find_unused_parameters");
  idle.idle_if(
      "power_sgd_rank", o.power_sgd_rank != usual.power_sgd_rank,
      alone || !std::holds_alternative<PowerSgdHook>(o.comm_hook),
      std::holds_alternative<PowerSgdHook>(o.comm_hook) ? nothing : "comm_hook is not powersgd");
  return idle.take();
}

}  // namespace lockstep
