#include "strategies/common/optimizer_memory.hpp"

namespace lockstep {

OptimizerMemory optimizer_memory(const OptimizerSpec& optimizer, Precision precision) {
  OptimizerSpec rest = optimizer;  // but the matrices, each of which is said
  rest.matrices.clear();
  rest.elements = 0;
  OptimizerMemory memory{optimizer_state_bytes(rest, precision),
                         optimizer_temporary_bytes(rest, precision),
                         optimizer_largest_temporary_bytes(rest, precision)};
  const MatrixMemory each = matrix_memory(precision);
  for (const HiddenMatrix& matrix : optimizer.matrices) {
    memory.others.push_back({matrix.tensor, each.state_bytes, each.temporary_bytes,
                             muon_temporaries(matrix, muon_sizes(precision))});
  }
  return memory;
}

}  // namespace lockstep
