// Adds accuracy to the points of a scenario: simulates each point's updates in full, replays them
// with several seeds, and gives each point of a learning curve the simulated time of its update.
// Points with equal order of updates have common replays, because learning does not depend on time.
#include "convergence/study.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "convergence/job.hpp"
#include "core/statistics.hpp"
#include "launch/interrupts.hpp"
#include "launch/measuring.hpp"
#include "launch/processes.hpp"
#include "points/measured.hpp"
#include "points/points.hpp"
#include "points/simulate.hpp"
#include "points/workloads.hpp"
#include "questions/anchor.hpp"
#include "results/cells.hpp"
#include "results/learning.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

// Writes a schedule without times, because a learning curve depends only on the order of updates.
// If no gradient is stale, weights of stale gradients are also removed. So schedules that lead to
// the same learning become equal files.
std::string without_times(UpdateSchedule schedule, const fs::path& file) {
  bool fresh = true;
  for (ScheduledPush& push : schedule.pushes) {
    push.time = 0;
    fresh &= push.applied == 0 || push.read + 1 == push.applied;
  }
  if (fresh) schedule.weighting = Weighting::none;
  if (schedule.weighting == Weighting::none) schedule.weighting_parameter = 0;
  write_schedule(schedule, file.string());
  return file.string();
}

void give_times(AccuracyCurve& curve, const UpdateSchedule& schedule) {
  std::vector<double> times{0};
  for (const ScheduledPush& push : schedule.pushes) {
    if (push.message != 0 || push.applied == 0) continue;
    times.resize(std::max(times.size(), static_cast<std::size_t>(push.applied) + 1), push.time);
    times[static_cast<std::size_t>(push.applied)] = push.time;
  }
  for (AccuracyPoint& point : curve) {
    point.time = times[std::min(times.size() - 1, static_cast<std::size_t>(point.updates))];
  }
}

double scaled(double rate, RateScaling scaling, int workers) {
  switch (scaling) {
    case RateScaling::none:
      return rate;
    case RateScaling::linear:
      return rate * workers;
    case RateScaling::square_root:
      return rate * std::sqrt(static_cast<double>(workers));
  }
  return rate;
}

struct Recipe {
  double learning_rate = 0;  // before scaling
  double momentum = 0;
};

class Study {
 public:
  Study(const Scenario& scenario, ResultRecord& record, Replays& replays, int workers)
      : scenario_(scenario),
        spec_(*scenario.convergence),
        record_(record),
        workers_(workers),
        replays_(replays) {
    schedules();
  }

  // The key of a point's training. The job of the first training determines all others.
  std::string key(std::size_t i) const { return replays_.key_of(job_of(i, recipes().front(), 0)); }

  void run() {
    const std::vector<Recipe> recipes = best_recipes();
    std::vector<std::vector<std::string>> keys(points_.size());  // by seed
    for (std::size_t i = 0; i < points_.size(); ++i) {
      for (int seed = 0; seed < spec_.seeds; ++seed) {
        keys[i].push_back(replays_.ask(job_of(i, recipes[i], seed)));
      }
    }
    replays_.run();
    for (std::size_t i = 0; i < points_.size(); ++i) conclude(i, recipes[i], keys[i]);
    if (!replays_.not_kept().empty()) {
      record_.warnings.push_back("the trained results are not kept: " + replays_.not_kept());
    }
    if (std::string sentence = target_sentence(record_); !sentence.empty()) {
      record_.findings.push_back(std::move(sentence));
    }
  }

 private:
  // Simulates each point that fits into memory to the end of its run, and stores the order of its
  // updates.
  void schedules() {
    const RunOptions options{workers_,
                             [](const RunProgress&) { InterruptGuard::throw_if_interrupted(); }};
    const auto scales = anchor_scales(scenario_, options);
    for (Point& point : expand(scenario_, scales)) {
      const auto found = std::find_if(
          record_.predictions.begin(), record_.predictions.end(), [&](const Prediction& p) {
            return p.strategy == point.label && p.gpus == point.job.mesh.gpus() && !p.out_of_memory;
          });
      if (found == record_.predictions.end()) continue;
      const double steps = steps_of_run(scenario_, point);
      point.job.simulation.steps = static_cast<int>(std::min(steps, 1e9));
      point.job.simulation.schedule_file =
          folder_.file(fmt::format("simulated{}", points_.size())).string();
      points_.push_back(std::move(point));
      predictions_.push_back(&*found);
    }
    const auto outcomes = simulate(points_, options);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const Job& job = points_[i].job;
      const bool of_its_own = fs::exists(job.simulation.schedule_file);
      // An asynchronous worker has only its own gradient to clip; synchronous ranks clip the mean.
      clipped_.push_back(of_its_own ? Clipped::pushes : Clipped::mean);
      if (of_its_own) {
        schedules_.push_back(read_schedule(job.simulation.schedule_file));
      } else {
        schedules_.push_back(synchronous_schedule(job.mesh.replicas(), job.simulation.steps,
                                                  outcomes[i].first_step_seconds,
                                                  mean(outcomes[i].step_seconds)));
        points_[i].strategy->describe_updates(job, schedules_.back());
      }
      files_.push_back(
          without_times(schedules_.back(), folder_.file(fmt::format("schedule{}", i))));
    }
  }

  ReplayJob job_of(std::size_t i, const Recipe& recipe, int seed) const {
    const Point& point = points_[i];
    ReplayJob job;
    job.model = scenario_.model;
    job.step = point.step_options;
    job.step.samples = point.micro_batch;
    job.step.precision = Precision::fp32;  // the replay runs on a CPU
    job.schedule = files_[i];
    job.data = spec_.data;
    job.train_samples = static_cast<std::int64_t>(scenario_.dataset.samples);
    LearningPlan& plan = job.plan;
    plan.optimizer = scenario_.optimizer;
    plan.optimizer.implementation = OptimizerImplementation::for_loop;
    plan.optimizer.learning_rate =
        scaled(recipe.learning_rate, spec_.scaling, schedules_[i].workers);
    plan.optimizer.momentum = recipe.momentum;
    plan.accumulation = point.job.accumulation;
    plan.gradient_clipping = scenario_.gradient_clipping;
    plan.clipped = clipped_[i];
    // Synchronous ranks apply their optimizer after the mean and its clipping.
    plan.momentum_at = clipped_[i] == Clipped::mean ? MomentumPlace::server : spec_.momentum_at;
    plan.rate_schedule = spec_.schedule;
    plan.warm_up_epochs = spec_.warm_up_epochs;
    plan.initialisation = spec_.initialisation;
    plan.running_statistics = spec_.running_statistics;
    plan.epochs = scenario_.dataset.epochs;
    plan.evaluations = static_cast<int>(spec_.evaluations);
    plan.test_samples = spec_.test_samples;
    plan.seed =
        static_cast<std::uint64_t>(scenario_.simulation.seed) + static_cast<std::uint64_t>(seed);
    return job;
  }

  // Every learning rate with every momentum of `tune`, or the scenario's values.
  std::vector<Recipe> recipes() const {
    const TuningSpec tune = spec_.tune.value_or(TuningSpec{});
    std::vector<double> rates = tune.learning_rate, momenta = tune.momentum;
    if (rates.empty()) rates = {spec_.learning_rate};
    if (momenta.empty()) momenta = {scenario_.optimizer.momentum};
    std::vector<Recipe> all;
    for (const double rate : rates) {
      for (const double momentum : momenta) all.push_back({rate, momentum});
    }
    return all;
  }

  // The best recipe of each point, found by one training with each recipe. The seed is one that no
  // reported training uses.
  std::vector<Recipe> best_recipes() {
    const std::vector<Recipe> all = recipes();
    if (all.size() == 1) return std::vector<Recipe>(points_.size(), all.front());
    std::vector<std::vector<std::string>> keys(points_.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
      for (const Recipe& recipe : all) {
        ReplayJob job = job_of(i, recipe, static_cast<int>(spec_.seeds));
        job.held_out = true;
        job.plan.evaluations = 1;
        keys[i].push_back(replays_.ask(job));
      }
    }
    replays_.run();
    std::vector<Recipe> best;
    for (const auto& of_point : keys) {
      std::size_t chosen = 0;
      double most = -1;
      for (std::size_t r = 0; r < all.size(); ++r) {
        const ReplayResult* result = replays_.result(of_point[r]);
        if (result == nullptr || result->diverged || result->curve.empty()) continue;
        if (result->curve.back().accuracy <= most) continue;
        most = result->curve.back().accuracy;
        chosen = r;
      }
      best.push_back(all[chosen]);
    }
    return best;
  }

  // Features of the scenario that change learning and that the replay does not support.
  std::vector<std::string> left_out(const Point& point) const {
    std::vector<std::string> all = point.strategy->not_replayed(point.job);
    const bool half_or_tf32 = point.step_options.precision != Precision::fp32;  // on this device
    if (half_or_tf32 && point.precision != Precision::fp32) {
      all.push_back(enum_name(point.precision));
    }
    if (scenario_.faults) all.push_back("failures");
    return all;
  }

  void conclude(std::size_t i, const Recipe& recipe, const std::vector<std::string>& keys) {
    std::vector<AccuracyCurve> curves;
    int diverged = 0;
    bool complete = true;
    for (const std::string& key : keys) {
      const ReplayResult* result = replays_.result(key);
      if (result == nullptr) continue;
      AccuracyCurve curve = result->curve;
      give_times(curve, schedules_[i]);
      diverged += result->diverged;
      complete &= result->complete || result->diverged;
      curves.push_back(std::move(curve));
    }
    Prediction& p = *predictions_[i];
    const std::string name = point_text(p.strategy, p.gpus);
    if (curves.size() < keys.size()) {
      record_.warnings.push_back(fmt::format("{}: {} of {} seeds have no accuracy: {}", name,
                                             keys.size() - curves.size(), keys.size(),
                                             replays_.failure()));
    }
    if (curves.empty()) return;
    if (const std::vector<std::string> without = left_out(points_[i]); !without.empty()) {
      p.notes.push_back(fmt::format("its accuracy is learnt without {}, which would change it",
                                    fmt::join(without, ", ")));
    }
    if (!complete) {
      record_.warnings.push_back(name + ": the simulated updates end before the epochs do");
    }
    if (diverged > 0) {
      record_.warnings.push_back(fmt::format(
          "{}: {} of {} seeds diverged (their loss is no number)", name, diverged, curves.size()));
    }
    const Job& job = points_[i].job;
    p.accuracy = accuracy_of(curves, diverged, spec_.target,
                             job.mesh.gpus() * job.machine.price_per_gpu_hour / 3600);
    p.accuracy->learning_rate = scaled(recipe.learning_rate, spec_.scaling, schedules_[i].workers);
    p.accuracy->momentum = recipe.momentum;
  }

  const Scenario& scenario_;
  const ConvergenceSpec& spec_;
  ResultRecord& record_;
  const int workers_;
  Replays& replays_;
  const InterruptGuard guard_{};  // while the folder exists
  const RunFolder folder_;
  std::vector<Point> points_;
  std::vector<Prediction*> predictions_;
  std::vector<UpdateSchedule> schedules_;
  std::vector<std::string> files_;
  std::vector<Clipped> clipped_;
};

}  // namespace

void check_can_learn(const Scenario& scenario) {
  if (scenario.dataset.samples <= 0) {
    throw ConfigError({scenario.convergence->where, "convergence",
                       "needs to know how long the run is",
                       "`dataset: {samples: ..., epochs: ...}`"});
  }
}

void add_accuracy(const Scenario& scenario, ResultRecord& record, const ReplaysOptions& options) {
  check_can_learn(scenario);
  try {
    measuring_program(options.verb);
  } catch (const ConfigError& error) {
    record.warnings.push_back("no accuracy: " + error.diagnostics().front().message + "; " +
                              error.diagnostics().front().hint);
    return;
  }
  try {
    Replays replays(scenario.convergence->where, options);
    Study(scenario, record, replays, options.workers).run();
  } catch (const ConfigError&) {
    throw;
  } catch (const InterruptError&) {
    throw;
  } catch (
      const std::exception& error) {  // for example, a full disk: the prediction is still valid
    record.warnings.push_back(std::string("no accuracy: ") + error.what());
  }
}

PreparedTraining prepare_training(const Scenario& scenario, Replays& replays, int workers) {
  struct One {
    explicit One(const Scenario& of) : scenario(of) {}
    Scenario scenario;
    ResultRecord record{};
    std::optional<Study> study{};
  };
  const auto one = std::make_shared<One>(scenario);
  Prediction& p = one->record.predictions.emplace_back();
  p.strategy = scenario.strategies.front().label;
  p.gpus = scenario.gpus.front();
  one->study.emplace(one->scenario, one->record, replays, workers);
  return {one->study->key(0), [one]() -> TrainedPoint {
            one->study->run();
            const Prediction& trained = one->record.predictions.front();
            std::vector<std::string> warnings = one->record.warnings;
            for (const std::string& note : trained.notes) {
              warnings.push_back(point_text(trained.strategy, trained.gpus) + ": " + note);
            }
            return {trained.accuracy, std::move(warnings)};
          }};
}

}  // namespace lockstep
