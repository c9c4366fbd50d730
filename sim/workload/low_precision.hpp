// Matrix products in fp8 and fp4: a transformation of a finished training step that adds the
// kernels which quantize operands and changes the rate of the products. With Transformer Engine's
// recipes, backward keeps quantized inputs.
// Only linear layers and experts of repeated blocks are converted. Stored weights, gradients and
// all other layers keep the type that the step's precision gives them.
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

// The scenario's choice of a recipe.
struct LowPrecision {
  LowPrecisionRecipe recipe = LowPrecisionRecipe::none;
  // FSDP all-gathers converted weights as fp8, already quantized (torchao:
  // enable_fsdp_float8_all_gather).
  bool gather = false;

  bool is_used() const { return recipe != LowPrecisionRecipe::none; }
  bool operator==(const LowPrecision&) const = default;
};

// The type in which the matrix units multiply; bf16 for `none`.
MathMode math_mode(LowPrecisionRecipe recipe);

// A recipe with the circumstances that change its kernels.
struct LowPrecisionUse {
  LowPrecision options;
  // torch.compile fuses torchao's quantization into one or two kernels; without it each operator is
  // a kernel.
  bool compiled = false;
  std::int64_t micro_batches = 1;  // of a step
};

// The step with its trained linear layers and experts of repeated blocks in low precision. A
// product is converted only if 16 divides both sizes of its weight. The result has whole_layers =
// false: no profile measures such layers.
TrainingStep with_low_precision(TrainingStep step, const LowPrecisionUse& use);

}  // namespace lockstep
