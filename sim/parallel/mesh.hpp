// A job's GPUs as a mesh with one axis for each kind of parallelism. Tensor ranks are neighbours, then come
// context, data and pipeline ranks, as in Megatron-LM, torchtitan, nanotron and DeepSpeed (fact H1).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "parallel/options.hpp"

namespace lockstep {

enum class Axis : std::uint8_t { pipeline, data, context, tensor, expert };
template <>
struct EnumNames<Axis> {
  static constexpr std::array names{"pipeline", "data", "context", "tensor", "expert"};
};

struct Mesh {
  int pipeline = 1, data = 1, context = 1, tensor = 1;
  int expert = 1;         // ranks of data x context x tensor that share the experts of a layer
  int expert_tensor = 1;  // ranks that share an expert: tensor ranks, or none (fact H4)

  int gpus() const { return pipeline * stage_gpus(); }
  int stage_gpus() const { return data * context * tensor; }
  int replicas() const { return data; }          // of the model: what splits the batch
  int copies() const { return data * context; }  // of every parameter that is not an expert's
  int expert_span() const { return expert * expert_tensor; }
  int expert_copies() const { return stage_gpus() / expert_span(); }  // of an expert's parameters
  bool only_data() const { return pipeline == 1 && context == 1 && tensor == 1 && expert == 1; }
  bool operator==(const Mesh&) const = default;
};

// The mesh of so many GPUs, of which data parallelism takes what the options leave. `gpus` must be a
// multiple of pipeline x context x tensor: a misfit else.
Mesh mesh_of(const ParallelOptions& options, int gpus);
// GPUs of one replica.
int replica_gpus(const ParallelOptions& options);

// An error about parallel.AXIS, where the scenario has written it.
ConfigError parallel_misfit(const ParallelOptions& options, const std::string& axis,
                            std::string message, std::string hint);

}  // namespace lockstep
