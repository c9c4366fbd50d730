// See study.hpp.
#include "convergence/study.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "convergence/job.hpp"
#include "core/statistics.hpp"
#include "launch/measuring.hpp"
#include "launch/processes.hpp"
#include "points/fork_map.hpp"
#include "points/measured.hpp"
#include "points/points.hpp"
#include "points/simulate.hpp"
#include "points/step.hpp"
#include "questions/anchor.hpp"
#include "results/cells.hpp"
#include "results/learning.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// FNV-1a, of 64 bits: names a file of the cache.
std::uint64_t digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// "" where nothing can be kept.
fs::path cache_folder() {
  const char* given = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if ((given == nullptr || *given == 0) && (home == nullptr || *home == 0)) return {};
  const fs::path base =
      given != nullptr && *given != 0 ? fs::path(given) : fs::path(home) / ".cache";
  std::error_code error;
  fs::create_directories(base / "lockstep" / "replays", error);
  return error ? fs::path() : base / "lockstep" / "replays";
}

// What may change a replay's answer besides its job: the program. A build of another day is another
// one.
std::string program_mark(const std::string& program) {
  std::error_code error;
  const auto size = fs::file_size(program, error);
  const auto time = fs::last_write_time(program, error).time_since_epoch().count();
  return fmt::format("{} {}", size, time);
}

// A learning curve does not depend on the time that it takes; the schedule gives each of its points
// the time at which that update was applied.
std::string without_times(UpdateSchedule schedule, const fs::path& file) {
  for (ScheduledPush& push : schedule.pushes) push.time = 0;
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

double scaled_rate(const ConvergenceSpec& spec, int workers) {
  switch (spec.scaling) {
    case RateScaling::none:
      return spec.learning_rate;
    case RateScaling::linear:
      return spec.learning_rate * workers;
    case RateScaling::square_root:
      return spec.learning_rate * std::sqrt(static_cast<double>(workers));
  }
  return spec.learning_rate;
}

class Study {
 public:
  Study(const Scenario& scenario, ResultRecord& record, const StudyOptions& options)
      : scenario_(scenario),
        spec_(*scenario.convergence),
        record_(record),
        options_(options),
        program_(measuring_program("run")) {}

  void run() {
    schedules();
    plan_jobs();
    work();
    for (std::size_t i = 0; i < points_.size(); ++i) conclude(i);
    if (std::string sentence = target_sentence(record_); !sentence.empty()) {
      record_.findings.push_back(std::move(sentence));
    }
  }

 private:
  struct Learner {  // one seed of one point
    std::string job, key;
  };

  // Simulates the points that fit to the end of their run, with the order of their updates.
  void schedules() {
    const auto scales = anchor_scales(scenario_, {options_.workers, {}});
    for (Point& point : expand(scenario_, scales)) {
      const auto found = std::find_if(
          record_.predictions.begin(), record_.predictions.end(), [&](const Prediction& p) {
            return p.strategy == point.label && p.gpus == point.job.gpus && !p.out_of_memory;
          });
      if (found == record_.predictions.end()) continue;
      const double steps = steps_of_run(scenario_, point);
      point.job.steps = static_cast<int>(std::min(steps, 1e9));
      point.job.schedule_file = folder_.file(fmt::format("simulated{}", points_.size())).string();
      points_.push_back(std::move(point));
      predictions_.push_back(&*found);
    }
    const auto outcomes = simulate(points_, {options_.workers, {}});
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const Job& job = points_[i].job;
      schedules_.push_back(fs::exists(job.schedule_file)
                               ? read_schedule(job.schedule_file)
                               : synchronous_schedule(job.gpus, job.steps,
                                                      outcomes[i].first_step_seconds,
                                                      mean(outcomes[i].step_seconds)));
      files_.push_back(
          without_times(schedules_.back(), folder_.file(fmt::format("schedule{}", i))));
    }
  }

  ReplayJob job_of(std::size_t i, int seed) const {
    const Point& point = points_[i];
    ReplayJob job;
    job.model = scenario_.model;
    job.step = point.asked;
    job.step.samples = point.micro_batch * point.job.accumulation;
    job.step.precision = Precision::fp32;  // what learns here is a CPU
    job.schedule = files_[i];
    job.data = spec_.data;
    job.train_samples = static_cast<std::int64_t>(scenario_.dataset.samples);
    LearningPlan& plan = job.plan;
    plan.optimizer = scenario_.optimizer;
    plan.optimizer.implementation = OptimizerImplementation::for_loop;
    plan.optimizer.learning_rate = scaled_rate(spec_, schedules_[i].workers);
    plan.momentum_at = spec_.momentum_at;
    plan.rate_schedule = spec_.schedule;
    plan.warm_up_epochs = spec_.warm_up_epochs;
    plan.epochs = scenario_.dataset.epochs;
    plan.evaluations = static_cast<int>(spec_.evaluations);
    plan.test_samples = spec_.test_samples;
    plan.seed =
        static_cast<std::uint64_t>(scenario_.simulation.seed) + static_cast<std::uint64_t>(seed);
    return job;
  }

  // Points that differ in their times only (DDP and FSDP) learn the same: asked once.
  void plan_jobs() {
    const std::string mark = program_mark(program_);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      std::vector<Learner>& learners = learners_.emplace_back();
      const std::string schedule = contents(files_[i]);
      for (int seed = 0; seed < spec_.seeds; ++seed) {
        ReplayJob job = job_of(i, seed);
        const std::string text = to_json(job);
        job.schedule.clear();
        const std::string all = mark + to_json(job) + schedule;
        std::string key = fmt::format("{:016x}{:016x}", digest(all), digest(schedule + all));
        pending_.try_emplace(key, text);
        learners.push_back({text, std::move(key)});
      }
    }
  }

  void work() {
    const fs::path kept = cache_folder();
    std::vector<std::pair<std::string, std::string>> open;  // key, job
    for (const auto& [key, job] : pending_) {
      const std::string known = kept.empty() ? "" : contents(kept / (key + ".json"));
      if (known.empty() || !accepts(key, known)) open.emplace_back(key, job);
    }
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    ForkOptions fork{.workers = options_.workers > 0 ? options_.workers : cores};
    if (options_.progress) {
      options_.progress(0, open.size());
      fork.on_done = [&](std::size_t done) { options_.progress(done, open.size()); };
    }
    const auto answers = fork_map(open.size(), fork, [&](std::size_t i, const Report&) {
      const std::string file = folder_.file(open[i].first + ".job").string();
      std::ofstream(file) << open[i].second;
      ::setenv("OMP_NUM_THREADS", "1", 1);
      const ProgramEnd end = run_program(program_, {"worker", "replay", "--", file});
      if (end.exit_code == 2) return std::string("refused");
      if (end.exit_code != 0) {
        throw std::runtime_error(fmt::format("the replay ended with exit code {}", end.exit_code));
      }
      // Kept at once: what is done is not lost when the study is interrupted.
      if (!kept.empty()) {
        const fs::path part = kept / fmt::format("{}.{}", open[i].first, ::getpid());
        std::ofstream(part) << end.output;
        std::error_code error;
        fs::rename(part, kept / (open[i].first + ".json"), error);
      }
      return end.output;
    });
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].ok && answers[i].output == "refused") {
        throw ConfigError({spec_.where, "convergence", "cannot be trained", "see above"});
      }
      if (!answers[i].ok) {
        failures_.push_back(answers[i].output);
      } else {
        accepts(open[i].first, answers[i].output);
      }
    }
  }

  bool accepts(const std::string& key, const std::string& answer) {
    try {
      results_[key] = replay_result_from_json(answer);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  void conclude(std::size_t i) {
    std::vector<AccuracyCurve> curves;
    int diverged = 0;
    bool complete = true;
    for (const Learner& learner : learners_[i]) {
      const auto found = results_.find(learner.key);
      if (found == results_.end()) continue;
      AccuracyCurve curve = found->second.curve;
      give_times(curve, schedules_[i]);
      diverged += found->second.diverged;
      complete &= found->second.complete || found->second.diverged;
      curves.push_back(std::move(curve));
    }
    Prediction& p = *predictions_[i];
    const std::string name = point_text(p.strategy, p.gpus);
    if (curves.size() < learners_[i].size()) {
      record_.warnings.push_back(fmt::format("{}: {} of {} seeds have no accuracy: {}", name,
                                             learners_[i].size() - curves.size(),
                                             learners_[i].size(), failures_.front()));
    }
    if (curves.empty()) return;
    if (!complete) {
      record_.warnings.push_back(name + ": the simulated updates end before the epochs do");
    }
    if (diverged > 0) {
      record_.warnings.push_back(fmt::format(
          "{}: {} of {} seeds diverged (their loss is no number)", name, diverged, curves.size()));
    }
    const Job& job = points_[i].job;
    p.accuracy = accuracy_of(curves, diverged, spec_.target,
                             job.gpus * job.machine.price_per_gpu_hour / 3600);
  }

  const Scenario& scenario_;
  const ConvergenceSpec& spec_;
  ResultRecord& record_;
  const StudyOptions& options_;
  const std::string program_;
  const RunFolder folder_;
  std::vector<Point> points_;
  std::vector<Prediction*> predictions_;
  std::vector<UpdateSchedule> schedules_;
  std::vector<std::string> files_;
  std::vector<std::vector<Learner>> learners_;
  std::map<std::string, std::string> pending_;  // key -> job
  std::map<std::string, ReplayResult> results_;
  std::vector<std::string> failures_;
};

}  // namespace

void add_accuracy(const Scenario& scenario, ResultRecord& record, const StudyOptions& options) {
  if (scenario.dataset.samples <= 0) {
    throw ConfigError({scenario.convergence->where, "convergence",
                       "needs to know how long the run is",
                       "`dataset: {samples: ..., epochs: ...}`"});
  }
  try {
    measuring_program("run");
  } catch (const ConfigError& error) {
    record.warnings.push_back("no accuracy: " + error.diagnostics().front().message + "; " +
                              error.diagnostics().front().hint);
    return;
  }
  Study(scenario, record, options).run();
}

}  // namespace lockstep
