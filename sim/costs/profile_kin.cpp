// Transfers measurements to a model that was not measured. Each class of layers has a ratio of
// measured to modelled seconds over all measured models, weighted by the models' likeness. This
// assumes that the kernel model has similar errors for all layers of one class on one device.
#include <algorithm>
#include <cmath>
#include <map>

#include "costs/profile.hpp"

namespace lockstep {
namespace {

// Classes with fewer measured layers are ignored, because one odd shape would determine their
// ratio.
constexpr int fewest_layers = 4;

// Sums over the measured layers of one class, weighted by likeness.
struct Sums {
  int layers = 0;
  double most_alike = 0;             // largest likeness of the models that have the layers
  double forward = 0, backward = 0;  // measured seconds
  double modelled_forward = 0, modelled_backward = 0;  // seconds of the same layers
};

const ProfileBatch* batch_of(const ProfileModel* model, std::int64_t samples) {
  if (model == nullptr) return nullptr;
  const auto found = std::find_if(model->batches.begin(), model->batches.end(),
                                  [&](const ProfileBatch& b) { return b.samples == samples; });
  return found == model->batches.end() ? nullptr : &*found;
}

// The ratio of measured to modelled time to a power: the less alike the models are, the nearer to
// 1.
double share(double measured, double modelled, double power) {
  return measured > 0 && modelled > 0 ? std::pow(measured / modelled, power) : 1;
}

// Number of framework operators of a step's forward, by kind of layer. Likeness compares these
// numbers.
std::map<std::string, double> mix_of(const TrainingStep& step) {
  std::map<std::string, double> mix;
  for (const Layer& layer : step.layers) {
    for (const Kernel& kernel : layer.forward) mix[layer.kind] += kernel.operators;
  }
  return mix;
}

// Cosine of the angle between two mixes: 1 for equal proportions, 0 for no kind in common.
double likeness(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  const auto product = [](const auto& x, const auto& y) {
    double sum = 0;
    for (const auto& [kind, operators] : x) {
      if (const auto other = y.find(kind); other != y.end()) sum += operators * other->second;
    }
    return sum;
  };
  const double lengths = std::sqrt(product(a, a) * product(b, b));
  return lengths > 0 ? product(a, b) / lengths : 0;
}

}  // namespace

std::string layer_class(const Layer& layer) {
  for (const Kernel& kernel : layer.forward) {
    if (kernel.kind != KernelKind::convolution) continue;
    const ConvGeometry& conv = kernel.conv;
    if (conv.groups > 1)
      return layer.kind + (conv.groups == conv.channels_in ? " by depth" : " by groups");
    return layer.kind + (conv.kernel_h * conv.kernel_w == 1 ? " of points" : "");
  }
  return layer.kind;
}

ProfileKin profile_kin(const Profile& profile, const ComputeCosts& modelled,
                       const std::vector<TrainingStep>& measured, const TrainingStep& step) {
  ProfileKin kin;
  std::map<std::string, Sums> sums;
  const std::map<std::string, double> mix = mix_of(step);
  double most_alike = 0;
  for (const TrainingStep& other : measured) {
    const ProfileBatch* batch = batch_of(measured_model(profile, other), other.samples);
    if (batch == nullptr || batch->layers.size() != other.layers.size()) continue;
    const double alike = likeness(mix, mix_of(other));
    for (std::size_t i = 0; i < other.layers.size(); ++i) {
      const ProfileLayer& times = batch->layers[i];
      if (times.name != other.layers[i].name || !times.backward_seconds) continue;
      const LayerCost cost = modelled.layer(other, i);
      Sums& of_class = sums[layer_class(other.layers[i])];
      ++of_class.layers;
      of_class.most_alike = std::max(of_class.most_alike, alike);
      of_class.forward += alike * times.forward_seconds;
      of_class.backward += alike * *times.backward_seconds;
      of_class.modelled_forward += alike * cost.forward.busy;
      of_class.modelled_backward += alike * cost.backward.busy;
    }
    // Host seconds per operator come from the measured model with the largest likeness.
    if (batch->operator_seconds > 0 && alike > most_alike + 1e-9) {
      most_alike = alike;
      kin.operator_seconds = batch->operator_seconds;
      kin.backward_operator_seconds = batch->backward_operator_seconds;
    }
  }
  for (const auto& [name, sum] : sums) {
    if (sum.layers < fewest_layers) continue;
    kin.layers[name] = {share(sum.forward, sum.modelled_forward, sum.most_alike),
                        share(sum.backward, sum.modelled_backward, sum.most_alike)};
  }
  return kin;
}

}  // namespace lockstep
