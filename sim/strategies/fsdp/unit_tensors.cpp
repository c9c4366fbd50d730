// Allocates and frees the tensors of a unit in PyTorch's order. FSDP1 has one flat tensor for each
// unit and defers releases by record_stream() (fact 41). FSDP2 has one tensor for each parameter
// and frees at once (fact 55). Code: torch/distributed/fsdp/_runtime_utils.py and
// _fully_shard/_fsdp_collectives.py.
#include "strategies/fsdp/unit_tensors.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace lockstep {

UnitTensors::UnitTensors(Tape& tape, const FsdpLayout& layout)
    : tape_(tape),
      layout_(layout),
      fsdp1_(layout.options.version == 1),
      moves_(layout.sharded() || layout.options.offloads_parameters()) {}

void UnitTensors::reduce(ShardedUnit& unit, bool pieces) {
  fsdp1_ ? reduce_fsdp1(unit) : reduce_fsdp2(unit, pieces);
}

void UnitTensors::end_forward() {
  tape_.free(previous_gather_);
  previous_gather_ = nothing;
}

void UnitTensors::end_backward() {
  tape_.free(std::exchange(reduce_input_, nothing));
  tape_.free(std::exchange(experts_input_, nothing));
  tape_.free(offloaded_);
  // The optimizer waits for the reductions (fact 42). All deferred blocks are then free.
  tape_.complete(std::numeric_limits<std::int64_t>::max());
}

// FSDP1 holds one flat tensor for each unit, FSDP2 one tensor for each parameter.
std::vector<Tape::Block> UnitTensors::like_shard(const ShardedUnit& unit, MemoryKind kind,
                                                 double bytes_per_element, int tensors) {
  const double bytes = unit.shard * bytes_per_element;
  std::vector<Block> blocks;
  const auto allocate = [&](double of_all, std::string_view name) {
    for (int i = 0; i < tensors; ++i) {
      blocks.push_back(tape_.allocate(kind, of_all / tensors, {"shard", name}));
    }
  };
  if (fsdp1_ || unit.parameters.empty()) {
    allocate(bytes, unit.name);
    return blocks;
  }
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (kind != MemoryKind::parameters && unit.trained[i] == 0) continue;
    const double part = static_cast<double>(unit.parameters[i]) / unit.parameter_elements;
    const bool stored = kind == MemoryKind::parameters && unit.stored_bytes[i] > 0;
    const double own = unit.stored_bytes[i] * unit.shard / unit.parameter_elements;
    allocate(stored ? own : bytes * part, unit.names[i]);
  }
  return blocks;
}

void UnitTensors::release_later(Block block) {
  tape_.free_after(block, ++event_);
}

// On a device, the caching allocator counts a reduction's input as free at once, although the block
// cannot be reused yet. On a host, the input exists until the reduction has ended. Assumption: the
// reduction has ended when the next unit has joined its gradients, as in FSDP2, which waits for the
// reduction (fact 52).
void UnitTensors::release_reduced(Block input) {
  if (!tape_.on_host()) return release_later(input);
  tape_.free(reduce_input_);
  reduce_input_ = input;
}

// The order of allocations: copy of an offloaded shard, cast of the shard, output of the
// all-gather.
void UnitTensors::gather(ShardedUnit& unit, bool backward) {
  if (unit.gathered || (!moves_ && unit.gather_bytes == layout_.shard_bytes)) return;
  unit.gathered = true;
  const double each = layout_.gathers_quantized(unit.expert, backward) ? 1 : unit.gather_bytes;
  const double full = unit.elements * each * unit.gathered_share;
  Block on_device = nothing;
  if (layout_.options.offloads_parameters()) {
    on_device = tape_.allocate(MemoryKind::temporaries, unit.shard * layout_.shard_bytes,
                               {"shard", unit.name}, unshard_stream);
  }
  if (!fsdp1_) {
    unit.gather_output = tape_.allocate(MemoryKind::gathered_parameters, full,
                                        {"gathered", unit.name}, unshard_stream);
    tape_.free(on_device);
    return;
  }
  Block low_precision = nothing;
  if (layout_.sharded() && unit.gather_bytes != layout_.shard_bytes) {
    low_precision = tape_.allocate(MemoryKind::temporaries, unit.shard * unit.gather_bytes,
                                   {"shard", unit.name}, unshard_stream);
  }
  unit.full = {tape_.allocate(MemoryKind::gathered_parameters, full, {unit.name}, unshard_stream)};
  if (on_device != nothing) release_later(on_device);
  if (low_precision != nothing) release_later(low_precision);
}

// Before the unit computes, FSDP2 copies the collective's output into one tensor for each parameter
// (fact 48). In forward, the output exists until the next unit's copy-out; in backward, until its
// own copy-out (fact 49).
void UnitTensors::use(ShardedUnit& unit, bool backward) {
  if (unit.gather_output == nothing) return;
  if (!backward) {
    tape_.free(previous_gather_);
    previous_gather_ = unit.gather_output;
  }
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const double bytes = unit.stored_bytes[i] > 0
                             ? unit.stored_bytes[i]
                             : static_cast<double>(unit.parameters[i]) * unit.gather_bytes;
    unit.full.push_back(tape_.allocate(MemoryKind::gathered_parameters, bytes, {unit.names[i]}));
  }
  if (backward) tape_.free(unit.gather_output);
  unit.gather_output = nothing;
}

void UnitTensors::reshard(ShardedUnit& unit) {
  if (!unit.gathered) return;
  unit.gathered = false;
  if (fsdp1_) {
    release_later(unit.full.front());
    unit.full.clear();
  } else {
    tape_.free(unit.full);
  }
}

// Autograd joins the parameters' gradients into the flat gradient; for a moment, both exist (fact
// 40).
void UnitTensors::join(ShardedUnit& unit) {
  if (unit.gradients.size() < 2) return;
  const Block flat =
      tape_.allocate(MemoryKind::gradients, unit.elements * unit.gather_bytes, {"all", unit.name});
  tape_.free(unit.gradients);
  unit.gradients.push_back(flat);
}

void UnitTensors::keep(ShardedUnit& unit, bool first_micro_batch) {
  const bool wide = std::exchange(unit.gradients_are_wide, false);
  if (!fsdp1_ && first_micro_batch && unit.reduce_bytes != unit.gather_bytes && !wide) {
    for (Block& block : unit.gradients) {  // in reduce_dtype (fact 58)
      const Block cast = tape_.allocate(
          MemoryKind::gradients,
          static_cast<double>(tape_.bytes(block)) / unit.gather_bytes * unit.reduce_bytes,
          {"kept", unit.name});
      tape_.free(block);
      block = cast;
    }
  }
  std::swap(unit.gradients, unit.accumulated);
}

// A cast to reduce_dtype, the reduce-scatter, a cast to the type of the shard (fact 39). Each
// operation defers the release of its input.
void UnitTensors::reduce_fsdp1(ShardedUnit& unit) {
  if (unit.gradients.empty()) return;
  Block input = unit.gradients.front();
  unit.gradients.clear();
  if (unit.reduce_bytes != unit.gather_bytes) {
    const Block cast = tape_.allocate(MemoryKind::temporaries, unit.elements * unit.reduce_bytes,
                                      {"gradients", unit.name}, reduce_stream);
    release_later(input);
    input = cast;
  }
  if (!layout_.sharded() && unit.reduce_bytes == layout_.shard_bytes) {
    return keep_shard_gradient(unit, {input});  // all-reduced in place
  }
  Block output = input;
  if (layout_.sharded()) {
    output = tape_.allocate(MemoryKind::gradients, unit.shard * unit.reduce_bytes,
                            {"shard", unit.name}, reduce_stream);
    release_reduced(input);
  }
  if (unit.reduce_bytes != layout_.shard_bytes) {
    const Block cast = tape_.allocate(MemoryKind::gradients, unit.shard * layout_.shard_bytes,
                                      {"shard", unit.name}, reduce_stream);
    release_later(output);
    output = cast;
  }
  keep_shard_gradient(unit, {output});
}

// A copy into the input of the reduce-scatter, the reduce-scatter, a cast (fact 52). The input
// exists until the next unit's reduction (fact 53).
void UnitTensors::reduce_fsdp2(ShardedUnit& unit, bool pieces) {
  std::vector<Block>& gradients = pieces ? unit.of_pieces : unit.gradients;
  if (gradients.empty()) return;
  // The compute stream waits for the previous unit's reduce-scatter, so its input is free (fact
  // 52). Experts are reduced directly before the module around them, and both inputs are freed
  // together.
  if (unit.expert || reduce_input_ != nothing) {
    tape_.free(std::exchange(reduce_input_, nothing));
    tape_.free(std::exchange(experts_input_, nothing));
  }
  const double elements = pieces ? unit.elements_of_pieces
                                 : unit.elements * unit.trained_share - unit.elements_of_pieces;
  const double shard = elements * (unit.shard / unit.elements);
  Block& input = unit.expert ? experts_input_ : reduce_input_;
  input = tape_.allocate(MemoryKind::temporaries, elements * unit.reduce_bytes,
                         {"gradients", unit.name});
  tape_.free(gradients);
  Block output = tape_.allocate(MemoryKind::gradients, shard * unit.reduce_bytes,
                                {"shard", unit.name}, reduce_stream);
  if (unit.reduce_bytes != layout_.shard_bytes) {
    const Block cast = tape_.allocate(MemoryKind::gradients, shard * layout_.shard_bytes,
                                      {"shard", unit.name}, reduce_stream);
    tape_.free(std::exchange(output, cast));
  }
  if (!pieces) return keep_shard_gradient(unit, {output});
  // If earlier micro-batches have left no shard of the pieces' gradients, the new shard stays.
  // Otherwise it is added to the existing shard and freed, with one exception: if the unit has
  // unsharded gradients from earlier micro-batches, these are reduced at the same time, and their
  // shards are views that keep the whole output alive. An action that computes only weights'
  // gradients leaves no such gradients, because it knows only the stage's registered parameters,
  // which are shards once the head has been resharded.
  if (layout_.options.offloaded_share() > 0) {
    tape_.free(output);
  } else if (unit.shard_gradients_of_pieces.empty()) {
    unit.shard_gradients_of_pieces.push_back(output);
  } else if (!unit.accumulated.empty() && !unit.in_halves && unit.shard_gradients.empty()) {
    unit.shard_gradients.push_back(output);
  } else {
    tape_.free(output);
  }
}

void UnitTensors::keep_shard_gradient(ShardedUnit& unit, std::vector<Block> reduced) {
  const double offloaded = layout_.options.offloaded_share();
  if (offloaded > 0 || !unit.shard_gradients.empty()) {
    if (offloaded > 0 && offloaded < 1 && unit.shard_gradients.empty()) {
      unit.shard_gradients =
          like_shard(unit, MemoryKind::gradients, (1 - offloaded) * layout_.shard_bytes);
    }
    // The reduced gradient is copied to the host, or added to the shard from earlier micro-batches.
    for (const Block block : reduced) {
      if (fsdp1_ && offloaded > 0) {
        offloaded_.push_back(block);  // FSDP1's handle holds it until backward has ended (fact 44)
      } else if (fsdp1_) {
        release_later(block);
      } else {
        tape_.free(block);
      }
    }
    return;
  }
  unit.shard_gradients = std::move(reduced);
}

}  // namespace lockstep
