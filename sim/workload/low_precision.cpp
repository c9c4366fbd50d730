// Converts products to fp8 and fp4, with the kernels of two libraries. torchao 0.10
// (float8/float8_linear.py) saves bf16 tensors for backward and quantises weight and input a second
// time there. Transformer Engine 2 (pytorch/module/linear.py) quantises a tensor with one kernel in
// both layouts that products read, and saves the quantised input for backward.
// Quantization costs only traffic: its kernels have bytes, but no FLOPs.
#include "workload/low_precision.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace lockstep {
namespace {

// The properties of a recipe on which kernels and bytes depend.
struct RecipeRule {
  MathMode math = MathMode::fp8;
  double element_bytes = 1;
  bool engine = false;         // Transformer Engine's kernels
  bool reads_maximum = false;  // a tensor is first read for its maximum, then quantised
  bool both_ways = false;      // rows and columns are quantised separately
  double speed = 1;            // of products, relative to products with one scale per tensor
};

// Speed of CUTLASS's products with row scales relative to cuBLAS's with one scale per tensor.
// Fitted: the value that brings torchtitan's Llama 3 8B and 70B and one linear layer of nanochat
// (forward, 1.84 and 1.45 ms) nearest to their measurements (docs/fast-path.md).
constexpr double speed_by_row = 0.6;

// Bytes per element include the scales of blocks: mxfp8 has one byte per 32 values, nvfp4 one per
// 16, fp8-blockwise four per 128 (Transformer Engine's Float8BlockQuantizer). Weights under
// fp8-blockwise have four bytes per 128 x 128 values, which this neglects. Scales of whole rows or
// tensors count 0.
RecipeRule rule_of(LowPrecisionRecipe recipe) {
  switch (recipe) {
    case LowPrecisionRecipe::none:
      break;
    case LowPrecisionRecipe::fp8_tensorwise:
      return {.reads_maximum = true};
    case LowPrecisionRecipe::fp8_rowwise:
      return {.both_ways = true, .speed = speed_by_row};
    case LowPrecisionRecipe::fp8_delayed:
      return {.engine = true};
    case LowPrecisionRecipe::fp8_current:
      return {.engine = true, .reads_maximum = true};
    case LowPrecisionRecipe::fp8_blockwise:
      return {.element_bytes = 1 + 4.0 / 128, .engine = true, .both_ways = true};
    case LowPrecisionRecipe::mxfp8:
      return {.element_bytes = 33.0 / 32, .engine = true, .both_ways = true};
    case LowPrecisionRecipe::nvfp4:
      return {.math = MathMode::fp4,
              .element_bytes = 0.5 + 1.0 / 16,
              .engine = true,
              .reads_maximum = true,
              .both_ways = true};
  }
  return {.math = MathMode::bf16};
}

Kernel* first_product(std::vector<Kernel>& kernels) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [](const Kernel& kernel) {
    return kernel.kind == KernelKind::gemm;
  });
  return found == kernels.end() ? nullptr : &*found;
}

// Whether the matrix units' fp8 instructions accept the weight: both sizes are multiples of 16.
bool divides(const Kernel& product) {
  return product.n % 16 == 0 && product.k % 16 == 0;
}

// Rewrites the kernels of one linear layer. A product reads three tensors over a step: the input
// (forward, weight gradient), the weight (forward, input gradient) and the output's gradient (both
// gradients). Each is quantised before its first product.
class LayerInLowPrecision {
 public:
  // `first`: no earlier layer reads the same input. `wide`: bytes of an element that is not
  // quantised.
  LayerInLowPrecision(Layer& layer, const RecipeRule& rule, const LowPrecisionUse& use, bool first,
                      double wide)
      : layer_(layer), rule_(rule), use_(use), first_(first), wide_(wide) {}

  void write() {
    const double inputs = elements(Operand::input), weights = elements(Operand::weight);
    const double gradients = elements(Operand::output);
    std::vector<Kernel> forward, backward;
    if (first_ || !shares()) quantise(inputs, Pass::forward, true, forward);
    quantise_weights(weights, Pass::forward, forward);
    for (const Kernel& kernel : layer_.forward) forward.push_back(converted(kernel));
    bool before_products = true;
    for (const Kernel& kernel : layer_.backward) {
      if (kernel.kind == KernelKind::gemm && before_products) {
        quantise(gradients, Pass::backward, true, backward);
        if (!rule_.engine) backward_casts(inputs, weights, gradients, backward);
        before_products = false;
      }
      backward.push_back(converted(kernel));
    }
    layer_.forward = std::move(forward);
    layer_.backward = std::move(backward);
    if (!use_.options.gather) return;
    for (Parameter& parameter : layer_.parameters) {
      if (parameter.shape.size() > 1) parameter.gathered_bytes = 1;
    }
  }

 private:
  enum class Operand : std::uint8_t { input, weight, output };

  // Whether products of one input quantise it once. A compiler finds the common work, and
  // Transformer Engine joins such products in one layer.
  bool shares() const { return rule_.engine || use_.compiled; }

  // Elements of an operand, summed over the forward products of the layer.
  double elements(Operand operand) const {
    double sum = 0;
    for (const Kernel& kernel : layer_.forward) {
      if (kernel.kind != KernelKind::gemm) continue;
      const double m = static_cast<double>(kernel.m), n = static_cast<double>(kernel.n);
      const double k = static_cast<double>(kernel.k);
      const double product = operand == Operand::input    ? m * k
                             : operand == Operand::weight ? n * k
                                                          : m * n;
      sum += product * static_cast<double>(kernel.batch);
    }
    return sum;
  }

  // Transformer Engine quantises weights once per step, in the first micro-batch; here each
  // micro-batch gets its share of that work. Weights that FSDP gathers as fp8 arrive quantised.
  void quantise_weights(double count, Pass pass, std::vector<Kernel>& list) const {
    if (use_.options.gather) return;
    const double share = rule_.engine ? 1.0 / static_cast<double>(use_.micro_batches) : 1;
    quantise(count * share, pass, true, list);
  }

  // torchao's backward quantises weight, gradient and input in the other layout. Compiled code
  // reuses the scale of a whole tensor. Scales of rows, and all scales in eager code, are computed
  // a second time.
  void backward_casts(double inputs, double weights, double gradients,
                      std::vector<Kernel>& list) const {
    quantise_weights(weights, Pass::data_gradient, list);
    const bool scales_again = rule_.both_ways || !use_.compiled;
    quantise(gradients, Pass::weight_gradient, scales_again, list);
    if (first_ || !shares()) quantise(inputs, Pass::weight_gradient, scales_again, list);
  }

  // Adds the kernels that quantise `count` values of `wide_` bytes each. Fused code has one pass
  // for the maximum, if the recipe needs one, and one pass that writes the narrow values. Eager
  // torchao has one kernel per operator.
  void quantise(double count, Pass pass, bool finds_scale, std::vector<Kernel>& list) const {
    const auto add = [&](double read, double written, int launches) {
      Kernel kernel;
      kernel.pass = pass;
      kernel.bytes_read = read * count;
      kernel.bytes_written = written * count;
      kernel.launches = kernel.operators = launches;
      kernel.quantises = true;
      list.push_back(kernel);
    };
    if (rule_.engine || use_.compiled) {
      if (rule_.reads_maximum && finds_scale) add(wide_, 0, 2);
      add(wide_, (rule_.engine ? 2 : 1) * rule_.element_bytes, 1);
      return;
    }
    add(2 * wide_, wide_, 2);        // absolute values, their maxima
    add(0, 0, 5);                    // scale: clamp, quotient, rounding, casts
    add(wide_, 4, 1);                // times the scale, in fp32
    add(4, 4, 1);                    // clamp
    add(4, rule_.element_bytes, 1);  // cast
  }

  // The product with narrow operands; its result has the wide type.
  Kernel converted(Kernel kernel) const {
    if (kernel.kind != KernelKind::gemm) return kernel;
    kernel.math = rule_.math;
    kernel.speed = rule_.speed;
    const auto m = static_cast<double>(kernel.m), n = static_cast<double>(kernel.n);
    kernel.bytes_read = rule_.element_bytes * static_cast<double>(kernel.k) * (m + n) *
                        static_cast<double>(kernel.batch);
    return kernel;
  }

  Layer& layer_;
  const RecipeRule& rule_;
  const LowPrecisionUse& use_;
  bool first_;
  double wide_;  // bytes of an element before it is quantised
};

// Linear layers and experts of repeated blocks with a trained matrix of their own.
bool is_trained_product(const Layer& layer) {
  return !layer.block.empty() && !layer.is_attention && layer.tied_layer < 0 &&
         std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [](const Parameter& p) { return p.trainable && p.shape.size() > 1; });
}

}  // namespace

MathMode math_mode(LowPrecisionRecipe recipe) {
  return rule_of(recipe).math;
}

namespace {

// Reduces the bytes of tensor-parallel all-gathers in forward if all their readers are converted
// products, and of the all-gathers in backward that carry gradients to converted products. Both
// carry quantised values (torchao, float8/float8_tensor_parallel.py; Transformer Engine gathers
// after quantization). `share`: narrow bytes over wide bytes. fp8-rowwise is excluded, because its
// scales do not survive a gather.
void narrow_exchanges(TrainingStep& step, const std::vector<bool>& converted, double share) {
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    Layer& layer = step.layers[i];
    if (layer.kind != "exchange") continue;
    bool reads = false, all = true;
    for (std::size_t j = i + 1; j < step.layers.size(); ++j) {
      const std::vector<int>& inputs = step.layers[j].inputs;
      if (std::find(inputs.begin(), inputs.end(), static_cast<int>(i)) == inputs.end()) continue;
      reads = true;
      all = all && converted[j];
    }
    const int giver = layer.inputs.empty() ? -1 : layer.inputs.front();
    const auto narrow = [share](std::vector<AxisExchange>& list) {
      for (AxisExchange& exchange : list) {
        const bool gathers = exchange.kind == ExchangeKind::all_gather;
        if (gathers && exchange.axis == Axis::tensor) exchange.bytes *= share;
      }
    };
    if (reads && all) narrow(layer.forward_exchanges);
    if (giver >= 0 && converted[giver]) narrow(layer.backward_exchanges);
  }
}

}  // namespace

TrainingStep with_low_precision(TrainingStep step, const LowPrecisionUse& use) {
  if (!use.options.is_used()) return step;
  const RecipeRule rule = rule_of(use.options.recipe);
  const double wide = activation_bytes(step.precision);
  int storages = storage_count(step);
  std::map<int, SavedTensor> quantised;  // by the storage of the input
  std::set<int> read;                    // layers whose output a converted product reads
  std::vector<bool> converted(step.layers.size(), false);
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    Layer& layer = step.layers[i];
    const Kernel* product = first_product(layer.forward);
    if (product == nullptr || !is_trained_product(layer) || !divides(*product)) continue;
    converted[i] = true;
    const bool first = layer.inputs.empty() || read.insert(layer.inputs.front()).second;
    LayerInLowPrecision(layer, rule, use, first, wide).write();
    if (!rule.engine) continue;
    // Transformer Engine saves the quantised input for backward; layers that read one input share
    // the copy.
    for (SavedTensor& saved : layer.saved) {
      if (saved.name != "input" || saved.weight_copy) continue;
      SavedTensor narrow = saved;
      narrow.name = "quantised input";
      narrow.bytes = saved.bytes / wide * rule.element_bytes;
      narrow.storage = storages;
      narrow.produced_by = static_cast<int>(i);
      const auto [found, is_new] = quantised.try_emplace(saved.storage, narrow);
      if (is_new) ++storages;
      saved = found->second;
    }
  }
  if (use.options.recipe != LowPrecisionRecipe::fp8_rowwise) {
    narrow_exchanges(step, converted, rule.element_bytes / wide);
  }
  step.whole_layers = false;
  return step;
}

}  // namespace lockstep
