// A job's GPUs as a mesh with one axis for each kind of parallelism. Ranks along the tensor axis
// have adjacent numbers; context, data and pipeline follow with growing strides, as in Megatron-LM,
// torchtitan, nanotron and DeepSpeed (fact H1):
//
//   rank = ((pipeline * data_size + data) * context_size + context) * tensor_size + tensor
//
// The expert axis divides the data, context and tensor ranks of one stage into groups; the ranks of
// a group share the experts of each layer.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "parallel/options.hpp"

namespace lockstep {

// The kinds of parallelism; an exchange names the axis whose ranks take part.
enum class Axis : std::uint8_t { pipeline, data, context, tensor, expert };
template <>
struct EnumNames<Axis> {
  static constexpr std::array names{"pipeline", "data", "context", "tensor", "expert"};
};

// Sizes of the axes, in ranks. One rank is one GPU.
struct Mesh {
  int pipeline = 1, data = 1, context = 1, tensor = 1;
  int expert = 1;         // parts into which the experts of a layer are divided
  int expert_tensor = 1;  // ranks that divide one such part: all tensor ranks, or 1 (fact H4)

  int gpus() const { return pipeline * stage_gpus(); }
  int stage_gpus() const { return data * context * tensor; }
  int replicas() const { return data; }  // replicas of the model, which divide the batch among them
  // Copies of every parameter that is not an expert's.
  int copies() const { return data * context; }
  // Ranks of data x context x tensor that together hold all experts of a layer once.
  int expert_span() const { return expert * expert_tensor; }
  // Copies of an expert's parameters.
  int expert_copies() const { return stage_gpus() / expert_span(); }
  bool only_data() const { return pipeline == 1 && context == 1 && tensor == 1 && expert == 1; }
  bool operator==(const Mesh&) const = default;
};

// The mesh of `gpus` GPUs. Data parallelism gets the GPUs that the other axes leave.
// REQUIRES: `gpus` is a multiple of pipeline x context x tensor, which the caller must check.
Mesh mesh_of(const ParallelOptions& options, int gpus);
// GPUs of one replica: pipeline x context x tensor.
int replica_gpus(const ParallelOptions& options);

// An error about the field `parallel.AXIS`, located at the scenario's `parallel:`.
ConfigError parallel_misfit(const ParallelOptions& options, const std::string& axis,
                            std::string message, std::string hint);

}  // namespace lockstep
