// Implements the parts of PowerSGD: keyed generators by Philox, Gram-Schmidt over columns, and the
// rank of a gradient's factors. The hook of real DDP and the replay call the same functions, so
// their numbers agree.
#include "torch/low_rank.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "core/random.hpp"

namespace lockstep {

at::Generator keyed_generator(std::uint64_t seed, std::uint64_t rank, std::int64_t step,
                              std::uint64_t place) {
  const PhiloxWords words =
      philox4x32_10({static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step),
                     static_cast<std::uint32_t>(place), 0x636f6d70},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return at::detail::createCPUGenerator(std::uint64_t{words[0]} << 32 | words[1]);
}

void orthogonalise(at::Tensor& matrix) {
  for (std::int64_t c = 0; c < matrix.size(1); ++c) {
    at::Tensor column = matrix.select(1, c);
    column.div_(column.norm() + 1e-8);
    if (c + 1 == matrix.size(1)) break;
    at::Tensor rest = matrix.slice(1, c + 1);
    rest.sub_(at::outer(column, at::mv(rest.t(), column)));
  }
}

std::int64_t factor_rank(at::IntArrayRef shape, int most) {
  if (shape.size() < 2) return 0;
  const std::int64_t elements = c10::multiply_integers(shape);
  const std::int64_t rows = shape.front(), columns = elements / rows;
  const std::int64_t rank = std::min<std::int64_t>({most, rows, columns});
  return 2 * rank * (rows + columns) < elements ? rank : 0;
}

}  // namespace lockstep
