// Kernels and temporaries of Newton and Schulz's iteration as PyTorch runs it. The matrix is
// divided by its norm first. For X of m x n with m <= n, each step then computes in bf16:
//
//   A = X X^T        (m x m)
//   B = b A + c A A  (m x m)
//   X = a X + B X    (m x n)
#include "costs/muon.hpp"

#include <algorithm>

namespace lockstep {
namespace {

constexpr double bf16 = 2;  // bytes of an element in the iteration

Kernel streaming(double read, double written) {
  Kernel kernel;
  kernel.bytes_read = read;
  kernel.bytes_written = written;
  return kernel;
}

// A product of an m x k by a k x n matrix. `added`: the product is added to a third matrix (addmm).
Kernel product(std::int64_t m, std::int64_t n, std::int64_t k, bool added) {
  const auto area = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  Kernel kernel;
  kernel.kind = KernelKind::gemm;
  kernel.math = MathMode::bf16;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.flops = 2 * area(m, n) * static_cast<double>(k);
  kernel.bytes_read = bf16 * (area(m, k) + area(k, n) + (added ? area(m, n) : 0));
  kernel.bytes_written = bf16 * area(m, n);
  return kernel;
}

}  // namespace

std::vector<Kernel> muon_kernels(const HiddenMatrix& matrix, const MuonSizes& sizes) {
  const std::int64_t m = std::min(matrix.rows, matrix.columns);
  const std::int64_t n = std::max(matrix.rows, matrix.columns);
  const double all = matrix.elements();
  const double gram = static_cast<double>(m) * static_cast<double>(m);
  const auto [p, g, s] = sizes;
  std::vector<Kernel> kernels;
  kernels.push_back(streaming(all * (g + s), all * s));  // momentum: lerp towards the gradient
  kernels.push_back(streaming(all * (g + s), all * g));  // Nesterov: the gradient towards it
  if (g != bf16) kernels.push_back(streaming(all * g, all * bf16));
  kernels.push_back(streaming(all * bf16, 0));           // its norm
  kernels.push_back(streaming(0, 0));                    // clamped
  kernels.push_back(streaming(all * bf16, all * bf16));  // divided by it
  const bool tall = matrix.rows > matrix.columns;
  kernels.back().operators += tall ? 2 : 0;  // transposed, and back
  for (int step = 0; step < newton_schulz_steps; ++step) {
    kernels.push_back(product(m, m, n, false));  // X X^T
    ++kernels.back().operators;                  // a view
    // addmm copies the matrix that it adds to into the result, and multiplies onto it
    // (aten/src/ATen/native/cuda/Blas.cpp).
    kernels.push_back(streaming(bf16 * gram, bf16 * gram));
    kernels.back().operators = 0;
    kernels.push_back(product(m, m, m, true));
    kernels.push_back(streaming(bf16 * all, bf16 * all));
    kernels.back().operators = 0;
    kernels.push_back(product(m, n, m, true));
  }
  kernels.push_back(streaming(all * p, all * p));           // *= 1-lr*wd, also without decay
  kernels.push_back(streaming(all * (p + bf16), all * p));  // -= rate * X
  return kernels;
}

std::vector<double> muon_temporaries(const HiddenMatrix& matrix, const MuonSizes& sizes) {
  const double m = static_cast<double>(std::min(matrix.rows, matrix.columns));
  const double all = matrix.elements();
  // In the order of the list: Nesterov's update (with bf16 gradients this is also the first X), X,
  // A, B, and the next X.
  return {sizes.gradient * all, bf16 * all, bf16 * m * m, bf16 * m * m, bf16 * all};
}

}  // namespace lockstep
