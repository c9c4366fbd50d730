// Cost of Muon (Jordan et al. 2024; torch.optim.Muon since PyTorch 2.9, torch/optim/_muon.py). Muon
// updates a matrix by its momentum, after Newton and Schulz's iteration has orthogonalised the
// momentum. Matrices are updated one after the other; PyTorch has no foreach or fused
// implementation.
#pragma once

#include <vector>

#include "workload/hidden_matrices.hpp"

namespace lockstep {

// Iterations per update (ns_steps of torch.optim.Muon).
constexpr int newton_schulz_steps = 5;

// Bytes of one element of the matrix, its gradient and its momentum.
struct MuonSizes {
  double parameter = 4, gradient = 4, state = 4;
};

// Kernels that an eager framework runs for the update of one matrix, in order.
std::vector<Kernel> muon_kernels(const HiddenMatrix& matrix, const MuonSizes& sizes);

// Bytes of each temporary that is live during the last product of an iteration, the moment at which
// the temporaries are largest in total.
std::vector<double> muon_temporaries(const HiddenMatrix& matrix, const MuonSizes& sizes);

}  // namespace lockstep
