// Plays the memory of an FSDP rank: executes the actions of FsdpOrder on UnitTensors, and allocates
// the gradients that autograd makes between them. Each rule names its source in PyTorch 2.15's
// FSDP, autograd or pipelining code.
#include "strategies/fsdp/sharded_state.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/index.hpp"
#include "memory/optimizer_state.hpp"

namespace lockstep {

namespace {
constexpr Tape::Block nothing = CachingAllocator::nothing;

// Allocates a parameter's unsharded gradient.
Tape::Block gradient(Tape& tape, const Parameter& of, double element_bytes) {
  return tape.allocate(MemoryKind::gradients,
                       static_cast<double>(of.gradient_elements()) * element_bytes, {of.name});
}
// Allocates the secondary shards of ZeRO++, which stay.
void make_secondary_shards(Tape& tape, const FsdpLayout& layout,
                           const std::vector<ShardedUnit>& units) {
  for (const ShardedUnit& unit : units) {
    if (unit.expert) continue;
    const double elements = unit.elements / layout.node_groups.ranks;
    tape.allocate(MemoryKind::parameters, elements * layout.gather_bytes,
                  {"secondary shard", unit.name});
  }
}

// FSDP1 allocates each unit's flat tensors once on the compute stream and frees them (PyTorch 2.15,
// _flat_param.py, init_flat_param_attributes). Their segments stay in the cache.
void make_flat_tensors(Tape& tape, const FsdpLayout& layout,
                       const std::vector<ShardedUnit>& units) {
  for (const ShardedUnit& unit : units) {
    const auto touch = [&](double elements, double bytes_per_element) {
      tape.touch(MemoryKind::temporaries, elements * bytes_per_element, {"all", unit.name});
    };
    const bool casts = unit.gather_bytes < layout.shard_bytes;
    if (casts) touch(unit.shard, unit.gather_bytes);
    touch(unit.elements, unit.gather_bytes);
    if (casts) touch(unit.elements, layout.shard_bytes);
  }
}

}  // namespace

ShardedState::ShardedState(Tape& tape, const TrainingStep& step, const Liveness&,
                           const FsdpLayout& layout, const OptimizerMemory& optimizer)
    : tape_(tape),
      step_(step),
      layout_(layout),
      optimizer_(optimizer),
      hooks_(fsdp_hooks(layout, step)),
      order_(layout, hooks_),
      tensors_(tape, layout),
      owner_(step.layers.size(), -1),
      running_(step.layers.size()) {
  for (std::size_t u = 0; u < layout.units.size(); ++u) {
    const FsdpUnit& unit = layout.units[u];
    ShardedUnit& sharded = units_.emplace_back();
    sharded.name = unit.module.empty() ? "the root unit" : std::string_view(unit.module);
    sharded.expert = unit.expert;
    sharded.elements = layout.layouts[u].elements;
    sharded.shard = layout.layouts[u].shard;
    sharded.trained_share = layout.layouts[u].trained;
    sharded.gather_bytes = layout.gather_bytes_of(unit);
    sharded.reduce_bytes = layout.reduce_bytes_of(unit);
    sharded.gathered_share = unit.mean_gathered_bytes(sharded.gather_bytes) / sharded.gather_bytes;
    for (const int layer : unit.layers) owner_[layer] = static_cast<int>(u);
    for (int layer = unit.first; layer <= unit.last; ++layer) {
      running_[layer].push_back(static_cast<int>(u));
    }
    for (const Parameter& parameter : unit.parameters) {
      sharded.parameters.push_back(parameter.count);
      sharded.names.push_back(parameter.name);
      sharded.trained.push_back(parameter.trainable);
      sharded.stored_bytes.push_back(parameter.stored_bytes);
      sharded.parameter_elements += static_cast<double>(parameter.count);
    }
  }
}

// Allocates the shards, and with ZeRO++ the secondary shards of each node.
void ShardedState::construct() {
  if (!layout_.options.offloads_parameters()) {
    for (const ShardedUnit& unit : units_) {
      tensors_.like_shard(unit, MemoryKind::parameters, layout_.shard_bytes);
    }
    if (layout_.secondary_shards()) make_secondary_shards(tape_, layout_, units_);
  }
  const bool fsdp1 = layout_.options.version == 1;
  if (fsdp1 && layout_.sharded() && !tape_.on_host()) make_flat_tensors(tape_, layout_, units_);
}

void ShardedState::begin_forward(bool first_micro_batch, bool last_micro_batch) {
  order_.begin_forward(first_micro_batch,
                       layout_.options.sync_every_micro_batch || last_micro_batch);
  for (ShardedUnit& unit : units_) unit.in_backward = false;
}

void ShardedState::before_forward(int layer) {
  for (const int u : hooks_.before_forward[layer]) carry_out(order_.pre_forward(u));
}

void ShardedState::after_forward(int layer) {
  for (const int u : hooks_.after_forward[layer]) carry_out(order_.post_forward(u));
}

void ShardedState::end_forward() {
  tensors_.end_forward();
}

// The pre-backward hook of a unit, which runs once in a backward.
void ShardedState::begin_backward_of(int u) {
  if (std::exchange(units_[at(u)].in_backward, true)) return;
  carry_out(order_.pre_backward(u));
}

// The recomputation of a checkpoint may run a module before the module's own backward begins. Its
// parameters are then gathered for the recomputation.
void ShardedState::before_backward(int layer, bool recomputes) {
  const std::vector<int>& units = recomputes ? running_[layer] : hooks_.before_backward[layer];
  for (const int u : units) begin_backward_of(u);
}

void ShardedState::after_backward(int layer) {
  for (const int u : hooks_.after_backward[layer]) carry_out(order_.post_backward(u));
}

// The memory of each action. In the rate limiter, the host blocks until the compute of a freed unit
// has ended; deferred releases up to this event are then complete.
void ShardedState::carry_out(FsdpOrder::Actions actions) {
  for (const FsdpAction& action : actions) {
    ShardedUnit& unit = units_[at(action.unit)];
    switch (action.deed) {
      case FsdpDeed::unshard:
        if (action.limited) {
          tape_.complete(limiter_.front());
          limiter_.pop_front();
        }
        if (action.fresh) tensors_.gather(unit, action.backward);
        break;
      case FsdpDeed::use:
        tensors_.use(unit, action.backward);
        break;
      case FsdpDeed::join:
        tensors_.join(unit);
        break;
      case FsdpDeed::accumulate:
        tape_.free(unit.gradients);  // added in place
        std::swap(unit.gradients, unit.accumulated);
        break;
      case FsdpDeed::keep:
        tensors_.keep(unit, action.fresh);
        break;
      case FsdpDeed::reshard:
        tensors_.reshard(unit);
        if (action.limited) limiter_.push_back(tensors_.latest_event());
        break;
      case FsdpDeed::reduce:
        // At the end of a pipeline's step, the kept gradients are reduced.
        if (unit.gradients.empty()) std::swap(unit.gradients, unit.accumulated);
        tensors_.reduce(unit);
        break;
    }
  }
}

// Allocates the gradients of a layer's parameters, as autograd does in the layer's backward. A tied
// parameter has a gradient from each layer that reads it. Autograd adds the two out of place when
// the owner's gradient exists.
void ShardedState::parameter_gradients(int layer) {
  const double own = step_.layers[layer].wide ? 4 : layout_.gather_bytes;
  if (const int owner = step_.layers[layer].tied_layer; owner >= 0 && owner_[owner] >= 0) {
    const Parameter& tied = step_.layers[owner].parameters[step_.layers[layer].tied_parameter];
    if (tied.trainable) {
      units_[at(owner_[owner])].waiting.push_back(
          {owner, step_.layers[layer].tied_parameter, gradient(tape_, tied, own)});
    }
  }
  if (owner_[layer] < 0) return;
  ShardedUnit& unit = units_[at(owner_[layer])];
  const std::vector<Parameter>& parameters = step_.layers[layer].parameters;
  for (int i = 0; i < static_cast<int>(parameters.size()); ++i) {
    if (!parameters[i].trainable) continue;
    Tape::Block whole = gradient(tape_, parameters[i], own);
    for (auto part = unit.waiting.begin(); part != unit.waiting.end();) {
      if (part->layer != layer || part->parameter != i) {
        ++part;
        continue;
      }
      const Tape::Block sum = gradient(tape_, parameters[i], own);
      tape_.free(part->gradient);
      tape_.free(whole);
      whole = sum;
      part = unit.waiting.erase(part);
    }
    // FSDP2 accumulates unsharded gradients in place if they have the type of the reduction
    // (accumulate_unsharded_grad_if_needed).
    if (layout_.options.version == 2 && layout_.reduce_bytes == layout_.gather_bytes &&
        !unit.accumulated.empty()) {
      tape_.free(whole);
      continue;
    }
    if (half_ != BackwardHalf::weights || layout_.reduce_bytes <= layout_.gather_bytes) {
      unit.gradients.push_back(whole);
      continue;
    }
    // In an action that computes only weights' gradients, PyTorch's pipelining adds each gradient
    // to earlier ones, in the element type in which they are reduced
    // (torch/distributed/pipelining/_backward.py: stage_backward_weight).
    const Tape::Block wide = gradient(tape_, parameters[i], layout_.reduce_bytes);
    tape_.free(whole);
    tape_.free(std::exchange(latest_gradient_, nothing));
    unit.in_halves = true;
    unit.gradients_are_wide = unit.accumulated.empty();
    if (unit.gradients_are_wide) {
      unit.gradients.push_back(wide);
    } else {
      latest_gradient_ = wide;
    }
  }
}

// Gradients of a layer that processes the tokens in pieces (a head with its loss). Under FSDP2,
// autograd already adds them up in the element type of the reduction, because no pre-backward hook
// runs that would leave the cast to the reduction (PyTorch 2.15, _fsdp_param_group.py:
// _set_unsharded_grad_dtypes). FSDP2 reduces them when the last piece is done; it reduces the
// unit's other gradients after the unit's backward. The gradient of a tied weight waits for its
// owner's gradient.
void ShardedState::pieces(int layer, PiecesMoment moment) {
  const int owner = owner_[layer];
  if (moment == PiecesMoment::backward && owner < 0) parameter_gradients(layer);
  if (moment == PiecesMoment::backward) return;
  tensors_.end_forward();  // the head is gathered separately, and no all-gather follows in forward
  const bool two = layout_.options.version == 2;
  for (const Parameter& parameter : step_.layers[layer].parameters) {
    if (!parameter.trainable || moment == PiecesMoment::over) continue;
    Tape::Block sum = gradient(tape_, parameter, layout_.gather_bytes);
    if (two && layout_.reduce_bytes > layout_.gather_bytes) {
      tape_.free(std::exchange(sum, gradient(tape_, parameter, layout_.reduce_bytes)));
    }
    if (moment == PiecesMoment::first && owner >= 0) {
      ShardedUnit& unit = units_[at(owner)];
      (two ? unit.of_pieces : unit.gradients).push_back(sum);
      unit.elements_of_pieces = two ? static_cast<double>(parameter.count) : 0;
    } else {
      tape_.free(sum);
    }
  }
  if (moment == PiecesMoment::over && owner >= 0 && two) tensors_.reduce(units_[at(owner)], true);
}

// In a pipeline, FSDP2's end of backward is the end of the step (optimizer_step()).
void ShardedState::end_backward() {
  tape_.free(std::exchange(latest_gradient_, nothing));
  if (!layout_.once_a_step || layout_.options.version == 1) tensors_.end_backward();
}

// The optimizer's state is allocated in the first step. Temporaries are for one tensor (for-loop
// code) or for all tensors at once (foreach).
void ShardedState::optimizer_step() {
  carry_out(order_.end_micro_batches());
  tensors_.end_backward();
  tape_.at(MemoryPhase::optimizer);
  const double here = 1 - layout_.options.offloaded_share();  // the share that the device updates
  if (here <= 0) return;
  const double state = optimizer_.state_bytes_per_element;
  for (const ShardedUnit& unit : units_) {
    if (has_state_ || state <= 0) break;
    tensors_.like_shard(unit, MemoryKind::optimizer_state, here * state,
                        static_cast<int>(std::ceil(state / optimizer_.state_element_bytes)));
  }
  has_state_ = true;
  LoopUpdate updates(tape_, optimizer_.loop);
  for (const ShardedUnit& unit : units_) {
    const Subject subject{"update", unit.name};
    const double share = here * unit.shard / std::max(1.0, unit.parameter_elements);
    if (layout_.options.version == 1) {
      updates.update(here * unit.shard, subject);
    } else {
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        if (unit.trained[i] != 0)
          updates.update(static_cast<double>(unit.parameters[i]) * share, subject);
      }
    }
  }
  updates.end();
  if (optimizer_.temporary_bytes_per_element <= 0) return;
  std::vector<Tape::Block> temporaries;
  for (const ShardedUnit& unit : units_) {
    for (const Tape::Block block : tensors_.like_shard(
             unit, MemoryKind::temporaries, here * optimizer_.temporary_bytes_per_element)) {
      temporaries.push_back(block);
    }
  }
  tape_.free(temporaries);
}

void ShardedState::zero_gradients() {
  for (ShardedUnit& unit : units_) {
    tape_.free(unit.shard_gradients);
    tape_.free(unit.shard_gradients_of_pieces);
  }
}

}  // namespace lockstep
