// Do workers that push the difference of their parameters learn by the formulas of their papers,
// also with data of their own?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "convergence/partition.hpp"
#include "replay_plans.hpp"
#include "torch/optimizer.hpp"

namespace lockstep::differences_test {
namespace {

using namespace lockstep::replay_test;  // NOLINT: helpers of the replay's tests

using Values = std::vector<at::Tensor>;

// LeNet-5, trained by the test itself.
struct Hand {
  TrainingStep step = lenet(16);
  RealNetwork network{step, at::kCPU, 1};
  ImageBatches batches{data().train, step, at::kCPU};

  Values values() {
    Values result;
    for (const NetworkParameter& p : network.parameters()) {
      result.push_back(p.tensor.detach().clone());
    }
    return result;
  }
  void set(const Values& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      network.parameters()[i].tensor.detach().copy_(values[i]);
    }
  }
  // The parameters after SGD steps along the batches from `first` to before `last` of an order.
  Values after(const Values& from, ShardOrder order, std::int64_t first, std::int64_t last) {
    set(from);
    for (std::int64_t b = first; b < last; ++b) {
      network.drop_gradients();
      network.forward(batches.make(data().train, order.indices(b))).backward();
      for (const NetworkParameter& p : network.parameters()) {
        p.tensor.detach().sub_(p.tensor.grad(), rate);
      }
    }
    return values();
  }
  double loss(const Values& at, ShardOrder order, std::int64_t batch) {
    set(at);
    return network.forward(batches.make(data().train, order.indices(batch))).item<double>();
  }
  static constexpr double rate = 0.05;
};

LearningPlan plain_sgd() {
  LearningPlan with = plan(0);
  with.optimizer.weight_decay = 0;
  with.optimizer.learning_rate = Hand::rate;
  return with;
}

ShardOrder shared_order(int workers, int worker) {
  return {data().train.count, workers, worker, 16, 1};
}

// McMahan et al. 2017, algorithm 1: the mean of the workers' parameters, weighted by their samples.
// Each worker makes as many local steps as its samples require.
TEST(Differences, FederatedAveragingWeighsWorkersByTheirSamples) {
  Hand hand;
  UpdateSchedule schedule = synchronous_schedule(2, 2, 1, 1);
  schedule.exchange = Exchange::differences;
  schedule.local_steps = 2;
  schedule.shares = {0.5, 1.5};
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses;
  const auto own = partition(data().train.labels, schedule.shares, 0, 1);
  const ShardOrder first(own[0], 0, 16, 1), second(own[1], 1, 16, 1);
  const Values start = hand.values();
  const Values a = hand.after(start, first, 0, 1), b = hand.after(start, second, 0, 3);
  Values mean;
  for (std::size_t i = 0; i < a.size(); ++i) mean.push_back((0.5 * a[i] + 1.5 * b[i]) / 2);
  ASSERT_EQ(seen[0].size(), 2U);  // one batch a round
  ASSERT_EQ(seen[1].size(), 6U);
  EXPECT_NEAR(seen[0][1] / hand.loss(mean, first, 1), 1, 1e-5);
  EXPECT_NEAR(seen[1][3] / hand.loss(mean, second, 3), 1, 1e-5);
}

// In asynchronous local SGD a worker's difference is relative to the parameters that it read, and
// is added to the present ones (Nguyen et al. 2022, FedBuff, algorithm 1 with a buffer of one).
TEST(Differences, AStaleDifferenceIsFromWhatWasRead) {
  Hand hand;
  UpdateSchedule schedule;
  schedule.workers = 2;
  schedule.exchange = Exchange::differences;
  schedule.pushes = {{1, 0, 0, 0, 1}, {2, 1, 0, 0, 2}, {3, 1, 0, 2, 3}};
  const Values start = hand.values();
  const Values a = hand.after(start, shared_order(2, 0), 0, 1);
  const Values b = hand.after(start, shared_order(2, 1), 0, 1);
  const auto loss = [&](double weight) {
    Values both;
    for (std::size_t i = 0; i < a.size(); ++i) both.push_back(a[i] - weight * (start[i] - b[i]));
    return hand.loss(both, shared_order(2, 1), 1);
  };
  const auto seen = [&] {
    return replay(hand.step, schedule, data(), plain_sgd()).losses[1].at(1);
  };
  EXPECT_NEAR(seen() / loss(1), 1, 1e-5);
  schedule.weighting = Weighting::age;  // FedAsync (Xie et al. 2019)
  schedule.weighting_parameter = 2;
  EXPECT_NEAR(seen() / loss(0.25), 1, 1e-5);
  schedule.weighting = Weighting::none;  // the outer optimizer makes a step along the difference
  schedule.outer_rate = 1;
  EXPECT_NEAR(seen() / loss(1), 1, 1e-5);
}

TEST(Differences, DifferencesOfOneWorkerAreSequentialSgdBitForBit) {
  UpdateSchedule plain = synchronous_schedule(1, 20, 1, 1), differences = plain;
  differences.exchange = Exchange::differences;
  EXPECT_EQ(losses(plain, 16, plain_sgd()), losses(differences, 16, plain_sgd()));
}

TEST(Differences, DifferencesOfAllInStepAreLocalSgd) {
  UpdateSchedule local = synchronous_schedule(3, 8, 1, 1);
  local.exchange = Exchange::parameters;
  local.local_steps = 2;
  UpdateSchedule differences = local;
  differences.exchange = Exchange::differences;
  EXPECT_EQ(losses(local, 16), losses(differences, 16));
}

std::vector<std::uint8_t> labels_of(int count, int classes) {
  std::vector<std::uint8_t> labels;
  for (int i = 0; i < count; ++i) labels.push_back(static_cast<std::uint8_t>(i % classes));
  return labels;
}

TEST(Partition, GivesEveryImageToOneWorkerInProportion) {
  const auto labels = labels_of(1000, 10);
  for (const double concentration : {0.0, 0.1, 1.0, 100.0}) {
    const auto parts = partition(labels, {0.5, 1, 1.5, 1}, concentration, 7);
    ASSERT_EQ(parts.size(), 4U);
    EXPECT_EQ(parts[0].size(), 125U);
    EXPECT_EQ(parts[2].size(), 375U);
    std::set<std::int64_t> all;
    for (const auto& part : parts) all.insert(part.begin(), part.end());
    EXPECT_EQ(all.size(), 1000U) << concentration;
    EXPECT_EQ(parts, partition(labels, {0.5, 1, 1.5, 1}, concentration, 7));
  }
}

TEST(Partition, LeavesNoWorkerWithoutAnImage) {
  const auto parts = partition(labels_of(40, 10), {1e-6, 1e-6, 2.9, 1.1}, 0.3, 1);
  for (const auto& part : parts) EXPECT_FALSE(part.empty());
}

// The mean share of a worker's most frequent class: all images for a tiny concentration, a tenth
// for a huge one.
TEST(Partition, IsTheMoreAlikeTheLargerTheConcentration) {
  const auto labels = labels_of(20000, 10);
  const auto most_frequent = [&](double concentration) {
    double sum = 0;
    const auto parts = partition(labels, std::vector<double>(20, 1.0), concentration, 1);
    for (std::size_t w = 0; w < 10; ++w) {  // the last workers take the rest
      std::vector<int> count(10, 0);
      for (const std::int64_t image : parts[w]) ++count[labels[static_cast<std::size_t>(image)]];
      sum += *std::max_element(count.begin(), count.end()) / 1000.0 / 10;
    }
    return sum;
  };
  EXPECT_GT(most_frequent(0.01), 0.95);
  EXPECT_GT(most_frequent(1), 0.4);
  EXPECT_LT(most_frequent(1), 0.95);
  EXPECT_LT(most_frequent(1e4), 0.13);
}

}  // namespace
}  // namespace lockstep::differences_test
