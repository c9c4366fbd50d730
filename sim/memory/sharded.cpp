// See sharded.hpp.
#include "memory/sharded.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace lockstep {

ShardedState::ShardedState(Tape& tape, const TrainingStep& step, const Liveness& life,
                           const MemoryPlan& plan)
    : tape_(tape), step_(step), life_(life), plan_(*plan.sharded), optimizer_(plan.optimizer) {
  unit_of_.assign(step.layers.size(), -1);
  for (const ShardedUnit& unit : plan_.units) {
    if (unit.layers.empty()) continue;  // a root unit whose layers all belong to nested ones
    Unit& mine = units_.emplace_back();
    mine.plan = &unit;
    mine.first_layer = *std::min_element(unit.layers.begin(), unit.layers.end());
    mine.last_layer = *std::max_element(unit.layers.begin(), unit.layers.end());
    mine.sharded = unit.shard_elements < unit.elements;
    for (const int layer : unit.layers) {
      unit_of_[layer] = static_cast<int>(units_.size()) - 1;
      for (const Parameter& parameter : step.layers[layer].parameters) {
        mine.parameters.push_back(parameter.count);
        mine.parameter_elements += static_cast<double>(parameter.count);
      }
    }
  }
  backward_order_.resize(units_.size());
  std::iota(backward_order_.begin(), backward_order_.end(), 0);
  std::stable_sort(backward_order_.begin(), backward_order_.end(),
                   [this](int a, int b) { return units_[a].last_layer > units_[b].last_layer; });
}

// FSDP1 holds one flat tensor per unit, FSDP2 one per parameter.
std::vector<Tape::Block> ShardedState::like_shard(const Unit& unit, MemoryKind kind,
                                                  double bytes_per_element) {
  const double bytes = unit.plan->shard_elements * bytes_per_element;
  if (fsdp1() || unit.parameters.empty()) return {tape_.allocate(kind, bytes)};
  std::vector<Block> blocks;
  for (const std::int64_t elements : unit.parameters) {
    const double part = static_cast<double>(elements) / unit.parameter_elements;
    blocks.push_back(tape_.allocate(kind, bytes * part));
  }
  return blocks;
}

void ShardedState::construct() {
  if (plan_.cpu_offload) return;
  for (const Unit& unit : units_) like_shard(unit, MemoryKind::parameters, plan_.shard_bytes);
}

bool ShardedState::needs_gather(const Unit& unit) const {
  return unit.sharded || plan_.cpu_offload || plan_.gather_bytes != plan_.shard_bytes;
}

void ShardedState::release_later(Block block) {
  tape_.free_after(block, ++event_);
}

// A caching allocator counts a reduction's input as free at once, though it cannot serve again. On
// a host it is there until the reduction is over; assumed: by the time the next unit has joined its
// gradients (as FSDP2 waits for it, fact 52).
void ShardedState::release_reduced(Block input) {
  if (!tape_.on_host()) return release_later(input);
  tape_.free(reduce_input_);
  reduce_input_ = input;
}

void ShardedState::gather(Unit& unit, bool backward) {
  // Asked even when nothing is left to gather.
  if (fsdp1() && plan_.rate_limit > 0 && static_cast<int>(limiter_.size()) >= plan_.rate_limit) {
    tape_.complete(limiter_.front());  // the host blocks until that unit's compute is over
    limiter_.pop_front();
  }
  if (unit.gathered || !needs_gather(unit)) return;
  unit.gathered = true;
  const double full = unit.plan->elements * plan_.gather_bytes;
  const double shard = unit.plan->shard_elements;
  Block on_device = nothing;
  if (plan_.cpu_offload) {
    on_device = tape_.allocate(MemoryKind::temporaries, shard * plan_.shard_bytes, unshard_stream);
  }
  if (!fsdp1()) {
    unit.gather_output = tape_.allocate(MemoryKind::gathered_parameters, full, unshard_stream);
    tape_.free(on_device);
    if (!backward) wait_for(unit, false);
    return;
  }
  Block low_precision = nothing;
  if (unit.sharded && plan_.gather_bytes != plan_.shard_bytes) {
    low_precision =
        tape_.allocate(MemoryKind::temporaries, shard * plan_.gather_bytes, unshard_stream);
  }
  unit.full = {tape_.allocate(MemoryKind::gathered_parameters, full, unshard_stream)};
  if (on_device != nothing) release_later(on_device);
  if (low_precision != nothing) release_later(low_precision);
}

// FSDP2 copies the collective's output into one tensor per parameter before the unit computes.
void ShardedState::wait_for(Unit& unit, bool backward) {
  if (unit.gather_output == nothing) return;
  if (!backward) {
    tape_.free(previous_gather_);
    previous_gather_ = unit.gather_output;
  }
  for (const std::int64_t elements : unit.parameters) {
    unit.full.push_back(tape_.allocate(MemoryKind::gathered_parameters,
                                       static_cast<double>(elements) * plan_.gather_bytes));
  }
  if (backward) tape_.free(unit.gather_output);
  unit.gather_output = nothing;
}

void ShardedState::reshard(Unit& unit) {
  if (!unit.gathered) return;
  unit.gathered = false;
  if (fsdp1()) {
    release_later(unit.full.front());
    unit.full.clear();
    if (plan_.rate_limit > 0) limiter_.push_back(event_);
  } else {
    tape_.free(unit.full);
  }
}

void ShardedState::begin_forward(bool last_micro_batch) {
  sync_ = plan_.sync_every_micro_batch || last_micro_batch;
  for (Unit& unit : units_) {
    unit.in_backward = unit.prefetched = false;
    if (unit.plan->root) gather(unit, false);
  }
}

void ShardedState::before_forward(int layer) {
  const int index = unit_of_[layer];
  if (index < 0 || layer != units_[index].first_layer) return;
  Unit& unit = units_[index];
  if (!unit.plan->root && !unit.prefetched) gather(unit, false);
  unit.prefetched = false;
  if (!plan_.forward_prefetch || index + 1 >= static_cast<int>(units_.size())) return;
  gather(units_[index + 1], false);
  units_[index + 1].prefetched = true;
}

void ShardedState::after_forward(int layer) {
  if (unit_of_[layer] < 0) return;
  Unit& unit = units_[unit_of_[layer]];
  if (layer == unit.last_layer && !unit.plan->keep_after_forward) reshard(unit);
}

void ShardedState::end_forward() {
  tape_.free(previous_gather_);
  previous_gather_ = nothing;
}

void ShardedState::before_backward(int layer) {
  if (unit_of_[layer] < 0) return;
  Unit& unit = units_[unit_of_[layer]];
  if (unit.in_backward) return;
  unit.in_backward = true;
  if (!unit.prefetched) gather(unit, true);
  unit.prefetched = false;
  wait_for(unit, true);
  if (!fsdp1() || plan_.prefetch == ShardedPrefetch::before_compute) prefetch(unit);
}

// The unit that backward reaches next.
void ShardedState::prefetch(const Unit& unit) {
  const int index = static_cast<int>(&unit - units_.data());
  const auto here = std::find(backward_order_.begin(), backward_order_.end(), index);
  for (auto next = here + 1; next != backward_order_.end(); ++next) {
    if (units_[*next].in_backward) continue;
    if (units_[*next].prefetched) return;
    gather(units_[*next], true);
    units_[*next].prefetched = true;
    return;
  }
}

void ShardedState::parameter_gradients(int layer) {
  const auto gradient = [this](double elements) {
    return tape_.allocate(MemoryKind::gradients, elements * plan_.gather_bytes);
  };
  if (const int owner = step_.layers[layer].tied_layer; owner >= 0 && unit_of_[owner] >= 0) {
    const Parameter& tied = step_.layers[owner].parameters[step_.layers[layer].tied_parameter];
    units_[unit_of_[owner]].waiting.push_back(
        {owner, step_.layers[layer].tied_parameter, gradient(static_cast<double>(tied.count))});
  }
  if (unit_of_[layer] < 0) return;
  Unit& unit = units_[unit_of_[layer]];
  const std::vector<Parameter>& parameters = step_.layers[layer].parameters;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    if (!parameters[i].trainable) continue;
    const auto elements = static_cast<double>(parameters[i].count);
    Block mine = gradient(elements);
    for (auto part = unit.waiting.begin(); part != unit.waiting.end();) {
      if (part->layer != layer || part->parameter != i) {
        ++part;
        continue;
      }
      const Block sum = gradient(elements);  // autograd adds the two out of place
      tape_.free(part->gradient);
      tape_.free(mine);
      mine = sum;
      part = unit.waiting.erase(part);
    }
    unit.gradients.push_back(mine);
  }
}

void ShardedState::after_backward(int layer) {
  if (unit_of_[layer] < 0) return;
  Unit& unit = units_[unit_of_[layer]];
  if (layer != unit.first_layer) return;
  if (!plan_.forward_prefetch) return reduce(unit);
  // The views of a prefetched unit are older than what the unit before it computes, so autograd
  // comes to them later than to all of that.
  if (late_ != nullptr) reduce(*std::exchange(late_, nullptr));
  if (unit.plan->root) return reduce(unit);
  late_ = &unit;
}

void ShardedState::reduce(Unit& unit) {
  const bool keeps = unit.plan->keep_after_forward && !unit.plan->root && !sync_;
  if (fsdp1()) {
    // Autograd joins the parameters' gradients into the flat one: twice the unit for a moment (fact
    // 40).
    if (unit.gradients.size() > 1) {
      const Block flat =
          tape_.allocate(MemoryKind::gradients, unit.plan->elements * plan_.gather_bytes);
      tape_.free(unit.gradients);
      unit.gradients.push_back(flat);
    }
    if (!keeps) reshard(unit);
    if (plan_.prefetch == ShardedPrefetch::after_reshard) prefetch(unit);
    reduce_fsdp1(unit);
  } else {
    if (!keeps) reshard(unit);
    reduce_fsdp2(unit);
  }
}

void ShardedState::reduce_fsdp1(Unit& unit) {
  if (unit.gradients.empty()) return;
  if (!unit.accumulated.empty()) {
    tape_.free(unit.gradients);  // added in place
    std::swap(unit.gradients, unit.accumulated);
  }
  if (!sync_) {
    std::swap(unit.gradients, unit.accumulated);
    return;
  }
  Block input = unit.gradients.front();
  unit.gradients.clear();
  if (plan_.reduce_bytes != plan_.gather_bytes) {
    const Block cast = tape_.allocate(MemoryKind::temporaries,
                                      unit.plan->elements * plan_.reduce_bytes, reduce_stream);
    release_later(input);
    input = cast;
  }
  if (!unit.sharded && plan_.reduce_bytes == plan_.shard_bytes) {
    return keep_shard_gradient(unit, {input});  // all-reduced in place
  }
  Block output = input;
  if (unit.sharded) {
    output = tape_.allocate(MemoryKind::gradients, unit.plan->shard_elements * plan_.reduce_bytes,
                            reduce_stream);
    release_reduced(input);
  }
  if (plan_.reduce_bytes != plan_.shard_bytes) {
    const Block cast = tape_.allocate(MemoryKind::gradients,
                                      unit.plan->shard_elements * plan_.shard_bytes, reduce_stream);
    release_later(output);
    output = cast;
  }
  keep_shard_gradient(unit, {output});
}

void ShardedState::reduce_fsdp2(Unit& unit) {
  if (unit.gradients.empty()) return;
  if (!unit.accumulated.empty()) {
    tape_.free(unit.gradients);
    std::swap(unit.gradients, unit.accumulated);
  } else if (!sync_ && plan_.reduce_bytes != plan_.gather_bytes) {
    // Kept in reduce_dtype (fact 58).
    for (Block& block : unit.gradients) {
      const Block cast =
          tape_.allocate(MemoryKind::gradients, static_cast<double>(tape_.bytes(block)) /
                                                    plan_.gather_bytes * plan_.reduce_bytes);
      tape_.free(block);
      block = cast;
    }
  }
  if (!sync_) {
    std::swap(unit.gradients, unit.accumulated);
    return;
  }
  tape_.free(reduce_input_);  // compute waits for the previous unit's reduce-scatter (fact 52)
  reduce_input_ = tape_.allocate(MemoryKind::temporaries, unit.plan->elements * plan_.reduce_bytes);
  tape_.free(unit.gradients);
  const Block output = tape_.allocate(
      MemoryKind::gradients, unit.plan->shard_elements * plan_.reduce_bytes, reduce_stream);
  if (plan_.reduce_bytes == plan_.shard_bytes) return keep_shard_gradient(unit, {output});
  const Block cast = tape_.allocate(MemoryKind::gradients,
                                    unit.plan->shard_elements * plan_.shard_bytes, reduce_stream);
  tape_.free(output);
  keep_shard_gradient(unit, {cast});
}

void ShardedState::keep_shard_gradient(Unit& unit, std::vector<Block> reduced) {
  if (plan_.cpu_offload || !unit.shard_gradients.empty()) {
    for (const Block block : reduced) {
      // Copied to the host, or added to what earlier micro-batches left.
      if (fsdp1() && plan_.cpu_offload) {
        offloaded_.push_back(block);  // the handle keeps it until backward is over (fact 44)
      } else if (fsdp1()) {
        release_later(block);
      } else {
        tape_.free(block);
      }
    }
    return;
  }
  unit.shard_gradients = std::move(reduced);
}

void ShardedState::end_backward() {
  if (late_ != nullptr) reduce(*std::exchange(late_, nullptr));
  tape_.free(reduce_input_);
  reduce_input_ = nothing;
  tape_.free(offloaded_);
  // The optimizer waits for the reductions (fact 42), and every deferred block with them.
  tape_.complete(std::numeric_limits<std::int64_t>::max());
  limiter_.clear();
}

void ShardedState::optimizer_step() {
  tape_.at(MemoryPhase::optimizer);
  if (plan_.cpu_offload) return;
  for (double rest = optimizer_.state_bytes_per_element; rest > 0 && !has_state_; rest -= 4) {
    for (const Unit& unit : units_) {
      like_shard(unit, MemoryKind::optimizer_state, std::min(rest, 4.0));
    }
  }
  has_state_ = true;
  if (optimizer_.largest_temporary_bytes_per_element > 0) {
    for (const Unit& unit : units_) {
      const double share = unit.plan->shard_elements / std::max(1.0, unit.parameter_elements);
      const auto tensor = [&](double elements) {
        tape_.free(tape_.allocate(MemoryKind::temporaries,
                                  elements * optimizer_.largest_temporary_bytes_per_element));
      };
      if (fsdp1()) {
        tensor(unit.plan->shard_elements);
      } else {
        for (const std::int64_t elements : unit.parameters) {
          tensor(static_cast<double>(elements) * share);
        }
      }
    }
  }
  if (optimizer_.temporary_bytes_per_element <= 0) return;
  std::vector<Block> temporaries;
  for (const Unit& unit : units_) {
    for (const Block block :
         like_shard(unit, MemoryKind::temporaries, optimizer_.temporary_bytes_per_element)) {
      temporaries.push_back(block);
    }
  }
  tape_.free(temporaries);
}

void ShardedState::zero_gradients() {
  for (Unit& unit : units_) tape_.free(unit.shard_gradients);
}

}  // namespace lockstep
