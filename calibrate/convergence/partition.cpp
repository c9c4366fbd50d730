// Draws from a Dirichlet distribution by gamma variables (Marsaglia and Tsang, "A simple method for
// generating gamma variables", 2000, with their method for shapes below 1). It computes with
// logarithms, because small concentrations would underflow.
#include "convergence/partition.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"

namespace lockstep {

namespace {

constexpr std::uint32_t gamma_event = 0x67616d, class_event = 0x636c73;

// The logarithm of a gamma variable with scale 1.
double log_gamma_draw(double shape, DrawKey key) {
  double log_boost = 0;
  if (shape < 1) {
    log_boost = std::log(uniform_draw(key)) / shape;
    shape += 1;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    ++key.event;
    const double x = normal_draw(key);
    ++key.event;
    const double u = uniform_draw(key), v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(u) < x * x / 2 + d * (1 - v + std::log(v))) {
      return std::log(d * v) + log_boost;
    }
  }
}

// A worker's probability of each class, except for a common factor.
std::vector<double> class_weights(std::size_t classes, double concentration, std::uint64_t seed,
                                  std::uint32_t worker) {
  std::vector<double> logarithms;
  for (std::size_t c = 0; c < classes; ++c) {
    const DrawKey key{seed, worker, static_cast<std::uint32_t>(c), gamma_event};
    logarithms.push_back(log_gamma_draw(concentration / static_cast<double>(classes), key));
  }
  const double largest = *std::max_element(logarithms.begin(), logarithms.end());
  std::vector<double> weights;
  for (const double logarithm : logarithms) weights.push_back(std::exp(logarithm - largest));
  return weights;
}

// The class that a uniform `draw` (0 to 1) selects, among classes that still have images.
std::size_t class_at(double draw, std::vector<double> weights,
                     const std::vector<std::vector<std::int64_t>>& left) {
  double all = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    if (left[c].empty()) weights[c] = 0;
    all += weights[c];
  }
  const auto has_images = [](const auto& images) { return !images.empty(); };
  auto chosen =
      static_cast<std::size_t>(std::find_if(left.begin(), left.end(), has_images) - left.begin());
  double below = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    if (weights[c] > 0 && below <= draw * all) chosen = c;
    below += weights[c];
  }
  return chosen;
}

}  // namespace

std::vector<std::vector<std::int64_t>> partition(const std::vector<std::uint8_t>& labels,
                                                 const std::vector<double>& shares,
                                                 double concentration, std::uint64_t seed) {
  const std::size_t classes = *std::max_element(labels.begin(), labels.end()) + std::size_t{1};
  std::vector<std::vector<std::int64_t>> left(concentration > 0 ? classes : 1);
  for (std::size_t i = labels.size(); i-- > 0;) {
    left[concentration > 0 ? labels[i] : 0].push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::vector<std::int64_t>> result(shares.size());
  const double count = static_cast<double>(labels.size());
  double until = 0;
  std::size_t dealt = 0;
  for (std::size_t w = 0; w < shares.size(); ++w) {
    const auto worker = static_cast<std::uint32_t>(w);
    std::vector<double> weights{1};
    if (concentration > 0) weights = class_weights(classes, concentration, seed, worker);
    until += shares[w] / static_cast<double>(shares.size()) * count;
    const std::size_t others = shares.size() - w - 1;  // which also need an image
    const auto wanted = static_cast<std::size_t>(std::llround(until));
    const std::size_t end = std::clamp(wanted, dealt + 1, labels.size() - others);
    for (; dealt < end; ++dealt) {
      const double draw =
          uniform_draw({seed, worker, static_cast<std::uint32_t>(dealt), class_event});
      std::vector<std::int64_t>& images = left[class_at(draw, weights, left)];
      result[w].push_back(images.back());
      images.pop_back();
    }
  }
  return result;
}

}  // namespace lockstep
