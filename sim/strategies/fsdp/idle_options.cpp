// Options of FSDP that have no effect in a job, and its part in the accuracy replay. Every
// condition mirrors the code that reads the option; tests/questions/options_test.cpp tries all
// options.
#include <algorithm>

#include "results/schedule.hpp"
#include "strategies/fsdp/fsdp.hpp"

namespace lockstep {

std::vector<IdleOption> Fsdp::idle_options(const Job& job) const {
  IdleOptions idle;
  const FsdpOptions usual, &o = options_;
  const bool alone = job.mesh.copies() == 1;
  const bool hybrid =
      o.sharding == Sharding::hybrid_shard || o.sharding == Sharding::hybrid_shard_zero2;
  const int group = o.shard_group > 0 ? o.shard_group : job.machine.gpus_per_node;
  idle.idle_if("sharding", o.sharding != usual.sharding, alone, "one GPU shards nothing");
  idle.idle_if("sharding", o.sharding == Sharding::hybrid_shard,
               !alone && group >= job.mesh.copies(), "one group holds all GPUs");
  idle.idle_if("shard_group", o.shard_group != 0, !hybrid,
               "only hybrid_shard and hybrid_shard_zero2 have groups");
  const bool blocks = std::any_of(job.step->layers.begin(), job.step->layers.end(),
                                  [](const Layer& layer) { return !layer.block.empty(); });
  idle.idle_if("wrap.min_parameters", o.wrap.min_parameters != 0,
               o.wrap.policy == WrapPolicy::none || (o.wrap.by_block() && blocks),
               o.wrap.policy == WrapPolicy::none ? "the whole model is one unit"
                                                 : "the units are the model's repeated blocks");
  idle.idle_if("sync_every_micro_batch", !o.sync_every_micro_batch, job.accumulation == 1,
               "the step has one micro-batch");
  idle.idle_if("autocast", o.autocast, !autocasts(job.step->precision),
               "nothing is computed in half precision that is not autocast anyway");
  const double shard = static_cast<double>(job.step->parameter_count) / job.mesh.copies();
  add_idle_options(idle, o.offload, {shard, 1}, job);
  idle.idle_if("zeropp.quantized_weights", o.zeropp.quantized_weights, alone,
               "one GPU gathers nothing");
  idle.idle_if("zeropp.quantized_gradients", o.zeropp.quantized_gradients, alone,
               "one GPU reduces nothing");
  idle.idle_if("zeropp.secondary_shards", o.zeropp.secondary_shards, shards_of_node(job) == 0,
               alone ? "one GPU gathers nothing" : "no node has some of the shards and not all");
  const bool two = o.version == 2;
  idle.idle_if("reshard_in_pipeline", o.reshard_in_pipeline, !two || job.mesh.pipeline == 1,
               two ? "there is one stage" : "version 1 under a pipeline stays gathered");
  idle.idle_if("use_orig_params", o.use_orig_params, two, "version 2 has no flat parameters");
  const bool backward = o.backward_prefetch != usual.backward_prefetch;
  if (two) {
    const std::string reason = "version 2 always works its own way";
    idle.idle_if("backward_prefetch", backward, true, reason);
    idle.idle_if("forward_prefetch", o.forward_prefetch, true, reason);
    idle.idle_if("limit_all_gathers", !o.limit_all_gathers, true, reason);
    return idle.take();
  }
  const bool keeps =
      o.sharding == Sharding::shard_grad_op || o.sharding == Sharding::hybrid_shard_zero2;
  if (!backward && !o.forward_prefetch && o.limit_all_gathers && !keeps) return idle.take();
  const std::vector<FsdpUnit> units = make_units(*job.step, o.wrap);
  const bool single_unit = units.size() == 1;
  const bool one_group = !hybrid || group >= job.mesh.copies();
  idle.idle_if("sharding", keeps, !alone && one_group && single_unit && units.front().root,
               "the whole model is one unit, which stays gathered anyway");
  const std::string nothing = alone                              ? "one GPU gathers nothing"
                              : o.sharding == Sharding::no_shard ? "no_shard gathers nothing"
                              : single_unit                      ? "the model is one unit"
                                                                 : "";
  const std::string in_backward =
      nothing.empty() && keeps ? enum_name(o.sharding) + " gathers nothing in backward" : nothing;
  idle.hardly_if("backward_prefetch", backward && !in_backward.empty(), in_backward);
  idle.hardly_if("forward_prefetch", o.forward_prefetch && !nothing.empty(), nothing);
  idle.hardly_if("limit_all_gathers", !o.limit_all_gathers && !in_backward.empty(), in_backward);
  return idle.take();
}

// The replay can only delay whole updates. If the fraction is below 1, the device's part is not
// delayed.
void Fsdp::describe_updates(const Job& job, UpdateSchedule& schedule) const {
  if (options_.offload.fraction >= 1 && delays_update(options_.offload, job)) {
    delay_updates(schedule);
  }
}

std::vector<std::string> Fsdp::not_replayed(const Job& job) const {
  std::vector<std::string> options;
  if (options_.gather_bytes == 2) options.push_back("gather_element_size");
  if (options_.reduce_bytes == 2) options.push_back("reduce_element_size");
  if (options_.zeropp.quantized_weights) options.push_back("zeropp.quantized_weights");
  if (options_.zeropp.quantized_gradients) options.push_back("zeropp.quantized_gradients");
  const OffloadOptions& offload = options_.offload;
  if (offload.fraction < 1 && delays_update(offload, job)) {
    options.push_back("offload.delayed_update");
  }
  return options;
}

}  // namespace lockstep
