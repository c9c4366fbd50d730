// Muon (Jordan et al. 2024; torch.optim.Muon since PyTorch 2.9, torch/optim/_muon.py): the momentum
// of a matrix, orthogonalised by Newton and Schulz's iteration, is its update. One matrix after the
// other: PyTorch has no other form.
#pragma once

#include <vector>

#include "workload/hidden_matrices.hpp"

namespace lockstep {

constexpr int newton_schulz_steps = 5;

// Element sizes of the matrix, its gradient and its momentum.
struct MuonSizes {
  double parameter = 4, gradient = 4, state = 4;
};

// What an eager framework runs for one matrix.
std::vector<Kernel> muon_kernels(const HiddenMatrix& matrix, const MuonSizes& sizes);

// Bytes of the temporaries that are alive together in the last product of an iteration.
std::vector<double> muon_temporaries(const HiddenMatrix& matrix, const MuonSizes& sizes);

}  // namespace lockstep
