// Tables of bytes and matrix-unit modes by numeric mode. In torch-fp32, and only there,
// convolutions and matrix products have different modes: PyTorch allows TF32 in cuDNN, but not in
// cuBLAS.
#include "workload/precision.hpp"

namespace lockstep {

MathMode math_mode(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return MathMode::fp32;
    case Precision::torch_fp32:
    case Precision::tf32:
      return MathMode::tf32;
    case Precision::amp_fp16:
    case Precision::pure_fp16:
      return MathMode::fp16;
    case Precision::amp_bf16:
    case Precision::pure_bf16:
    case Precision::master_bf16:
    case Precision::master_bf16_fp32_gradients:
      return MathMode::bf16;
  }
  return MathMode::fp32;
}

MathMode matmul_math_mode(Precision precision) {
  return precision == Precision::torch_fp32 ? MathMode::fp32 : math_mode(precision);
}

namespace {
bool is_pure_half(Precision precision) {
  return precision == Precision::pure_fp16 || precision == Precision::pure_bf16 ||
         precision == Precision::master_bf16 || has_main_gradients(precision);
}
}  // namespace

int parameter_bytes(Precision precision) {
  return is_pure_half(precision) ? 2 : 4;
}

int gradient_bytes(Precision precision) {
  return has_main_gradients(precision) ? 4 : parameter_bytes(precision);
}

int activation_bytes(Precision precision) {
  return is_pure_half(precision) || is_autocast(precision) ? 2 : 4;
}

bool has_main_gradients(Precision precision) {
  return precision == Precision::master_bf16_fp32_gradients;
}

bool is_autocast(Precision precision) {
  return precision == Precision::amp_fp16 || precision == Precision::amp_bf16;
}

}  // namespace lockstep
