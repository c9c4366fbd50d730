// The cost source that serves a measured profile (see profile.hpp for the order of answers).
#include <algorithm>
#include <cmath>
#include <optional>

#include "costs/profile.hpp"

namespace lockstep {
namespace {

// Between two measured points further apart than this the curve between them is anybody's guess.
constexpr double widest_gap = 10;

double between(double x, double x0, double y0, double x1, double y1) {
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

// The two points around x, if they are no further apart than an order of magnitude. Both the same:
// measured.
template <class Point, class Size>
std::optional<std::pair<const Point*, const Point*>> around(const std::vector<Point>& points,
                                                            double x, Size size) {
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const Point& point) { return size(point) >= x; });
  if (above == points.end()) return std::nullopt;
  if (size(*above) == x) return std::pair{&*above, &*above};
  if (above == points.begin()) return std::nullopt;
  const auto below = above - 1;
  if (size(*above) > widest_gap * size(*below)) return std::nullopt;
  return std::pair{&*below, &*above};
}

template <class Point>
Provenance provenance_of(const std::pair<const Point*, const Point*>& points) {
  return points.first == points.second ? Provenance::measured : Provenance::interpolated;
}

const ProfileModel* find_model(const Profile& profile, const TrainingStep& step) {
  if (step.samples <= 0) return nullptr;
  const double input = step.input_bytes / static_cast<double>(step.samples);
  for (const ProfileModel& model : profile.models) {
    if (model.model == step.model && model.precision == step.precision &&
        std::abs(model.input_bytes_per_sample - input) <= 1e-9 * input)
      return &model;
  }
  return nullptr;
}

const ProfileLayer* find_layer(const ProfileBatch& batch, const std::string& name,
                               std::size_t hint) {
  if (hint < batch.layers.size() && batch.layers[hint].name == name) return &batch.layers[hint];
  for (const ProfileLayer& layer : batch.layers)
    if (layer.name == name) return &layer;
  return nullptr;
}

struct Dispatched {
  int operators = 0, launches = 0;
};
Dispatched dispatched(const std::vector<Kernel>& kernels) {
  Dispatched sum;
  for (const Kernel& kernel : kernels) {
    sum.operators += kernel.operators;
    sum.launches += kernel.launches;
  }
  return sum;
}

struct Update {
  double seconds = 0;
  Provenance provenance{};
};

std::optional<Update> by_elements(std::vector<ProfileOptimizer> entries, double elements) {
  std::sort(
      entries.begin(), entries.end(),
      [](const ProfileOptimizer& a, const ProfileOptimizer& b) { return a.elements < b.elements; });
  const auto points =
      around(entries, elements, [](const ProfileOptimizer& entry) { return entry.elements; });
  if (!points) return std::nullopt;
  return Update{between(elements, points->first->elements, points->first->seconds,
                        points->second->elements, points->second->seconds),
                provenance_of(*points)};
}

// The very update that was measured; else a loop over tensors takes as long as its tensors one by
// one, all of their mean size; else by the number of parameters alone.
std::optional<Update> update_seconds(const std::vector<ProfileOptimizer>& flat,
                                     const std::vector<ProfileOptimizer>& whole,
                                     const OptimizerSpec& optimizer, double elements, int tensors) {
  for (const ProfileOptimizer& entry : whole) {
    if (entry.elements == elements && entry.tensors == tensors)
      return Update{entry.seconds, Provenance::measured};
  }
  const bool loops = optimizer.implementation == OptimizerImplementation::for_loop;
  if (loops || tensors == 1) {
    if (auto each = by_elements(flat, elements / tensors)) {
      each->seconds *= tensors;
      if (tensors > 1) each->provenance = Provenance::interpolated;
      return each;
    }
  }
  return by_elements(whole.empty() ? flat : whole, elements);
}

class ProfileCosts final : public ComputeCosts {
 public:
  ProfileCosts(std::shared_ptr<const Profile> profile, std::shared_ptr<const ComputeCosts> fallback)
      : profile_(std::move(profile)), fallback_(std::move(fallback)) {}

  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = fallback_->layer(step, index);
    const ProfileModel* model = find_model(*profile_, step);
    if (model == nullptr) return cost;
    const double samples = static_cast<double>(step.samples);
    const auto points = around(model->batches, samples, [](const ProfileBatch& batch) {
      return static_cast<double>(batch.samples);
    });
    if (!points) return cost;
    const Layer& layer = step.layers.at(index);
    const ProfileLayer* low = find_layer(*points->first, layer.name, index);
    const ProfileLayer* high = find_layer(*points->second, layer.name, index);
    if (low == nullptr || high == nullptr) return cost;
    const double x0 = static_cast<double>(points->first->samples);
    const double x1 = static_cast<double>(points->second->samples);
    const double forward = between(samples, x0, low->forward_seconds, x1, high->forward_seconds);
    const double backward = between(samples, x0, low->backward_seconds, x1, high->backward_seconds);
    const double modelled = cost.forward.busy + cost.backward.busy;
    const auto dispatch = [&](double ProfileBatch::*of_batch, double otherwise) {
      const double seconds =
          between(samples, x0, (*points->first).*of_batch, x1, (*points->second).*of_batch);
      return seconds > 0 ? seconds : otherwise;
    };
    const ProfileHost& host = profile_->host;
    cost.forward = work(layer.forward,
                        dispatch(&ProfileBatch::operator_seconds, host.operator_seconds), forward);
    cost.backward =
        work(layer.backward,
             dispatch(&ProfileBatch::backward_operator_seconds, host.backward_operator_seconds),
             backward);
    cost.forward.provenance = cost.backward.provenance = provenance_of(*points);
    if (layer.checkpointed) cost.backward = append(cost.forward, cost.backward);
    // The profile does not say what limits a layer; keep the model's share.
    if (modelled > 0) cost.memory_bound *= (cost.forward.busy + cost.backward.busy) / modelled;
    return cost;
  }

  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    std::vector<ProfileOptimizer> flat, whole;  // of one tensor, of all of a network's
    for (const ProfileOptimizer& entry : profile_->optimizers) {
      if (entry.name == optimizer.name && entry.implementation == optimizer.implementation &&
          entry.precision == precision && entry.momentum == (optimizer.momentum != 0))
        (entry.tensors == 1 ? flat : whole).push_back(entry);
    }
    const auto update = update_seconds(flat, whole, optimizer, elements, tensors);
    if (!update) return fallback_->optimizer(optimizer, precision, elements, tensors);
    const OptimizerTraffic traffic = optimizer_traffic(optimizer, precision, elements, tensors);
    QueuedWork work = queued(profile_->host.operator_seconds, profile_->host.launch_seconds,
                             traffic.operators, traffic.launches, update->seconds);
    work.provenance = update->provenance;
    return work;
  }

  FrameworkKind framework() const override { return fallback_->framework(); }
  QueuedWork stream(double bytes, int launches) const override {
    const QueuedWork modelled = fallback_->stream(bytes, launches);
    if (launches <= 0) return modelled;
    const auto points = around(profile_->copies, bytes / launches,
                               [](const ProfileCopy& copy) { return copy.bytes; });
    if (!points) return modelled;
    const double each = between(bytes / launches, points->first->bytes, points->first->seconds,
                                points->second->bytes, points->second->seconds);
    QueuedWork work = queued(modelled.host / launches, 0, launches, launches, each * launches);
    work.provenance = provenance_of(*points);
    return work;
  }

 private:
  QueuedWork work(const std::vector<Kernel>& kernels, double operator_seconds,
                  double seconds) const {
    Dispatched counts = dispatched(kernels);
    // A layer without kernels, a view, takes a little time of a CPU all the same.
    if (seconds > 0) counts.launches = std::max(counts.launches, 1);
    return queued(operator_seconds, profile_->host.launch_seconds, counts.operators,
                  counts.launches, seconds);
  }

  std::shared_ptr<const Profile> profile_;
  std::shared_ptr<const ComputeCosts> fallback_;
};

}  // namespace

double measured_step_sigma(const Profile& profile, const TrainingStep& step) {
  const ProfileModel* model = find_model(profile, step);
  if (model == nullptr) return 0;
  for (const ProfileBatch& batch : model->batches) {
    if (batch.samples == step.samples) return batch.step_sigma;
  }
  return 0;
}

std::unique_ptr<ComputeCosts> profile_costs(std::shared_ptr<const Profile> profile,
                                            std::shared_ptr<const ComputeCosts> fallback) {
  return std::make_unique<ProfileCosts>(std::move(profile), std::move(fallback));
}

}  // namespace lockstep
