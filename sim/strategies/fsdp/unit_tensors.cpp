// Allocates and frees the tensors of a unit as PyTorch does: FSDP1's flat ones, FSDP2's one per parameter.
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
  // The optimizer waits for the reductions (fact 42), and every deferred block with them.
  tape_.complete(std::numeric_limits<std::int64_t>::max());
}

// FSDP1 holds one flat tensor per unit, FSDP2 one per parameter.
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

// A caching allocator counts a reduction's input as free at once, though it cannot serve again. On
// a host it is there until the reduction is over; assumed: by the time the next unit has joined its
// gradients (as FSDP2 waits for it, fact 52).
void UnitTensors::release_reduced(Block input) {
  if (!tape_.on_host()) return release_later(input);
  tape_.free(reduce_input_);
  reduce_input_ = input;
}

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

// FSDP2 copies the collective's output into one tensor per parameter before the unit computes.
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

// Autograd joins the parameters' gradients into the flat one: twice the unit for a moment (fact 40).
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

void UnitTensors::reduce_fsdp2(ShardedUnit& unit, bool pieces) {
  std::vector<Block>& gradients = pieces ? unit.of_pieces : unit.gradients;
  if (gradients.empty()) return;
  // Compute waits for the previous unit's reduce-scatter (fact 52); experts come before the module around them,
  // and are one unit with it.
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
  // It is added to what earlier micro-batches left. The unit's other gradients, where earlier micro-batches
  // have left some, are reduced with it, and their shards are views that keep all of the output. The half of
  // backward for weights leaves none: it knows the stage's registered parameters, which are shards once the
  // head has been given back.
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
    for (const Block block : reduced) {
      // Copied to the host, or added to what earlier micro-batches left.
      if (fsdp1_ && offloaded > 0) {
        offloaded_.push_back(block);  // the handle keeps it until backward is over (fact 44)
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
