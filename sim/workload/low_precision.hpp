// Matrix products in fp8 and fp4: a transformation of a finished training step that adds the
// kernels which quantise operands, and changes the rate of the products. With Transformer Engine's
// recipes, the inputs that are saved for backward are the quantised ones. With all recipes but
// fp8_rowwise, tensor-parallel all-gathers carry quantised values if only converted products read
// them. Only linear layers and experts of repeated blocks are converted. Stored weights, gradients
// and all other layers keep the type that the step's precision gives them.
#pragma once

#include <array>
#include <cstdint>

#include "core/fields.hpp"
#include "workload/step.hpp"

namespace lockstep {

// The library that quantises a linear layer's operands, and the values that share one scale.
enum class LowPrecisionRecipe : std::uint8_t {
  none,
  fp8_tensorwise,  // torchao `tensorwise`: one scale for each tensor, from its maximum
  fp8_rowwise,     // torchao `rowwise`: one scale for each row or column that a product sums over
  fp8_delayed,     // Transformer Engine: one scale for each tensor, from earlier steps
  fp8_current,     // Transformer Engine: one scale for each tensor, from its maximum
  // Transformer Engine: one scale for each 1 x 128 values, in weights for each 128 x 128
  // (DeepSeek-AI 2024, "DeepSeek-V3", section 3.3.2)
  fp8_blockwise,
  // Transformer Engine: one scale for each 32 values (OCP Microscaling Formats, version 1.0)
  mxfp8,
  nvfp4,  // Transformer Engine: 4-bit values, one scale for each 16 (NVIDIA 2025, arXiv 2509.25149)
};
template <>
struct EnumNames<LowPrecisionRecipe> {
  static constexpr std::array names{"none",        "fp8-tensorwise", "fp8-rowwise", "fp8-delayed",
                                    "fp8-current", "fp8-blockwise",  "mxfp8",       "nvfp4"};
};

// The scenario's choice of a recipe.
struct LowPrecision {
  LowPrecisionRecipe recipe = LowPrecisionRecipe::none;
  // Whether FSDP all-gathers converted weights as fp8, already quantised (torchao:
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
  // Whether torch.compile fuses torchao's quantization into one or two kernels; otherwise each
  // operator is a kernel.
  bool compiled = false;
  std::int64_t micro_batches = 1;  // number of micro-batches in a step
};

// The step with its trained linear layers and experts of repeated blocks in low precision. A layer
// is converted only if it owns its weight (not tied) and 16 divides both sizes of the weight.
// Clears TrainingStep::whole_layers, so that times from measured profiles are not used. With recipe
// `none` the step is returned unchanged.
TrainingStep with_low_precision(TrainingStep step, const LowPrecisionUse& use);

}  // namespace lockstep
