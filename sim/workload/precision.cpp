// Bytes and matrix-unit mode of each numeric mode of training.
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
      return MathMode::bf16;
  }
  return MathMode::fp32;
}

MathMode matmul_math_mode(Precision precision) {
  return precision == Precision::torch_fp32 ? MathMode::fp32 : math_mode(precision);
}

namespace {
bool is_pure_half(Precision precision) {
  return precision == Precision::pure_fp16 || precision == Precision::pure_bf16;
}
}  // namespace

int parameter_bytes(Precision precision) {
  return is_pure_half(precision) ? 2 : 4;
}

int gradient_bytes(Precision precision) {
  return parameter_bytes(precision);
}

int activation_bytes(Precision precision) {
  return is_pure_half(precision) || is_autocast(precision) ? 2 : 4;
}

bool is_autocast(Precision precision) {
  return precision == Precision::amp_fp16 || precision == Precision::amp_bf16;
}

}  // namespace lockstep
