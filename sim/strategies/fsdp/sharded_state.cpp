// Allocates and frees what FsdpOrder says, and what autograd does in between.
#include "strategies/fsdp/sharded_state.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep {

ShardedState::ShardedState(Tape& tape, const TrainingStep& step, const Liveness&,
                           const FsdpLayout& layout, const OptimizerMemory& optimizer)
    : tape_(tape),
      step_(step),
      layout_(layout),
      optimizer_(optimizer),
      hooks_(fsdp_hooks(layout, step)),
      order_(layout, hooks_),
      owner_(step.layers.size(), -1),
      running_(step.layers.size()) {
  for (std::size_t u = 0; u < layout.units.size(); ++u) {
    const FsdpUnit& unit = layout.units[u];
    Unit& mine = units_.emplace_back();
    mine.name = unit.module.empty() ? "the root unit" : std::string_view(unit.module);
    mine.elements = layout.layouts[u].elements;
    mine.shard = layout.layouts[u].shard;
    for (const int layer : unit.layers) owner_[layer] = static_cast<int>(u);
    for (int layer = unit.first; layer <= unit.last; ++layer) {
      running_[layer].push_back(static_cast<int>(u));
    }
    for (const Parameter& parameter : unit.parameters) {
      mine.parameters.push_back(parameter.count);
      mine.names.push_back(parameter.name);
      mine.parameter_elements += static_cast<double>(parameter.count);
    }
  }
}

// FSDP1 holds one flat tensor per unit, FSDP2 one per parameter.
std::vector<Tape::Block> ShardedState::like_shard(const Unit& unit, MemoryKind kind,
                                                  double bytes_per_element) {
  const double bytes = unit.shard * bytes_per_element;
  if (fsdp1() || unit.parameters.empty()) {
    return {tape_.allocate(kind, bytes, {"shard", unit.name})};
  }
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const double part = static_cast<double>(unit.parameters[i]) / unit.parameter_elements;
    blocks.push_back(tape_.allocate(kind, bytes * part, {"shard", unit.names[i]}));
  }
  return blocks;
}

void ShardedState::construct() {
  if (layout_.options.cpu_offload) return;
  for (const Unit& unit : units_) like_shard(unit, MemoryKind::parameters, layout_.shard_bytes);
}

bool ShardedState::needs_gather() const {
  return layout_.sharded() || layout_.options.cpu_offload ||
         layout_.gather_bytes != layout_.shard_bytes;
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

void ShardedState::begin_forward(bool first_micro_batch, bool last_micro_batch) {
  first_micro_batch_ = first_micro_batch;
  order_.begin_forward(first_micro_batch,
                       layout_.options.sync_every_micro_batch || last_micro_batch);
  for (Unit& unit : units_) unit.in_backward = false;
}

void ShardedState::before_forward(int layer) {
  for (const int u : hooks_.before_forward[layer]) carry_out(order_.pre_forward(u));
}

void ShardedState::after_forward(int layer) {
  for (const int u : hooks_.after_forward[layer]) carry_out(order_.post_forward(u));
}

void ShardedState::end_forward() {
  tape_.free(previous_gather_);
  previous_gather_ = nothing;
}

void ShardedState::begin_backward_of(int u) {
  if (std::exchange(of(u).in_backward, true)) return;
  carry_out(order_.pre_backward(u));
}

// A module in the middle of what is recomputed needs its parameters before its own backward begins.
void ShardedState::before_recomputation(int layer) {
  for (const int u : running_[layer]) begin_backward_of(u);
}

void ShardedState::before_backward(int layer) {
  for (const int u : hooks_.before_backward[layer]) begin_backward_of(u);
}

void ShardedState::after_backward(int layer) {
  for (const int u : hooks_.after_backward[layer]) carry_out(order_.post_backward(u));
}

void ShardedState::carry_out(FsdpOrder::Actions actions) {
  for (const FsdpAction& action : actions) {
    Unit& unit = of(action.unit);
    switch (action.deed) {
      case FsdpDeed::unshard:
        if (action.limited) {
          tape_.complete(limiter_.front());  // the host blocks until that unit's compute is over
          limiter_.pop_front();
        }
        if (action.fresh) gather(unit);
        break;
      case FsdpDeed::use:
        use(unit, action.backward);
        break;
      case FsdpDeed::join:
        join(unit);
        break;
      case FsdpDeed::accumulate:
        accumulate(unit);
        break;
      case FsdpDeed::keep:
        keep(unit);
        break;
      case FsdpDeed::reshard:
        reshard(unit);
        if (action.limited) limiter_.push_back(event_);
        break;
      case FsdpDeed::reduce:
        fsdp1() ? reduce_fsdp1(unit) : reduce_fsdp2(unit);
        break;
    }
  }
}

void ShardedState::gather(Unit& unit) {
  if (unit.gathered || !needs_gather()) return;
  unit.gathered = true;
  const double full = unit.elements * layout_.gather_bytes;
  Block on_device = nothing;
  if (layout_.options.cpu_offload) {
    on_device = tape_.allocate(MemoryKind::temporaries, unit.shard * layout_.shard_bytes,
                               {"shard", unit.name}, unshard_stream);
  }
  if (!fsdp1()) {
    unit.gather_output = tape_.allocate(MemoryKind::gathered_parameters, full,
                                        {"gathered", unit.name}, unshard_stream);
    tape_.free(on_device);
    return;
  }
  Block low_precision = nothing;
  if (layout_.sharded() && layout_.gather_bytes != layout_.shard_bytes) {
    low_precision = tape_.allocate(MemoryKind::temporaries, unit.shard * layout_.gather_bytes,
                                   {"shard", unit.name}, unshard_stream);
  }
  unit.full = {tape_.allocate(MemoryKind::gathered_parameters, full, {unit.name}, unshard_stream)};
  if (on_device != nothing) release_later(on_device);
  if (low_precision != nothing) release_later(low_precision);
}

// FSDP2 copies the collective's output into one tensor per parameter before the unit computes.
void ShardedState::use(Unit& unit, bool backward) {
  if (unit.gather_output == nothing) return;
  if (!backward) {
    tape_.free(previous_gather_);
    previous_gather_ = unit.gather_output;
  }
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    unit.full.push_back(tape_.allocate(
        MemoryKind::gathered_parameters,
        static_cast<double>(unit.parameters[i]) * layout_.gather_bytes, {unit.names[i]}));
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
  } else {
    tape_.free(unit.full);
  }
}

// Autograd joins the parameters' gradients into the flat one: twice the unit for a moment (fact 40).
void ShardedState::join(Unit& unit) {
  if (unit.gradients.size() < 2) return;
  const Block flat = tape_.allocate(MemoryKind::gradients, unit.elements * layout_.gather_bytes,
                                    {"all", unit.name});
  tape_.free(unit.gradients);
  unit.gradients.push_back(flat);
}

// In place.
void ShardedState::accumulate(Unit& unit) {
  tape_.free(unit.gradients);
  std::swap(unit.gradients, unit.accumulated);
}

void ShardedState::keep(Unit& unit) {
  if (!fsdp1() && first_micro_batch_ && layout_.reduce_bytes != layout_.gather_bytes) {
    for (Block& block : unit.gradients) {  // in reduce_dtype (fact 58)
      const Block cast = tape_.allocate(
          MemoryKind::gradients,
          static_cast<double>(tape_.bytes(block)) / layout_.gather_bytes * layout_.reduce_bytes,
          {"kept", unit.name});
      tape_.free(block);
      block = cast;
    }
  }
  std::swap(unit.gradients, unit.accumulated);
}

void ShardedState::parameter_gradients(int layer) {
  const auto gradient = [this](const Parameter& of) {
    return tape_.allocate(MemoryKind::gradients,
                          static_cast<double>(of.count) * layout_.gather_bytes, {of.name});
  };
  if (const int owner = step_.layers[layer].tied_layer; owner >= 0 && owner_[owner] >= 0) {
    const Parameter& tied = step_.layers[owner].parameters[step_.layers[layer].tied_parameter];
    of(owner_[owner])
        .waiting.push_back({owner, step_.layers[layer].tied_parameter, gradient(tied)});
  }
  if (owner_[layer] < 0) return;
  Unit& unit = of(owner_[layer]);
  const std::vector<Parameter>& parameters = step_.layers[layer].parameters;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    if (!parameters[i].trainable) continue;
    Block mine = gradient(parameters[i]);
    for (auto part = unit.waiting.begin(); part != unit.waiting.end();) {
      if (part->layer != layer || part->parameter != i) {
        ++part;
        continue;
      }
      const Block sum = gradient(parameters[i]);  // autograd adds the two out of place
      tape_.free(part->gradient);
      tape_.free(mine);
      mine = sum;
      part = unit.waiting.erase(part);
    }
    unit.gradients.push_back(mine);
  }
}

void ShardedState::reduce_fsdp1(Unit& unit) {
  if (unit.gradients.empty()) return;
  Block input = unit.gradients.front();
  unit.gradients.clear();
  if (layout_.reduce_bytes != layout_.gather_bytes) {
    const Block cast = tape_.allocate(MemoryKind::temporaries, unit.elements * layout_.reduce_bytes,
                                      {"gradients", unit.name}, reduce_stream);
    release_later(input);
    input = cast;
  }
  if (!layout_.sharded() && layout_.reduce_bytes == layout_.shard_bytes) {
    return keep_shard_gradient(unit, {input});  // all-reduced in place
  }
  Block output = input;
  if (layout_.sharded()) {
    output = tape_.allocate(MemoryKind::gradients, unit.shard * layout_.reduce_bytes,
                            {"shard", unit.name}, reduce_stream);
    release_reduced(input);
  }
  if (layout_.reduce_bytes != layout_.shard_bytes) {
    const Block cast = tape_.allocate(MemoryKind::gradients, unit.shard * layout_.shard_bytes,
                                      {"shard", unit.name}, reduce_stream);
    release_later(output);
    output = cast;
  }
  keep_shard_gradient(unit, {output});
}

void ShardedState::reduce_fsdp2(Unit& unit) {
  if (unit.gradients.empty()) return;
  tape_.free(reduce_input_);  // compute waits for the previous unit's reduce-scatter (fact 52)
  reduce_input_ = tape_.allocate(MemoryKind::temporaries, unit.elements * layout_.reduce_bytes,
                                 {"gradients", unit.name});
  tape_.free(unit.gradients);
  const Block output = tape_.allocate(MemoryKind::gradients, unit.shard * layout_.reduce_bytes,
                                      {"shard", unit.name}, reduce_stream);
  if (layout_.reduce_bytes == layout_.shard_bytes) return keep_shard_gradient(unit, {output});
  const Block cast = tape_.allocate(MemoryKind::gradients, unit.shard * layout_.shard_bytes,
                                    {"shard", unit.name}, reduce_stream);
  tape_.free(output);
  keep_shard_gradient(unit, {cast});
}

void ShardedState::keep_shard_gradient(Unit& unit, std::vector<Block> reduced) {
  if (layout_.options.cpu_offload || !unit.shard_gradients.empty()) {
    for (const Block block : reduced) {
      // Copied to the host, or added to what earlier micro-batches left.
      if (fsdp1() && layout_.options.cpu_offload) {
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
  tape_.free(reduce_input_);
  reduce_input_ = nothing;
  tape_.free(offloaded_);
  // The optimizer waits for the reductions (fact 42), and every deferred block with them.
  tape_.complete(std::numeric_limits<std::int64_t>::max());
}

void ShardedState::optimizer_step() {
  tape_.at(MemoryPhase::optimizer);
  if (layout_.options.cpu_offload) return;
  for (double rest = optimizer_.state_bytes_per_element; rest > 0 && !has_state_; rest -= 4) {
    for (const Unit& unit : units_) {
      like_shard(unit, MemoryKind::optimizer_state, std::min(rest, 4.0));
    }
  }
  has_state_ = true;
  if (optimizer_.largest_temporary_bytes_per_element > 0) {
    for (const Unit& unit : units_) {
      const double share = unit.shard / std::max(1.0, unit.parameter_elements);
      const auto tensor = [&](double elements) {
        tape_.touch(MemoryKind::temporaries,
                    elements * optimizer_.largest_temporary_bytes_per_element,
                    {"update", unit.name});
      };
      if (fsdp1()) {
        tensor(unit.shard);
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
