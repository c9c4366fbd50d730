// Are the replay's updates the formulas of their papers, computed by hand on the same network?
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "replay_plans.hpp"
#include "torch/optimizer.hpp"

namespace lockstep::replay_test {
namespace {

// The computation by hand: the batches of every worker, and gradients on a network of its own.
struct ByHand {
  TrainingStep step;
  RealNetwork network;
  ImageBatches batches;
  int workers;

  explicit ByHand(int count, std::int64_t samples = 32)
      : step(lenet(samples)),
        network(step, at::kCPU, 1),
        batches(data().train, step, at::kCPU),
        workers(count) {}

  // The part `micro` of `accumulation` parts of a batch.
  Batch batch(int worker, std::int64_t number, int micro = 0, int accumulation = 1) const {
    ShardOrder order(data().train.count, workers, worker, accumulation * step.samples, 1);
    const std::vector<std::int64_t> all = order.indices(number);
    const auto first = all.begin() + micro * step.samples;
    return batches.make(data().train, {first, first + step.samples});
  }
  std::vector<at::Tensor> gradients(int worker, std::int64_t number) {
    network.drop_gradients();
    network.forward(batch(worker, number)).backward();
    std::vector<at::Tensor> result;
    for (const NetworkParameter& p : network.parameters())
      result.push_back(p.tensor.grad().clone());
    return result;
  }
  double loss(int worker, std::int64_t number) {
    return network.forward(batch(worker, number)).item<double>();
  }
  std::vector<at::Tensor> values() {
    std::vector<at::Tensor> result;
    for (const NetworkParameter& p : network.parameters())
      result.push_back(p.tensor.detach().clone());
    return result;
  }
  void set(const std::vector<at::Tensor>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      network.parameters()[i].tensor.detach().copy_(values[i]);
    }
  }
  void subtract(const std::vector<at::Tensor>& gradients, double rate) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      network.parameters()[i].tensor.detach().sub_(gradients[i], rate);
    }
  }
};

LearningPlan plain_sgd(double rate = 0.1) {
  LearningPlan with = plan(0);
  with.optimizer.weight_decay = 0;
  with.optimizer.learning_rate = rate;
  return with;
}

// In n-softsync a worker reads weights right after its push, while the push waits for others. The
// version that it reads may be made before its push is applied; each gradient must still be of the
// version that was read.
TEST(Replay, AGradientIsOfTheVersionReadEvenWhereTheNextOneIsReadBeforeItIsApplied) {
  ByHand hand(2);
  UpdateSchedule schedule;
  schedule.workers = 2;
  schedule.pushes = {{0, 1, 0, 0, 1}, {1, 0, 0, 0, 2}, {2, 0, 0, 1, 3}};
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  EXPECT_EQ(seen.at(0), hand.loss(0, 0));  // on version 0, though version 1 is there by then
  hand.subtract(hand.gradients(1, 0), 0.1);
  EXPECT_EQ(seen.at(1), hand.loss(0, 1));  // on version 1, though version 2 is there by then
}

// ZeRO-Offload with a delayed update: the update of a step runs beside the next step, so gradients
// are of the weights before it.
TEST(Replay, ADelayedUpdateIsThatOfTheStepBefore) {
  ByHand hand(1);
  UpdateSchedule schedule = synchronous_schedule(1, 4, 1, 1);
  delay_updates(schedule);
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  std::vector<std::vector<at::Tensor>> found;
  for (int step = 0; step < 4; ++step) {
    if (step >= 2) hand.subtract(found[static_cast<std::size_t>(step) - 2], 0.1);
    EXPECT_NEAR(seen.at(static_cast<std::size_t>(step)) / hand.loss(0, step), 1, 1e-6) << step;
    found.push_back(hand.gradients(0, step));
  }
}

TEST(Replay, AWorkerMayPushTwiceToOneUpdate) {
  ByHand hand(1);
  UpdateSchedule schedule;
  schedule.pushes = {{0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, {1, 0, 0, 1, 2}};
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  EXPECT_EQ(seen.at(1), hand.loss(0, 1));  // on the initial parameters, as the first push
  std::vector<at::Tensor> mean = hand.gradients(0, 0);
  const std::vector<at::Tensor> second = hand.gradients(0, 1);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i].add_(second[i]).div_(2);
  hand.subtract(mean, 0.1);
  EXPECT_EQ(seen.at(2), hand.loss(0, 2));
}

// With two servers the message of the first push to one server is applied after the second push's
// message to the other. It must still carry the first gradient.
TEST(Replay, AMessageKeepsItsGradientUntilItIsApplied) {
  ByHand hand(1);
  UpdateSchedule schedule;
  const std::size_t count = hand.network.parameters().size();
  schedule.messages.resize(2);
  for (std::size_t p = 0; p < count; ++p) {
    schedule.messages[p % 2].push_back(
        {static_cast<int>(p), 0, hand.network.parameters()[p].tensor.numel()});
  }
  schedule.pushes = {
      {0, 0, 0, 0, 1}, {1, 0, 0, 1, 2}, {2, 0, 1, 0, 1}, {3, 0, 1, 0, 2}, {4, 0, 0, 2, 3}};
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  const auto step_along = [&](const std::vector<at::Tensor>& gradients, std::size_t message) {
    for (std::size_t p = message; p < count; p += 2) {
      hand.network.parameters()[p].tensor.detach().sub_(gradients[p], 0.1);
    }
  };
  const auto first = hand.gradients(0, 0);
  step_along(first, 0);
  const auto second = hand.gradients(0, 1);
  step_along(second, 0);
  EXPECT_EQ(seen.at(2), hand.loss(0, 2));  // of message 1 the worker has read version 0
  schedule.pushes.push_back({5, 0, 1, 2, 3});
  const auto read = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  step_along(first, 1);
  step_along(second, 1);
  EXPECT_EQ(read.at(2), hand.loss(0, 2));  // with this push it has read version 2 of message 1
}

TEST(Replay, GradientsBetweenTwoPushesAddUp) {
  ByHand hand(1);
  UpdateSchedule schedule = round_robin(1, 2);
  schedule.local_steps = 2;
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  EXPECT_EQ(seen.at(0), hand.loss(0, 0));
  EXPECT_EQ(seen.at(1), hand.loss(0, 1));
  std::vector<at::Tensor> sum = hand.gradients(0, 0);
  const std::vector<at::Tensor> second = hand.gradients(0, 1);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i].add_(second[i]);
  hand.subtract(sum, 0.1);
  EXPECT_EQ(seen.at(2), hand.loss(0, 2));
}

TEST(Replay, MicroBatchesAreOneBatchInPieces) {
  ByHand hand(1, 8);
  LearningPlan with = plan();
  with.accumulation = 4;
  const ReplayResult result = replay(hand.step, round_robin(1, 20), data(), with);
  EXPECT_LT(farthest(losses(result), losses(round_robin(1, 20))), 1e-5);
  EXPECT_NEAR(result.curve.back().epochs, 0.32, 1e-9);
  double sum = 0;
  for (int micro = 0; micro < 4; ++micro) {
    sum += hand.network.forward(hand.batch(0, 0, micro, 4)).item<double>();
  }
  EXPECT_EQ(result.losses.at(0).at(0), sum / 4);
}

// Batch norm takes mean and variance of each micro-batch separately.
TEST(Replay, BatchNormSeesMicroBatches) {
  StepOptions options;
  options.samples = 8;
  options.image = {1, 28, 28};
  options.classes = 10;
  options.parameters = {{"base", 4}, {"cifar", 1}};
  LearningPlan with = plan();
  with.evaluations = 1;
  with.test_samples = 1;
  with.accumulation = 2;
  const auto model = load_model("resnet18");
  const auto pieces = replay(build_step(*model, options), round_robin(1, 2), data(), with);
  with.accumulation = 1;
  options.samples = 16;
  const auto whole = replay(build_step(*model, options), round_robin(1, 2), data(), with);
  EXPECT_GT(std::abs(pieces.losses[0][0] / whole.losses[0][0] - 1), 1e-4);
}

TEST(Replay, ClippingBoundsTheMeanOrWhatEachWorkerPushes) {
  constexpr double largest = 0.1;
  const auto norm = [](const std::vector<at::Tensor>& gradients) {
    double squares = 0;
    for (const at::Tensor& g : gradients) squares += g.pow(2).sum().item<double>();
    return std::sqrt(squares);
  };
  for (const Clipped clipped : {Clipped::mean, Clipped::pushes}) {
    ByHand hand(2);
    std::vector<at::Tensor> a = hand.gradients(0, 0), b = hand.gradients(1, 0);
    ASSERT_GT(std::min(norm(a), norm(b)), largest);
    if (clipped == Clipped::pushes) {
      const double to_a = largest / norm(a), to_b = largest / norm(b);
      for (at::Tensor& g : a) g *= to_a;
      for (at::Tensor& g : b) g *= to_b;
    }
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = (a[i] + b[i]) / 2;
    if (clipped == Clipped::mean) {
      ASSERT_GT(norm(a), largest);
      const double factor = largest / norm(a);
      for (at::Tensor& g : a) g *= factor;
    }
    hand.subtract(a, 1);
    LearningPlan with = plain_sgd(1);
    with.gradient_clipping = largest;
    with.clipped = clipped;
    const auto seen = replay(hand.step, synchronous_schedule(2, 2, 1, 1), data(), with).losses;
    EXPECT_NEAR(seen[0][1] / hand.loss(0, 1), 1, 1e-5);
    with.gradient_clipping = 1e6;
    const auto free = replay(hand.step, synchronous_schedule(2, 2, 1, 1), data(), with).losses;
    EXPECT_GT(std::abs(free[0][1] / seen[0][1] - 1), 1e-4);
  }
}

UpdateSchedule pushed_as(PushedAs form, double share = 1, int workers = 1) {
  UpdateSchedule schedule = round_robin(workers, 20);
  schedule.pushed_as = form;
  schedule.largest_share = share;
  return schedule;
}

TEST(Replay, AllOfAGradientIsItsLargestHundredPercent) {
  for (const int workers : {1, 3}) {
    EXPECT_EQ(losses(pushed_as(PushedAs::largest, 1, workers)), losses(round_robin(workers, 20)));
  }
  EXPECT_GT(farthest(losses(pushed_as(PushedAs::largest, 0.1)), losses(round_robin(1, 20))), 1e-3);
}

// Stich et al. 2018, algorithm 1: values that were not sent are added to the next gradient.
TEST(Replay, WhatIsNotAmongTheLargestWaitsAndAddsUp) {
  constexpr double share = 0.1;
  ByHand hand(1);
  std::vector<at::Tensor> left;
  for (int update = 0; update < 2; ++update) {
    std::vector<at::Tensor> pushed = hand.gradients(0, update);
    if (left.empty()) {
      for (const at::Tensor& g : pushed) left.push_back(at::zeros_like(g));
    }
    for (std::size_t i = 0; i < pushed.size(); ++i) {
      at::Tensor sum = left[i] + pushed[i];
      const at::Tensor sizes = std::get<0>(sum.abs().flatten().sort(0, true));
      const auto count =
          static_cast<std::int64_t>(std::ceil(share * static_cast<double>(sum.numel())));
      const at::Tensor chosen = sum.abs() >= sizes[count - 1];
      ASSERT_EQ(chosen.sum().item<std::int64_t>(), count);
      pushed[i] = at::where(chosen, sum, at::zeros_like(sum));
      left[i] = sum - pushed[i];
    }
    hand.subtract(pushed, 0.1);
  }
  const auto seen =
      replay(hand.step, pushed_as(PushedAs::largest, share), data(), plain_sgd()).losses;
  EXPECT_EQ(seen[0][2], hand.loss(0, 2));
}

TEST(Replay, HalvesAreGradientsRoundedOnce) {
  ByHand hand(1);
  std::vector<at::Tensor> pushed = hand.gradients(0, 0);
  for (at::Tensor& g : pushed) {
    const at::Tensor rounded = g.to(at::kHalf).to(at::kFloat);
    EXPECT_FALSE(rounded.equal(g));
    EXPECT_TRUE(rounded.to(at::kHalf).to(at::kFloat).equal(rounded));
    g = rounded;
  }
  hand.subtract(pushed, 0.1);
  const auto seen = replay(hand.step, pushed_as(PushedAs::halves), data(), plain_sgd()).losses;
  EXPECT_EQ(seen[0][1], hand.loss(0, 1));
  EXPECT_NE(seen, replay(hand.step, round_robin(1, 20), data(), plain_sgd()).losses);
}

// Two workers with momentum make two local steps a round. If momenta are averaged like parameters,
// both begin the second round with the mean momentum.
TEST(Replay, TheStateIsAveragedWithTheParametersOrStaysWithItsWorker) {
  constexpr double rate = 0.1, momentum = 0.9;
  for (const bool average : {false, true}) {
    ByHand hand(2);
    std::vector<at::Tensor> shared = hand.values();
    std::vector<std::vector<at::Tensor>> own(2, shared), velocity(2);
    const auto local_step = [&](int worker, std::int64_t number) {
      const auto w = static_cast<std::size_t>(worker);
      hand.set(own[w]);
      const std::vector<at::Tensor> gradients = hand.gradients(worker, number);
      if (velocity[w].empty()) {
        for (const at::Tensor& g : gradients) velocity[w].push_back(at::zeros_like(g));
      }
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        velocity[w][i] = momentum * velocity[w][i] + gradients[i];
        own[w][i] = own[w][i] - rate * velocity[w][i];
      }
    };
    for (int worker = 0; worker < 2; ++worker) {
      local_step(worker, 0);
      local_step(worker, 1);
    }
    for (std::size_t i = 0; i < shared.size(); ++i) {
      own[0][i] = own[1][i] = (own[0][i] + own[1][i]) / 2;
      if (average) velocity[0][i] = velocity[1][i] = (velocity[0][i] + velocity[1][i]) / 2;
    }
    local_step(0, 2);
    hand.set(own[0]);
    const double expected = hand.loss(0, 3);

    UpdateSchedule schedule = synchronous_schedule(2, 2, 1, 1);
    schedule.exchange = Exchange::parameters;
    schedule.local_steps = 2;
    schedule.average_state = average;
    LearningPlan with = plain_sgd(rate);
    with.optimizer.momentum = momentum;
    const auto seen = replay(hand.step, schedule, data(), with).losses;
    EXPECT_NEAR(seen[0].at(3) / expected, 1, 1e-6) << average;
    schedule.average_state = !average;
    EXPECT_GT(std::abs(replay(hand.step, schedule, data(), with).losses[0].at(3) / expected - 1),
              1e-5);
  }
}

// DiLoCo (Douillard et al. 2023, algorithm 1) with two workers, one local step and two rounds.
TEST(Replay, AnOuterStepGoesTowardsTheMeanWithNesterovsMomentum) {
  constexpr double rate = 0.1, outer = 0.7, momentum = 0.9;
  ByHand hand(2);
  std::vector<at::Tensor> shared = hand.values(), velocity;
  for (const at::Tensor& value : shared) velocity.push_back(at::zeros_like(value));
  for (int round = 0; round < 2; ++round) {
    std::vector<at::Tensor> mean;
    for (const at::Tensor& value : shared) mean.push_back(value.clone());
    for (int worker = 0; worker < 2; ++worker) {
      hand.set(shared);
      const std::vector<at::Tensor> gradients = hand.gradients(worker, round);
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i].sub_(gradients[i], rate / 2);
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const at::Tensor distance = shared[i] - mean[i];
      velocity[i] = momentum * velocity[i] + distance;
      shared[i] = shared[i] - outer * (distance + momentum * velocity[i]);
    }
  }
  hand.set(shared);
  const double expected = hand.loss(0, 2);
  UpdateSchedule schedule = synchronous_schedule(2, 3, 1, 1);
  schedule.exchange = Exchange::parameters;
  const auto loss = [&] {
    return replay(hand.step, schedule, data(), plain_sgd(rate)).losses[0].at(2);
  };
  EXPECT_GT(std::abs(loss() / expected - 1), 1e-4);
  schedule.outer_rate = outer;
  schedule.outer_momentum = momentum;
  EXPECT_NEAR(loss() / expected, 1, 1e-5);
  // An outer step of length one without momentum is the mean.
  schedule.outer_rate = 1;
  schedule.outer_momentum = 0;
  const double whole = loss();
  schedule.outer_rate = 0;
  EXPECT_NEAR(whole / loss(), 1, 1e-5);
}

// The parameters of workers that share nothing, as in gossip, and their steps along gradients.
struct Apart {
  explicit Apart(int workers)
      : hand(workers), own(static_cast<std::size_t>(workers), hand.values()) {}
  std::vector<at::Tensor> gradients(int worker, std::int64_t number) {
    hand.set(own[static_cast<std::size_t>(worker)]);
    return hand.gradients(worker, number);
  }
  double loss(int worker, std::int64_t number) {
    hand.set(own[static_cast<std::size_t>(worker)]);
    return hand.loss(worker, number);
  }
  void step(int worker, const std::vector<at::Tensor>& along, double rate) {
    auto& values = own[static_cast<std::size_t>(worker)];
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = values[i] - rate * along[i];
  }
  // The mean of the present parameters of these workers.
  std::vector<at::Tensor> mean(const std::vector<std::size_t>& workers) const {
    std::vector<at::Tensor> result = own[workers[0]];
    for (std::size_t i = 0; i < result.size(); ++i) {
      for (std::size_t w = 1; w < workers.size(); ++w) result[i] = result[i] + own[workers[w]][i];
      result[i] = result[i] / static_cast<double>(workers.size());
    }
    return result;
  }
  ByHand hand;
  std::vector<std::vector<at::Tensor>> own;
};

UpdateSchedule apart(int workers, std::int64_t steps) {
  UpdateSchedule schedule = synchronous_schedule(workers, steps, 1, 1);
  schedule.exchange = Exchange::gossip;
  for (ScheduledPush& push : schedule.pushes) push.read = 0;
  return schedule;
}

TEST(Replay, GossipOfOneWorkerIsSequential) {
  const ReplayResult alone =
      replay(ByHand(1).step, synchronous_schedule(1, 20, 1, 1), data(), plan());
  const ReplayResult gossip = replay(ByHand(1).step, apart(1, 20), data(), plan());
  EXPECT_EQ(gossip.losses, alone.losses);
  ASSERT_EQ(gossip.curve.size(), alone.curve.size());
  for (std::size_t i = 0; i < alone.curve.size(); ++i) {
    EXPECT_EQ(gossip.curve[i].accuracy, alone.curve[i].accuracy);
  }
}

// D-PSGD (Lian et al. 2017, algorithm 1) on a ring of four: gradients of x are applied to the
// averaged W x. The other variant averages after the step.
TEST(Replay, GossipOnARingAveragesBesideTheGradientsOrAfterThem) {
  constexpr double rate = 0.1;
  const std::vector<std::vector<std::size_t>> ring{{0, 3, 1}, {1, 0, 2}, {2, 1, 3}, {3, 2, 0}};
  std::vector<double> seen;
  for (const bool beside : {true, false}) {
    Apart all(4);
    UpdateSchedule schedule = apart(4, 4);
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<at::Tensor>> gradients, means;
      for (int worker = 0; worker < 4; ++worker) {
        gradients.push_back(all.gradients(worker, step));
        if (!beside) all.step(worker, gradients.back(), rate);
      }
      for (const auto& workers : ring) means.push_back(all.mean(workers));
      all.own = means;
      for (int worker = 0; beside && worker < 4; ++worker) {
        all.step(worker, gradients[static_cast<std::size_t>(worker)], rate);
      }
      schedule.averages.push_back(
          {4 * (step + (beside ? 0 : 1)), {{0, {3, 1}}, {1, {0, 2}}, {2, {1, 3}}, {3, {2, 0}}}});
      for (std::size_t worker = 0; worker < 4; ++worker) {
        schedule.pushes[4 * static_cast<std::size_t>(step + 1) + worker].read = step + 1;
      }
    }
    const auto losses = replay(all.hand.step, schedule, data(), plain_sgd(rate)).losses;
    for (int worker = 0; worker < 4; ++worker) {
      const auto w = static_cast<std::size_t>(worker);
      EXPECT_NEAR(losses[w].at(3) / all.loss(worker, 3), 1, 1e-5) << beside << worker;
    }
    seen.push_back(losses[0].at(3));
  }
  EXPECT_GT(std::abs(seen[0] / seen[1] - 1), 1e-5);
}

// AD-PSGD (Lian et al. 2018, algorithm 1): worker 0 makes two steps while worker 1 makes none, and
// the two average between these steps. Worker 1's gradient is of the parameters before the average.
TEST(Replay, GossipInPairsKeepsNoStep) {
  constexpr double rate = 0.1;
  Apart all(2);
  const auto slow = all.gradients(1, 0);
  all.step(0, all.gradients(0, 0), rate);
  const auto fast = all.gradients(0, 1);
  all.own[0] = all.own[1] = all.mean({0, 1});
  all.step(0, fast, rate);
  all.step(1, slow, rate);
  UpdateSchedule schedule;
  schedule.workers = 2;
  schedule.exchange = Exchange::gossip;
  schedule.pushes = {
      {0, 0, 0, 0, 1}, {1, 0, 0, 0, 1}, {2, 1, 0, 0, 2}, {3, 0, 0, 1, 2}, {4, 1, 0, 1, 3}};
  schedule.averages = {{1, {{0, {1}}, {1, {0}}}}};
  const auto seen = replay(all.hand.step, schedule, data(), plain_sgd(rate)).losses;
  EXPECT_NEAR(seen[0].at(2) / all.loss(0, 2), 1, 1e-6);
  EXPECT_NEAR(seen[1].at(1) / all.loss(1, 1), 1, 1e-6);
}

// EASGD (Zhang et al. 2015, equations 2 and 3) with one worker and an exchange in every step.
TEST(Replay, ElasticWorkerAndCentreMoveTowardsEachOther) {
  constexpr double rate = 0.1, pull = 0.3;
  ByHand hand(1);
  std::vector<at::Tensor> centre = hand.values(), own = centre;
  for (int step = 0; step < 2; ++step) {
    hand.set(own);
    const std::vector<at::Tensor> gradients = hand.gradients(0, step);
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i] = own[i] - rate * gradients[i];
      const at::Tensor apart = pull * (own[i] - centre[i]);
      own[i] = own[i] - apart;
      centre[i] = centre[i] + apart;
    }
  }
  hand.set(own);
  UpdateSchedule schedule = round_robin(1, 3);
  schedule.exchange = Exchange::elastic;
  schedule.elasticity = pull;
  const auto seen = replay(hand.step, schedule, data(), plain_sgd(rate)).losses;
  EXPECT_NEAR(seen[0].at(2) / hand.loss(0, 2), 1, 1e-6);
}

}  // namespace
}  // namespace lockstep::replay_test
