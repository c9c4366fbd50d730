// Scratch memory that PyTorch's reduction kernel allocates to sum the columns of a matrix, which
// gives the gradient of a bias. LayerPlayer (memory/layer_player.hpp) adds it to the peak of a
// backward.
#pragma once

#include <cstdint>

#include "hardware/device.hpp"

namespace lockstep {

// Bytes of scratch while the columns of a matrix of rows x columns are summed in fp32; 0 if one
// block of threads sums each column alone. Source: setReduceConfig and global_memory_size of
// PyTorch 2.15 (aten/src/ATen/native/cuda/Reduce.cuh), which do not reduce the size if a block
// holds many columns.
double column_sum_scratch(std::int64_t rows, std::int64_t columns, const Device& device);

}  // namespace lockstep
