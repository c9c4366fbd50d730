// Numeric modes of training: for each mode, the bytes of one element of each kind of tensor, and
// the mode of the matrix units. A scenario chooses one mode (`precision:`); step builder, optimizer
// costs and strategies derive all sizes from it.
#pragma once

#include <array>

#include "core/fields.hpp"

namespace lockstep {

enum class Precision {
  fp32,         // everything float32, tensor cores off
  torch_fp32,   // float32 as PyTorch has it by default since 1.12: TF32 in convolutions only
                // (torch.backends.cudnn.allow_tf32 is on, torch.backends.cuda.matmul's is off)
  tf32,         // float32 storage, TF32 tensor cores in matmul and convolution
  amp_fp16,     // autocast fp16 + GradScaler: fp32 parameters and gradients, fp16 compute (fact 22)
  amp_bf16,     // autocast bf16, no scaler
  pure_fp16,    // fp16 parameters and gradients, fp32 master copy in the optimizer (Megatron)
  pure_bf16,    // bf16 parameters and gradients
  master_bf16,  // bf16 parameters and gradients, fp32 master copy in the optimizer (DeepSpeed)
  // As master_bf16, but gradients are accumulated and reduced in fp32 (Megatron-LM's main_grad,
  // nanotron).
  master_bf16_fp32_gradients,
};
template <>
struct EnumNames<Precision> {
  static constexpr std::array names{"fp32",      "torch-fp32",  "tf32",
                                    "amp-fp16",  "amp-bf16",    "pure-fp16",
                                    "pure-bf16", "master-bf16", "master-bf16-fp32-gradients"};
};

// The type in which matrix units multiply; it selects the peak FLOP/s of a device.
enum class MathMode { fp32, tf32, fp16, bf16, fp8, fp4 };

MathMode math_mode(Precision precision);         // of convolutions, and of the peak for `mfu`
MathMode matmul_math_mode(Precision precision);  // of matrix products and attention
int parameter_bytes(Precision precision);        // bytes of one parameter as the model holds it
int gradient_bytes(Precision precision);         // bytes of one gradient element as DDP sends it
// Bytes of one element of the inputs and outputs of products and convolutions.
int activation_bytes(Precision precision);
bool is_autocast(Precision precision);  // amp-*: weights are cast in each step, norms run in fp32
// Whether backward adds its bf16 gradients to fp32 gradients that stay allocated from step to step
// (Megatron-LM's main_grad).
bool has_main_gradients(Precision precision);

}  // namespace lockstep
