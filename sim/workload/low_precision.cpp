// torchao 0.10: float8/float8_linear.py (backward quantises the weight and the input again, from the bf16
// tensors that it keeps). Transformer Engine 2: pytorch/module/linear.py (one kernel quantises a tensor
// both ways that products read it; backward keeps the quantised input).
#include "workload/low_precision.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep {
namespace {

struct RecipeRule {
  MathMode math = MathMode::fp8;
  double element_bytes = 1;
  bool engine = false;         // Transformer Engine's kernels
  bool reads_maximum = false;  // a tensor is read for its maximum before it is quantised
  bool both_ways = false;      // rows and columns are quantised apart
  double speed = 1;            // of products, relative to those with one scale for each tensor
};

// Speeds of products that scale inside their sums: docs/fast-path.md.
RecipeRule rule_of(LowPrecisionRecipe recipe) {
  switch (recipe) {
    case LowPrecisionRecipe::none:
      break;
    case LowPrecisionRecipe::fp8_tensorwise:
      return {.reads_maximum = true};
    case LowPrecisionRecipe::fp8_rowwise:
      return {.both_ways = true, .speed = 0.75};
    case LowPrecisionRecipe::fp8_delayed:
      return {.engine = true};
    case LowPrecisionRecipe::fp8_current:
      return {.engine = true, .reads_maximum = true};
    case LowPrecisionRecipe::fp8_blockwise:
      return {.engine = true, .both_ways = true, .speed = 0.75};
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

bool divides(const Kernel& product) {
  return product.n % 16 == 0 && product.k % 16 == 0;
}

class LayerInLowPrecision {
 public:
  LayerInLowPrecision(Layer& layer, const RecipeRule& rule, const LowPrecision& options,
                      bool compiled, double wide)
      : layer_(layer), rule_(rule), options_(options), compiled_(compiled), wide_(wide) {}

  void write() {
    std::vector<Kernel> forward, backward;
    for (const Kernel& kernel : layer_.forward) {
      if (kernel.kind == KernelKind::gemm) forward_casts(kernel, forward);
      forward.push_back(kernel);
      if (kernel.kind == KernelKind::gemm) convert(forward.back());
    }
    const double inputs = elements(Operand::input), weights = elements(Operand::weight);
    const double gradients = elements(Operand::output);
    bool first = true;
    for (const Kernel& kernel : layer_.backward) {
      const bool product = kernel.kind == KernelKind::gemm;
      if (product && first) {
        quantise(gradients, Pass::backward, backward);
        if (!rule_.engine) backward_casts(inputs, weights, gradients, backward);
        first = false;
      }
      backward.push_back(kernel);
      if (product) convert(backward.back());
    }
    layer_.forward = std::move(forward);
    layer_.backward = std::move(backward);
    if (!options_.gather) return;
    for (Parameter& parameter : layer_.parameters) {
      if (parameter.shape.size() > 1) parameter.gathered_bytes = 1;
    }
  }

 private:
  enum class Operand : std::uint8_t { input, weight, output };

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

  void forward_casts(const Kernel& product, std::vector<Kernel>& list) const {
    const auto batch = static_cast<double>(product.batch);
    const auto k = static_cast<double>(product.k);
    quantise(batch * k * static_cast<double>(product.m), Pass::forward, list);
    if (!options_.gather) {
      quantise(batch * k * static_cast<double>(product.n), Pass::forward, list);
    }
  }

  // torchao quantises anew what backward's products read.
  void backward_casts(double inputs, double weights, double gradients,
                      std::vector<Kernel>& list) const {
    if (!options_.gather) quantise(weights, Pass::data_gradient, list);
    if (rule_.both_ways) quantise(gradients, Pass::weight_gradient, list);
    quantise(inputs, Pass::weight_gradient, list);
  }

  // One tensor of bf16 values.
  void quantise(double count, Pass pass, std::vector<Kernel>& list) const {
    const auto add = [&](double read, double written, int launches) {
      Kernel kernel;
      kernel.pass = pass;
      kernel.bytes_read = read * count;
      kernel.bytes_written = written * count;
      kernel.launches = kernel.operators = launches;
      list.push_back(kernel);
    };
    const double ways = rule_.engine ? 2 : 1;
    if (rule_.engine || compiled_) {
      if (rule_.reads_maximum) add(wide_, 0, 2);
      add(wide_, ways * rule_.element_bytes, 1);
      return;
    }
    add(2 * wide_, wide_, 2);        // absolute values, their maxima
    add(0, 0, 5);                    // scale: clamp, quotient, rounding, casts
    add(wide_, 4, 1);                // times the scale, in fp32
    add(4, 4, 1);                    // clamp
    add(4, rule_.element_bytes, 1);  // cast
  }

  void convert(Kernel& product) const {
    product.math = rule_.math;
    product.speed = rule_.speed;
    const auto m = static_cast<double>(product.m), n = static_cast<double>(product.n);
    product.bytes_read = rule_.element_bytes * static_cast<double>(product.k) * (m + n) *
                         static_cast<double>(product.batch);
  }

  Layer& layer_;
  const RecipeRule& rule_;
  const LowPrecision& options_;
  bool compiled_;
  double wide_;  // bytes of an element that is quantised
};

bool is_trained_product(const Layer& layer) {
  return !layer.block.empty() && !layer.is_attention && layer.tied_layer < 0 &&
         std::any_of(layer.parameters.begin(), layer.parameters.end(),
                     [](const Parameter& p) { return p.trainable && p.shape.size() > 1; });
}

}  // namespace

MathMode math_mode(LowPrecisionRecipe recipe) {
  return rule_of(recipe).math;
}

TrainingStep with_low_precision(TrainingStep step, const LowPrecision& options, bool compiled) {
  if (!options.is_used()) return step;
  const RecipeRule rule = rule_of(options.recipe);
  const double wide = activation_bytes(step.precision);
  int storages = 0;
  for (const Layer& layer : step.layers) {
    storages = std::max(storages, layer.output_storage + 1);
    for (const SavedTensor& saved : layer.saved) storages = std::max(storages, saved.storage + 1);
  }
  std::map<int, SavedTensor> quantised;  // by the storage of the input
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    Layer& layer = step.layers[i];
    const Kernel* product = first_product(layer.forward);
    if (product == nullptr || !is_trained_product(layer) || !divides(*product)) continue;
    LayerInLowPrecision(layer, rule, options, compiled, wide).write();
    if (!rule.engine) continue;
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
  step.whole_layers = false;
  return step;
}

}  // namespace lockstep
