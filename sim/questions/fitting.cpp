// Searches sets of memory-saving changes, smallest sets first. Only the memory model decides
// whether a job fits, without a simulation. A set that contains a smaller set which fits is
// skipped.
#include "questions/fitting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "memory/step_player.hpp"
#include "points/batch.hpp"
#include "points/measured.hpp"
#include "points/predict.hpp"
#include "points/simulate.hpp"
#include "results/cells.hpp"

namespace lockstep {

namespace {

constexpr int most_gpus = 4096;               // largest number of GPUs that is suggested
constexpr std::int64_t most_micro = 1 << 20;  // samples

class Fitting {
  // The changes, as bits; a set of changes is the sum of its bits.
  enum Change : unsigned {
    smaller_micro = 1,
    operators = 2,  // recompute operators of each block
    blocks = 4,     // recompute whole blocks
    shard = 8,
    offload = 16,  // turns cpu_offload on or off
    all_changes = 32,
  };
  // Whether `set` contains all changes of `other`. Recomputing whole blocks includes recomputing
  // their operators, because it saves more.
  static bool has_all_of(unsigned set, unsigned other) {
    if (set & blocks) set |= operators;
    return (set & other) == other;
  }
  static int size_of(unsigned set) { return std::popcount(set); }

 public:
  Fitting(const Scenario& scenario, const Point& point, const std::vector<CostScale>& scales)
      : point_(point),
        base_(only(scenario, point.entry, point.job.mesh.gpus())),
        inputs_(InputFiles{}.of(base_)) {
    if (!scales.empty()) scales_ = {scales[point.entry]};
  }

  // At most `most` jobs on `gpus` GPUs, smallest sets first. On the point's own number of GPUs the
  // empty set is skipped, because it is the point itself.
  std::vector<FittingJob> on(int gpus, std::size_t most) {
    std::vector<FittingJob> jobs;
    const std::vector<unsigned> sets = sets_on(gpus);
    if (!any_fits(sets, gpus)) return jobs;
    // A set that contains a set which fits is a larger change than necessary.
    for (const unsigned set : sets) {
      if (jobs.size() == most) break;
      const bool more = std::any_of(fitting_.begin(), fitting_.end(),
                                    [set](unsigned known) { return has_all_of(set, known); });
      if (more || (set == 0 && gpus == point_.job.mesh.gpus())) continue;
      const std::optional<Scenario> changed = fitting_with(set, gpus);
      if (!changed) continue;
      fitting_.push_back(set);
      if (auto job = predicted(*changed, words(set, *changed))) jobs.push_back(std::move(*job));
    }
    return jobs;
  }

  // A job on the smallest number of GPUs, doubling the point's own, on which any set fits.
  std::optional<FittingJob> on_more_gpus() {
    const int last = std::min(most_gpus, max_gpus(point_.job.machine));
    for (int gpus = 2 * point_.job.mesh.gpus(); gpus <= last; gpus *= 2) {
      std::vector<FittingJob> jobs = on(gpus, 1);
      if (!jobs.empty()) return std::move(jobs.front());
    }
    return std::nullopt;
  }

  // Doubles the micro-batch until it does not fit, then bisects.
  std::optional<FittingJob> largest_micro() {
    const auto with_micro = [this](std::int64_t micro) {
      Scenario changed = base_;
      changed.batch = {};
      changed.batch.micro = micro;
      changed.batch.accumulation = point_.job.accumulation;
      return changed;
    };
    if (!fits(with_micro(1))) return std::nullopt;
    // After the first loop, `most` fits and `too_many` does not.
    std::int64_t most = 1, too_many = 2;
    while (too_many < most_micro && fits(with_micro(too_many)))
      most = std::exchange(too_many, 2 * too_many);
    while (too_many - most > 1) {
      const std::int64_t middle = most + (too_many - most) / 2;
      (fits(with_micro(middle)) ? most : too_many) = middle;
    }
    return predicted(with_micro(most), {fmt::format("micro-batch {}", most)});
  }

  std::optional<FittingJob> fewest() {
    std::set<int> counts{point_.job.mesh.gpus()};
    const int last = std::min(most_gpus, max_gpus(point_.job.machine));
    for (int gpus = 1; gpus <= last; gpus *= 2) counts.insert(gpus);
    for (const int gpus : counts) {
      Scenario changed = base_;
      changed.gpus = {gpus};
      if (fits(changed)) return predicted(changed, {fmt::format("{} GPUs", gpus)});
    }
    return std::nullopt;
  }

 private:
  // Samples of one optimizer step on each of `gpus` GPUs; 0 if the global batch does not divide.
  std::int64_t samples_on(int gpus) const {
    const std::int64_t global = base_.batch.global;
    if (global == 0) return point_.micro_batch * point_.job.accumulation;
    return global % gpus == 0 ? global / gpus : 0;
  }

  // The smallest micro-batch that divides the samples into an allowed number of micro-batches; 0 =
  // none.
  static std::int64_t least_micro(std::int64_t samples) {
    for (std::int64_t micro = 1; micro <= samples; ++micro) {
      if (samples % micro == 0 && samples / micro <= most_accumulation) return micro;
    }
    return 0;
  }

  // The scenario with a set of changes on `gpus` GPUs. `micro` is the smaller micro-batch; 0 means
  // the smallest possible. Nothing if a change of the set has no effect or is impossible for this
  // job.
  std::optional<Scenario> with(unsigned set, int gpus, std::int64_t micro = 0) const {
    Scenario changed = base_;
    changed.gpus = {gpus};
    StrategyEntry& entry = changed.strategies.front();
    if (set & (operators | blocks)) {
      const Recompute recompute = set & blocks ? Recompute::blocks : Recompute::operators;
      if (!recomputes_more(recompute)) return std::nullopt;
      entry.activation_checkpointing = true;
      entry.recompute = recompute;
    }
    if ((set & shard) && !shard_all(changed)) return std::nullopt;
    if (set & offload) {
      auto* fsdp = std::get_if<FsdpOptions>(&entry.options);
      if (!fsdp || is_host(point_.job.machine.device)) return std::nullopt;
      fsdp->cpu_offload = !fsdp->cpu_offload;
    }
    if (set & smaller_micro) {
      const std::int64_t samples = samples_on(gpus);
      if (micro == 0) micro = least_micro(samples);
      if (micro == 0) return std::nullopt;
      changed.batch = {};
      changed.batch.micro = micro;
      changed.batch.accumulation = samples / micro;
    }
    return changed;
  }

  // Whether this mode of recomputation saves more than the present one.
  bool recomputes_more(Recompute recompute) const {
    bool some = false, block = false;
    for (const Layer& layer : point_.job.step->layers) {
      some |= layer.checkpointed;
      block |= !layer.block.empty();
    }
    if (!block) return false;
    const Recompute now = point_.step_options.recompute;
    return !some || (recompute == Recompute::blocks && now != Recompute::blocks);
  }

  // Changes the entry to FSDP with full sharding. Returns false if the state is fully sharded
  // already, there is only one GPU, or precision or optimizer exclude shards.
  bool shard_all(Scenario& scenario) const {
    StrategyOptions& options = scenario.strategies.front().options;
    const auto* fsdp_options = std::get_if<FsdpOptions>(&options);
    if (fsdp_options && fsdp_options->sharding == Sharding::full_shard) return false;
    if (scenario.gpus.front() == 1) return false;
    FsdpOptions full = fsdp_options ? *fsdp_options : FsdpOptions{};
    full.sharding = Sharding::full_shard;
    const auto strategy = make_strategy(full);
    if (strategy->misfit(point_.precision) ||
        strategy->optimizer_misfit(scenario.optimizer, point_.job.machine.device)) {
      return false;
    }
    options = full;
    return true;
  }

  // Whether the job fits; also false if the job is refused.
  bool fits(const Scenario& scenario) {
    try {
      return lockstep::fits(memory_of(expand(scenario, inputs_, workloads_, scales_)).front());
    } catch (const ConfigError&) {  // refused, or the batch does not divide
      return false;
    }
  }

  // All sets of changes that are possible on `gpus` GPUs, smallest first.
  std::vector<unsigned> sets_on(int gpus) const {
    std::vector<unsigned> sets;
    for (unsigned set = 0; set < all_changes; ++set) {
      const bool both = (set & operators) && (set & blocks);
      if (!both && with(set, gpus)) sets.push_back(set);
    }
    std::stable_sort(sets.begin(), sets.end(),
                     [](unsigned a, unsigned b) { return size_of(a) < size_of(b); });
    return sets;
  }

  // Quick test before the search: tries the largest set, and the largest set without offload (which
  // needs memory of the host). If neither fits, no set does.
  bool any_fits(const std::vector<unsigned>& sets, int gpus) {
    const auto largest = [&](unsigned without) {
      unsigned best = 0;
      for (const unsigned set : sets) {
        if (!(set & without) && size_of(set) >= size_of(best)) best = set;
      }
      return best;
    };
    for (const unsigned set : {largest(0), largest(offload)}) {
      const std::optional<Scenario> changed = with(set, gpus);
      if (changed && fits(*changed)) return true;
    }
    return false;
  }

  // The scenario with this set of changes if it fits. For a smaller micro-batch, finds the largest
  // one that fits by bisection over the divisors of the samples.
  std::optional<Scenario> fitting_with(unsigned set, int gpus) {
    if (!(set & smaller_micro)) {
      std::optional<Scenario> changed = with(set, gpus);
      return changed && fits(*changed) ? changed : std::nullopt;
    }
    const std::int64_t samples = samples_on(gpus);
    const auto fits_with = [&](std::int64_t micro) {
      const std::optional<Scenario> changed = with(set, gpus, micro);
      return changed && fits(*changed);
    };
    // Candidates are the divisors below the present micro-batch; on another GPU count also the
    // present micro-batch.
    std::vector<std::int64_t> micros;
    for (std::int64_t micro = 1; micro <= std::min(samples, point_.micro_batch); ++micro) {
      const bool fewer = micro < point_.micro_batch || gpus != point_.job.mesh.gpus();
      if (samples % micro == 0 && samples / micro <= most_accumulation && fewer) {
        micros.push_back(micro);
      }
    }
    if (micros.empty() || !fits_with(micros.front())) return std::nullopt;
    const auto too_large = std::partition_point(micros.begin() + 1, micros.end(), fits_with);
    return with(set, gpus, *(too_large - 1));
  }

  // The changes of a set, in words.
  std::vector<std::string> words(unsigned set, const Scenario& changed) const {
    std::vector<std::string> list;
    const int gpus = changed.gpus.front();
    if (gpus != point_.job.mesh.gpus()) list.push_back(fmt::format("about {} GPUs", gpus));
    if (set & shard) list.push_back("fsdp with full_shard");
    if (set & (operators | blocks)) {
      const bool some = std::any_of(point_.job.step->layers.begin(), point_.job.step->layers.end(),
                                    [](const Layer& layer) { return layer.checkpointed; });
      const std::string mode = enum_name(*changed.strategies.front().recompute);
      const bool usual = !some && (set & blocks);
      list.push_back(some    ? "recompute: " + mode
                     : usual ? "activation checkpointing"
                             : "activation checkpointing with recompute: " + mode);
    }
    if (set & offload) {
      const bool on = std::get<FsdpOptions>(changed.strategies.front().options).cpu_offload;
      list.push_back(on ? "cpu_offload" : "no cpu_offload");
    }
    if (set & smaller_micro) {
      const std::int64_t steps = changed.batch.accumulation;
      list.push_back(fmt::format("micro-batch {}", changed.batch.micro));
      if (steps > 1) list.back() += fmt::format(" with {} accumulation steps", steps);
    }
    return list;
  }

  // Simulates the changed job. Nothing if the simulation fails or the prediction does not fit.
  std::optional<FittingJob> predicted(const Scenario& scenario, std::vector<std::string> changes) {
    Predicted made = predict_each(scenario, expand(scenario, inputs_, workloads_, scales_));
    if (made.predictions.empty() || made.predictions.front().out_of_memory) return std::nullopt;
    Prediction& prediction = made.predictions.front();
    if (prediction.global_batch != point_.global_batch) {
      changes.push_back(fmt::format("global batch {}", prediction.global_batch));
    }
    return FittingJob{std::move(changes), scenario, std::move(prediction)};
  }

  const Point& point_;
  Scenario base_;
  Inputs inputs_;
  Workloads workloads_;
  std::vector<CostScale> scales_;
  std::vector<unsigned> fitting_;  // sets of changes that fit, the point's own GPUs first
};

}  // namespace

std::string fitting_text(const FittingJob& job) {
  const Prediction& p = job.prediction;
  std::string text = job.changes.empty() ? "as written" : job.changes.front();
  for (std::size_t i = 1; i < job.changes.size(); ++i) {
    text += (i + 1 == job.changes.size() ? " and " : ", ") + job.changes[i];
  }
  text += fmt::format(" ({} a step, {} free", seconds_text(p.step_seconds),
                      bytes_text(free_bytes(p.memory)));
  if (p.memory.host_capacity > 0) {
    text +=
        fmt::format(", {} free on the host", bytes_text(p.memory.host_capacity - p.memory.host));
  }
  if (p.memory.nvme_capacity > 0) {
    text += fmt::format(", {} free on NVMe", bytes_text(p.memory.nvme_capacity - p.memory.nvme));
  }
  if (p.dollars > 0) text += ", " + dollars_text(p.dollars);
  return text + ")";
}

std::vector<FittingJob> least_changes(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales, std::size_t most) {
  Fitting fitting(scenario, point, scales);
  std::vector<FittingJob> jobs = fitting.on(point.job.mesh.gpus(), most);
  if (jobs.size() == most) return jobs;
  if (auto job = fitting.on_more_gpus()) jobs.push_back(std::move(*job));
  return jobs;
}

std::optional<FittingJob> largest_micro_batch(const Scenario& scenario, const Point& point,
                                              const std::vector<CostScale>& scales) {
  return Fitting(scenario, point, scales).largest_micro();
}

std::optional<FittingJob> fewest_gpus(const Scenario& scenario, const Point& point,
                                      const std::vector<CostScale>& scales) {
  return Fitting(scenario, point, scales).fewest();
}

}  // namespace lockstep
