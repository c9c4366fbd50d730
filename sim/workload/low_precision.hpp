// Matrix products in fp8 and fp4: which kernels quantise their operands, at which rate they run, and what
// backward keeps. Weights, gradients and everything beside the linear layers of repeated blocks stay as
// the precision has them.
#pragma once

#include <array>
#include <cstdint>

#include "core/fields.hpp"
#include "workload/step.hpp"

namespace lockstep {

// How a linear layer's operands get their scales, and by which library.
enum class LowPrecisionRecipe : std::uint8_t {
  none,
  fp8_tensorwise,  // torchao: a scale for each tensor, from its maximum (float8 recipe `tensorwise`)
  fp8_rowwise,     // torchao: a scale for each row or column that a product sums over (`rowwise`)
  fp8_delayed,     // Transformer Engine: a scale for each tensor, from the steps before
  fp8_current,     // Transformer Engine: a scale for each tensor, from its maximum
  fp8_blockwise,  // scales of 1 x 128 values, of weights 128 x 128 (DeepSeek-AI 2024, "DeepSeek-V3",
                  // section 3.3.2)
  mxfp8,          // scales of 32 values (OCP Microscaling Formats, version 1.0)
  nvfp4,          // 4-bit values with scales of 16 (NVIDIA 2025, arXiv 2509.25149)
};
template <>
struct EnumNames<LowPrecisionRecipe> {
  static constexpr std::array names{"none",        "fp8-tensorwise", "fp8-rowwise", "fp8-delayed",
                                    "fp8-current", "fp8-blockwise",  "mxfp8",       "nvfp4"};
};

struct LowPrecision {
  LowPrecisionRecipe recipe = LowPrecisionRecipe::none;
  bool gather =
      false;  // FSDP gathers those weights as fp8 (torchao: enable_fsdp_float8_all_gather)

  bool is_used() const { return recipe != LowPrecisionRecipe::none; }
  bool operator==(const LowPrecision&) const = default;
};

// The type of the products' operands; bf16 for `none`.
MathMode math_mode(LowPrecisionRecipe recipe);

struct LowPrecisionUse {
  LowPrecision options;
  bool compiled =
      false;  // torch.compile fuses the quantisation, else each operator of torchao's is a kernel
  std::int64_t micro_batches = 1;  // of a step
};

// The step with the linear layers of its repeated blocks, and their experts, in low precision, where
// 16 divides both sizes of a weight.
TrainingStep with_low_precision(TrainingStep step, const LowPrecisionUse& use);

}  // namespace lockstep
