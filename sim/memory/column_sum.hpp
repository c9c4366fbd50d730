// The scratch that PyTorch's reduction kernel allocates for the sums of a matrix's columns, which are
// the gradient of a bias.
#pragma once

#include <cstdint>

#include "hardware/device.hpp"

namespace lockstep {

// Bytes while the columns of a matrix of rows x columns are summed; 0 = blocks of threads need not
// meet. Sums are fp32. aten/src/ATen/native/cuda/Reduce.cuh of PyTorch 2.15, setReduceConfig and
// global_memory_size: the size does not shrink where a block holds many columns.
double column_sum_scratch(std::int64_t rows, std::int64_t columns, const Device& device);

}  // namespace lockstep
