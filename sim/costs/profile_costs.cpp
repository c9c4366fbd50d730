// The cost source that answers from a measured profile, with a model as fallback. Device seconds
// come from the profile (measured, interpolated between batches, or modelled and corrected). Host
// seconds come from the profile's host. A profile does not divide a layer's time into parts; the
// parts have the model's proportions. profile.hpp has the order of the sources.
#include <algorithm>
#include <cmath>
#include <optional>

#include "costs/profile.hpp"

namespace lockstep {
namespace {

// The largest ratio between the sizes of two measured points at which values between them are
// interpolated. It is also the ratio of batch sizes at which a measured batch has no influence on
// the correction of another one.
constexpr double widest_gap = 10;

// Linear interpolation; y0 if both points are the same.
double between(double x, double x0, double y0, double x1, double y1) {
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y0;
}

// The two measured points around x, if their sizes are at most widest_gap apart. If x itself was
// measured, both are that point. Nothing beyond the ends.
// REQUIRES: the points ascend by size.
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

// The layer of that name; `hint` is its likely index, which avoids a search.
const ProfileLayer* find_layer(const ProfileBatch& batch, const std::string& name,
                               std::size_t hint) {
  if (hint < batch.layers.size() && batch.layers[hint].name == name) return &batch.layers[hint];
  for (const ProfileLayer& layer : batch.layers)
    if (layer.name == name) return &layer;
  return nullptr;
}

double samples_of(const ProfileBatch& batch) {
  return static_cast<double>(batch.samples);
}

// Number of operators and launches of a list of kernels.
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

// An update interpolated by its number of elements only.
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

// Seconds of an update, by the first of these rules that applies: 1. the same update was measured;
// 2. the update has one tensor, or is a for-loop, which takes as long as its tensors one by one,
// all assumed to be of the mean size; 3. interpolation by the number of elements only. `flat`:
// measured updates of one tensor; `whole`: measured updates of all tensors of a network.
std::optional<Update> update_seconds(const std::vector<ProfileOptimizer>& flat,
                                     const std::vector<ProfileOptimizer>& whole,
                                     const OptimizerSpec& optimizer, double elements, int tensors) {
  for (const ProfileOptimizer& entry : whole) {
    if (entry.elements == elements && entry.tensors == tensors)
      return Update{entry.seconds, Provenance::measured};
  }
  // Muon's matrices of another shape take another time, even with the same number of elements.
  if (!optimizer.matrices.empty()) return std::nullopt;
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

// Implements profile_costs(). Every answer begins as the fallback's.
class ProfileCosts final : public ComputeCosts {
 public:
  ProfileCosts(std::shared_ptr<const Profile> profile, std::shared_ptr<const ComputeCosts> fallback,
               std::vector<TrainingStep> neighbours, const ProfileKin& kin)
      : profile_(std::move(profile)),
        fallback_(std::move(fallback)),
        neighbours_(std::move(neighbours)),
        kin_(kin) {}

  LayerCost layer(const TrainingStep& step, std::size_t index) const override {
    LayerCost cost = fallback_->layer(step, index);
    if (step.layers.at(index).wide) return cost;  // a profile does not contain the casts around it
    const ProfileModel* model = measured_model(*profile_, step);
    if (model == nullptr) {
      if (const auto times = as_its_kin(cost, step, index))
        answer(cost, step.layers[index], *times, Provenance::modelled);
      return cost;
    }
    const auto points = around(model->batches, static_cast<double>(step.samples), samples_of);
    if (points) {
      if (const auto times = interpolated(*points, step, index))
        answer(cost, step.layers[index], *times, provenance_of(*points));
    } else if (const auto times = scaled_by_neighbours(*model, cost, step, index)) {
      answer(cost, step.layers[index], *times, Provenance::modelled);
    }
    return cost;
  }

  QueuedWork optimizer(const OptimizerSpec& optimizer, Precision precision, double elements,
                       int tensors) const override {
    // updates of one tensor; updates of all tensors of a model
    std::vector<ProfileOptimizer> flat, whole;
    for (const ProfileOptimizer& entry : profile_->optimizers) {
      if (entry.name == optimizer.name && entry.implementation == optimizer.implementation &&
          entry.precision == precision && entry.momentum == (optimizer.momentum != 0))
        (entry.tensors == 1 ? flat : whole).push_back(entry);
    }
    const auto update = update_seconds(flat, whole, optimizer, elements, tensors);
    if (!update) return fallback_->optimizer(optimizer, precision, elements, tensors);
    const OptimizerTraffic traffic = optimizer_traffic(optimizer, precision, elements, tensors);
    const ProfileHost& host = profile_->host;
    const bool loops = optimizer.implementation == OptimizerImplementation::for_loop;
    // If the time per operator of an update was measured, it includes the launches.
    const bool measured_so = loops && host.update_operator_seconds > 0;
    QueuedWork work = queued(measured_so ? host.update_operator_seconds : host.operator_seconds,
                             measured_so ? 0 : host.launch_seconds, traffic.operators,
                             traffic.launches, update->seconds);
    work.provenance = update->provenance;
    return work;
  }

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

  std::vector<QueuedWork> hook_stages(const HookSettings& settings, double bytes) const override {
    const auto hook = std::find_if(
        profile_->hooks.begin(), profile_->hooks.end(),
        [&](const ProfileHook& measured) { return same_work(measured.settings, settings); });
    std::vector<QueuedWork> stages;
    if (hook == profile_->hooks.end()) return stages;
    const auto points =
        around(hook->points, bytes, [](const ProfileHookPoint& point) { return point.bytes; });
    if (!points) return stages;
    for (std::size_t i = 0; i < stages_of(settings.hook); ++i) {
      const double seconds = between(bytes, points->first->bytes, points->first->seconds[i],
                                     points->second->bytes, points->second->seconds[i]);
      stages.push_back({0, seconds, seconds, provenance_of(*points)});
    }
    return stages;
  }

 private:
  // Measured or corrected times of one layer, without recomputation.
  struct Times {
    double forward = 0;  // device seconds
    // absent = not measured: then as modelled, including recomputation
    std::optional<double> backward;
    double operator_seconds = 0, backward_operator = 0;  // host; 0 = the profile's host
  };

  // Times of a layer, interpolated between two measured batches; nothing if a batch lacks the
  // layer.
  static std::optional<Times> interpolated(
      const std::pair<const ProfileBatch*, const ProfileBatch*>& points, const TrainingStep& step,
      std::size_t index) {
    const std::string& name = step.layers.at(index).name;
    const ProfileLayer* low = find_layer(*points.first, name, index);
    const ProfileLayer* high = find_layer(*points.second, name, index);
    if (low == nullptr || high == nullptr) return std::nullopt;
    const auto at = [&](double of_low, double of_high) {
      return between(static_cast<double>(step.samples), samples_of(*points.first), of_low,
                     samples_of(*points.second), of_high);
    };
    return Times{
        at(low->forward_seconds, high->forward_seconds),
        low->backward_seconds && high->backward_seconds
            ? std::optional(at(*low->backward_seconds, *high->backward_seconds))
            : std::nullopt,
        at(points.first->operator_seconds, points.second->operator_seconds),
        at(points.first->backward_operator_seconds, points.second->backward_operator_seconds)};
  }

  // The modelled time times the ratio of the layer's class, which comes from other models of the
  // profile.
  std::optional<Times> as_its_kin(const LayerCost& modelled, const TrainingStep& step,
                                  std::size_t index) const {
    if (kin_.layers.empty()) return std::nullopt;
    const auto share = kin_.layers.find(layer_class(step.layers.at(index)));
    const ProfileKin::Share as_modelled;
    const ProfileKin::Share& known = share == kin_.layers.end() ? as_modelled : share->second;
    const Busy times = busy(modelled, step.layers.at(index));
    return Times{known.forward * times.forward, known.backward * times.backward,
                 kin_.operator_seconds, kin_.backward_operator_seconds};
  }

  // The modelled time times the ratio of measured to modelled time at the neighbouring measured
  // batches. The exponent of a neighbour's ratio falls with its distance in batch size, to 0 at a
  // factor of widest_gap: power = 1 - (log distance / log widest_gap)^4. The 4 comes from pairs of
  // measured batches a factor of four apart (docs/profile-format.md).
  std::optional<Times> scaled_by_neighbours(const ProfileModel& model, const LayerCost& modelled,
                                            const TrainingStep& step, std::size_t index) const {
    const ProfileBatch* nearest = nullptr;
    double most = 0, powers = 0;
    Busy exponents;  // sums of power x log(measured / modelled) over the neighbours
    for (const TrainingStep& neighbour : neighbours_) {
      const auto batch = std::find_if(
          model.batches.begin(), model.batches.end(),
          [&](const ProfileBatch& profiled) { return profiled.samples == neighbour.samples; });
      if (batch == model.batches.end() || index >= neighbour.layers.size()) continue;
      const ProfileLayer* measured = find_layer(*batch, step.layers[index].name, index);
      const double distance =
          std::abs(std::log(static_cast<double>(step.samples) / samples_of(*batch)));
      const double power = 1 - std::pow(distance / std::log(widest_gap), 4);
      if (measured == nullptr || power <= 0) continue;
      const Busy there = busy(fallback_->layer(neighbour, index), neighbour.layers[index]);
      const auto say = [&](double& exponent, double truly, double in_the_model) {
        if (truly > 0 && in_the_model > 0) exponent += power * std::log(truly / in_the_model);
      };
      say(exponents.forward, measured->forward_seconds, there.forward);
      say(exponents.backward, measured->backward_seconds.value_or(0), there.backward);
      powers += power;
      if (power > most) {
        most = power;
        nearest = &*batch;
      }
    }
    if (nearest == nullptr) return std::nullopt;
    // If the powers of two neighbours add up to more than 1, they are scaled down to the sum 1.
    const double weight = 1 / std::max(1.0, powers);
    const Busy times = busy(modelled, step.layers.at(index));
    return Times{times.forward * std::exp(weight * exponents.forward),
                 times.backward * std::exp(weight * exponents.backward), nearest->operator_seconds,
                 nearest->backward_operator_seconds};
  }

  struct Busy {
    double forward = 0, backward = 0;
  };
  // Whether backward repeats the whole forward of a layer. If a checkpointed layer stores its
  // product, only casts are repeated, which a profile does not record.
  static bool all_runs_again(const Layer& layer) {
    return layer.checkpointed && !layer.keeps_output;
  }
  // Device seconds of a layer without recomputation, which is how a profile states them.
  static Busy busy(const LayerCost& cost, const Layer& layer) {
    return {cost.forward.busy,
            cost.backward.busy - (all_runs_again(layer) ? cost.forward.busy : 0)};
  }

  // Replaces the model's times in `cost` by the given ones, and scales the parts that a profile
  // does not record in proportion.
  void answer(LayerCost& cost, const Layer& layer, const Times& times,
              Provenance provenance) const {
    const double modelled = cost.forward.busy + cost.backward.busy;
    const double modelled_backward = cost.backward.busy;
    const ProfileHost& host = profile_->host;
    // If the host time per operator was measured, it includes all launches of the operator.
    const auto known = [&](double measured, double otherwise) {
      return measured > 0 ? HostTimes{measured, 0} : HostTimes{otherwise, host.launch_seconds};
    };
    cost.forward =
        work(layer.forward, known(times.operator_seconds, host.operator_seconds), times.forward);
    cost.forward.provenance = provenance;
    if (times.backward) {
      cost.backward =
          work(layer.backward, known(times.backward_operator, host.backward_operator_seconds),
               *times.backward);
      cost.backward.provenance = provenance;
      if (all_runs_again(layer)) cost.backward = append(cost.forward, cost.backward);
    }
    // The profile does not divide backward into parts, so the parts have the model's shares.
    if (modelled_backward > 0) {
      const double factor = cost.backward.busy / modelled_backward;
      for (QueuedWork* part : {&cost.weight_gradient, &cost.input_gradient}) {
        *part = scaled(*part, factor, 1);
      }
    }
    // A profile does not record the limits of a layer, so the model's proportions are used.
    if (modelled <= 0) return;
    const double factor = (cost.forward.busy + cost.backward.busy) / modelled;
    for (double* share : {&cost.memory_bound, &cost.arithmetic, &cost.streaming}) *share *= factor;
  }

  struct HostTimes {
    double each_operator = 0, further_launch = 0;
  };
  static QueuedWork work(const std::vector<Kernel>& kernels, const HostTimes& host,
                         double seconds) {
    Dispatched counts = dispatched(kernels);
    // A layer without kernels (a view) can have a small measured time on a CPU; then it counts as
    // one launch.
    if (seconds > 0) counts.launches = std::max(counts.launches, 1);
    return queued(host.each_operator, host.further_launch, counts.operators, counts.launches,
                  seconds);
  }

  std::shared_ptr<const Profile> profile_;
  std::shared_ptr<const ComputeCosts> fallback_;
  std::vector<TrainingStep> neighbours_;  // ascending batch
  ProfileKin kin_;
};

}  // namespace

const ProfileModel* measured_model(const Profile& profile, const TrainingStep& step) {
  if (step.samples <= 0 || !step.whole_layers) return nullptr;
  const double input = step.input_bytes / static_cast<double>(step.samples);
  for (const ProfileModel& model : profile.models) {
    if (model.model == step.model && model.precision == step.precision &&
        std::abs(model.input_bytes_per_sample - input) <= 1e-9 * input)
      return &model;
  }
  return nullptr;
}

bool answers_batch(const ProfileModel& model, std::int64_t samples) {
  return around(model.batches, static_cast<double>(samples), samples_of).has_value();
}

double measured_step_sigma(const Profile& profile, const TrainingStep& step) {
  const ProfileModel* model = measured_model(profile, step);
  if (model == nullptr) return 0;
  for (const ProfileBatch& batch : model->batches) {
    if (batch.samples == step.samples) return batch.step_sigma;
  }
  return 0;
}

void use_measured_workspaces(const Profile& profile, TrainingStep& step) {
  const ProfileModel* model = measured_model(profile, step);
  if (model == nullptr || model->batches.empty()) return;
  const auto samples = static_cast<double>(step.samples);
  const auto points = around(model->batches, samples, samples_of);
  const ProfileBatch* nearest = &model->batches.front();
  for (const ProfileBatch& batch : model->batches) {
    if (batch.samples <= step.samples) nearest = &batch;
  }
  const ProfileBatch &low = points ? *points->first : *nearest,
                     &high = points ? *points->second : *nearest;
  const auto use = [&](double& bytes, std::optional<double> at_low, std::optional<double> at_high) {
    if (!at_low || !at_high) return;
    bytes = points ? between(samples, samples_of(low), *at_low, samples_of(high), *at_high)
                   : *at_low * samples / samples_of(low);
  };
  for (std::size_t i = 0; i < step.layers.size(); ++i) {
    Layer& layer = step.layers[i];
    if (!uses(layer.forward, KernelKind::convolution)) continue;
    const ProfileLayer *of_low = find_layer(low, layer.name, i),
                       *of_high = find_layer(high, layer.name, i);
    if (of_low == nullptr || of_high == nullptr) continue;
    use(layer.forward_workspace_bytes, of_low->forward_workspace, of_high->forward_workspace);
    use(layer.backward_workspace_bytes, of_low->backward_workspace, of_high->backward_workspace);
  }
}

std::vector<std::int64_t> neighbouring_batches(const Profile& profile, const TrainingStep& step) {
  std::vector<std::int64_t> batches;
  const ProfileModel* model = measured_model(profile, step);
  if (model == nullptr || answers_batch(*model, step.samples)) return batches;
  for (const ProfileBatch& batch : model->batches) {
    if (batch.samples > step.samples) {
      batches.push_back(batch.samples);
      break;
    }
    batches.assign(1, batch.samples);
  }
  return batches;
}

std::unique_ptr<ComputeCosts> profile_costs(std::shared_ptr<const Profile> profile,
                                            std::shared_ptr<const ComputeCosts> fallback,
                                            std::vector<TrainingStep> neighbours,
                                            const ProfileKin& kin) {
  return std::make_unique<ProfileCosts>(std::move(profile), std::move(fallback),
                                        std::move(neighbours), kin);
}

}  // namespace lockstep
