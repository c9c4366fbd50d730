// Divides GPUs among the axes of a mesh, and makes the located errors of options that do not fit a
// model or a machine. Experts are shared by all tensor ranks unless `parallel.expert.tensor` is 1.
#include "parallel/mesh.hpp"

#include <utility>

namespace lockstep {

int replica_gpus(const ParallelOptions& options) {
  return static_cast<int>(options.pipeline.stages * options.context.size * options.tensor.size);
}

Mesh mesh_of(const ParallelOptions& options, int gpus) {
  Mesh mesh;
  mesh.pipeline = static_cast<int>(options.pipeline.stages);
  mesh.context = static_cast<int>(options.context.size);
  mesh.tensor = static_cast<int>(options.tensor.size);
  mesh.expert = static_cast<int>(options.expert.size);
  if (mesh.expert > 1 && options.expert.tensor != 1) mesh.expert_tensor = mesh.tensor;
  mesh.data = gpus / replica_gpus(options);
  return mesh;
}

ConfigError parallel_misfit(const ParallelOptions& options, const std::string& axis,
                            std::string message, std::string hint) {
  Diagnostic diagnostic;
  diagnostic.where = options.where;
  diagnostic.field = "parallel." + axis;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  return ConfigError(std::move(diagnostic));
}

}  // namespace lockstep
