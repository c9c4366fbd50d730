// Training jobs for tests of the replay: LeNet-5 on made-up images. Each test adds a schedule of
// its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "convergence/replay.hpp"
#include "runs/training_data.hpp"
#include "workload/model.hpp"

namespace lockstep::replay_test {

inline TrainingStep lenet(std::int64_t samples) {
  StepOptions options;
  options.samples = samples;
  return build_step(*load_model("lenet5"), options);
}

inline const ImageSets& data() {
  static const ImageSets sets = synthetic_images(10, 1);
  return sets;
}

inline LearningPlan plan(double momentum = 0.9) {
  LearningPlan result;
  result.optimizer.learning_rate = 0.02;
  result.optimizer.momentum = momentum;
  result.optimizer.weight_decay = 1e-4;
  result.epochs = 0.32;  // 640 images
  result.evaluations = 20;
  result.test_samples = 64;
  return result;
}

// Workers push in turn: each update is computed on parameters that are workers - 1 versions old.
inline UpdateSchedule round_robin(int workers, std::int64_t updates) {
  UpdateSchedule schedule;
  schedule.workers = workers;
  for (std::int64_t i = 0; i < updates; ++i) {
    const std::int64_t read = std::max<std::int64_t>(0, i + 1 - workers);
    schedule.pushes.push_back(
        {static_cast<double>(i), static_cast<int>(i % workers), 0, read, i + 1});
  }
  return schedule;
}

inline std::vector<double> losses(const ReplayResult& result) {
  std::vector<double> all;
  for (const AccuracyPoint& point : result.curve) all.push_back(point.loss);
  return all;
}

inline std::vector<double> losses(const UpdateSchedule& schedule, std::int64_t batch = 32,
                                  const LearningPlan& with = plan()) {
  return losses(replay(lenet(batch), schedule, data(), with));
}

inline double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]) / std::abs(a[i]));
  }
  return most;
}

}  // namespace lockstep::replay_test
