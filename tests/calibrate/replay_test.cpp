// Does the replay learn exactly as the schedule says?
#include "convergence/replay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "convergence/job.hpp"
#include "core/errors.hpp"
#include "launch/processes.hpp"
#include "runs/training_data.hpp"
#include "torch/initialisation.hpp"
#include "torch/optimizer.hpp"
#include "workload/model.hpp"

namespace lockstep::replay_test {
namespace {

using testing::HasSubstr;

TrainingStep lenet(std::int64_t samples) {
  StepOptions options;
  options.samples = samples;
  return build_step(*load_model("lenet5"), options);
}

const ImageSets& data() {
  static const ImageSets sets = synthetic_images(10, 1);
  return sets;
}

LearningPlan plan(double momentum = 0.9) {
  LearningPlan result;
  result.optimizer.learning_rate = 0.02;
  result.optimizer.momentum = momentum;
  result.optimizer.weight_decay = 1e-4;
  result.epochs = 0.32;  // 640 images
  result.evaluations = 20;
  result.test_samples = 64;
  return result;
}

// Workers in turn: each update is computed on parameters workers - 1 versions old.
UpdateSchedule round_robin(int workers, std::int64_t updates) {
  UpdateSchedule schedule;
  schedule.workers = workers;
  for (std::int64_t i = 0; i < updates; ++i) {
    const std::int64_t read = std::max<std::int64_t>(0, i + 1 - workers);
    schedule.pushes.push_back(
        {static_cast<double>(i), static_cast<int>(i % workers), 0, read, i + 1});
  }
  return schedule;
}

std::vector<double> losses(const ReplayResult& result) {
  std::vector<double> all;
  for (const AccuracyPoint& point : result.curve) all.push_back(point.loss);
  return all;
}

std::vector<double> losses(const UpdateSchedule& schedule, std::int64_t batch = 32,
                           const LearningPlan& with = plan()) {
  return losses(replay(lenet(batch), schedule, data(), with));
}

double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]) / std::abs(a[i]));
  }
  return most;
}

TEST(Replay, WithoutStalenessIsSequentialSgdBitForBit) {
  const TrainingStep step = lenet(32);
  RealNetwork network(step, at::kCPU, 1);
  Optimizer optimizer(plan().optimizer, network);
  const ImageBatches batches(data().train, step, at::kCPU);
  ShardOrder order(data().train.count, 1, 0, 32, 1);
  std::vector<double> expected;
  for (int i = 0; i < 20; ++i) {
    network.drop_gradients();
    at::Tensor loss = network.forward(batches.make(data().train, order.indices(i)));
    loss.backward();
    expected.push_back(loss.item<double>());
    optimizer.step();
  }
  EXPECT_EQ(losses(round_robin(1, 20)), expected);
}

TEST(Replay, SynchronousWorkersAreOneWorkerWithTheBatchOfAll) {
  const auto whole = losses(round_robin(1, 20));
  EXPECT_LT(farthest(losses(synchronous_schedule(4, 20, 1, 1), 8), whole), 1e-5);
}

TEST(Replay, AMessagePerHalfTensorIsTheSameAsOneForAll) {
  UpdateSchedule split = round_robin(3, 20);
  RealNetwork network(lenet(32), at::kCPU, 1);
  split.messages.resize(2);
  for (std::size_t p = 0; p < network.parameters().size(); ++p) {
    const std::int64_t count = network.parameters()[p].tensor.numel();
    split.messages[0].push_back({static_cast<int>(p), 0, count / 2});
    split.messages[1].push_back({static_cast<int>(p), count / 2, count - count / 2});
  }
  std::vector<ScheduledPush> both;
  for (ScheduledPush push : split.pushes) {
    for (push.message = 0; push.message < 2; ++push.message) both.push_back(push);
  }
  split.pushes = both;
  EXPECT_LT(farthest(losses(split), losses(round_robin(3, 20))), 1e-6);
}

TEST(Replay, StaleGradientsAreThoseOfWhatWasRead) {
  // The first update of each of three workers is computed on the initial parameters.
  const auto fresh = losses(round_robin(1, 20)), stale = losses(round_robin(3, 20));
  const TrainingStep step = lenet(32);
  const ImageBatches batches(data().train, step, at::kCPU);
  RealNetwork untouched(step, at::kCPU, 1);
  for (int worker = 0; worker < 3; ++worker) {
    ShardOrder order(data().train.count, 3, worker, 32, 1);
    const double loss =
        untouched.forward(batches.make(data().train, order.indices(0))).item<double>();
    EXPECT_EQ(stale[static_cast<std::size_t>(worker)], loss) << worker;
  }
  EXPECT_NE(fresh[1], stale[1]);
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Seventeen copies of LeNet-5, each sixteen updates old, beside one network that is trained as such.
// In processor seconds and the least of several turns, for others compute on this machine, too.
TEST(Replay, StaleCopiesCostUnderTenPercent) {
  constexpr int updates = 200;
  const TrainingStep step = lenet(32);
  LearningPlan with = plan();
  with.evaluations = 1;
  with.test_samples = 1;
  with.epochs = updates * 32 / static_cast<double>(data().train.count);
  const auto plain = [&] {
    RealNetwork network(step, at::kCPU, 1);
    Optimizer optimizer(with.optimizer, network);
    const ImageBatches batches(data().train, step, at::kCPU);
    ShardOrder order(data().train.count, 1, 0, 32, 1);
    const double began = processor_seconds();
    for (int i = 0; i < updates; ++i) {
      network.drop_gradients();
      network.forward(batches.make(data().train, order.indices(i))).backward();
      optimizer.step();
    }
    return processor_seconds() - began;
  };
  const auto stale = [&] {
    const double began = processor_seconds();
    replay(step, round_robin(17, updates), data(), with);
    return processor_seconds() - began;
  };
  double least_plain = plain(), least_stale = stale();
  for (int turn = 0; turn < 20 && (turn < 4 || least_stale > 1.1 * least_plain); ++turn) {
    least_plain = std::min(least_plain, plain());
    least_stale = std::min(least_stale, stale());
  }
  EXPECT_LT(least_stale, 1.1 * least_plain);
  std::printf("%d updates a processor second; stale copies cost %+.1f %%\n",
              static_cast<int>(updates / least_stale), 100 * (least_stale / least_plain - 1));
}

TEST(Replay, ADroppedPushChangesNothing) {
  UpdateSchedule schedule = round_robin(1, 20);
  UpdateSchedule late = schedule;
  late.workers = 2;
  schedule.workers = 2;
  late.pushes.insert(late.pushes.begin() + 5, {5, 1, 0, 0, 0});
  LearningPlan with = plan();
  with.evaluations = 1;
  with.epochs = 10;  // to the end of the schedule
  const auto accuracy = [&](const UpdateSchedule& s) {
    return replay(lenet(32), s, data(), with).curve.back().accuracy;
  };
  EXPECT_EQ(accuracy(late), accuracy(schedule));
}

TEST(Replay, WeightsOfAgeLeaveFreshGradientsAlone) {
  const auto plain = losses(round_robin(1, 20));
  for (const Weighting weighting : {Weighting::staleness, Weighting::age, Weighting::compensated,
                                    Weighting::compensated_adaptive}) {
    UpdateSchedule schedule = round_robin(1, 20);
    schedule.weighting = weighting;
    schedule.weighting_parameter = 0.5;
    EXPECT_EQ(losses(schedule), plain);
    UpdateSchedule stale = round_robin(4, 20);
    stale.weighting = weighting;
    stale.weighting_parameter = compensates(weighting) ? 100 : 0.5;
    EXPECT_GT(farthest(losses(stale), losses(round_robin(4, 20))), 1e-4);
  }
}

TEST(Replay, AStalenessAwareRateIsTheRateDividedByTheStaleness) {
  // A batch is judged by what two or three updates made of the parameters; the third one is two
  // versions old. Losses are nearly linear in so small a step.
  const auto judged = [&](Weighting weighting, bool third) {
    UpdateSchedule schedule;
    schedule.workers = 3;
    schedule.weighting = weighting;
    schedule.pushes = {{0, 0, 0, 0, 1}, {1, 1, 0, 0, 2}, {2, 2, 0, 0, 3}, {3, 0, 0, 3, 4}};
    if (!third) schedule.pushes[2].applied = 0;
    if (!third) schedule.pushes[3] = {3, 0, 0, 2, 3};
    LearningPlan p = plan(0);
    p.optimizer.weight_decay = 0;
    p.optimizer.learning_rate = 0.001;
    p.epochs = 4 * 32 / 2000.0;
    p.evaluations = 4;
    return replay(lenet(32), schedule, data(), p).curve.back().loss;
  };
  const double two = judged(Weighting::none, false), three = judged(Weighting::none, true);
  EXPECT_NEAR((two - judged(Weighting::staleness, true)) / (two - three), 0.5, 0.01);
}

// w1 = w0 - rate g0; w2 = w1 - rate (g1 + lambda g1 g1 (w1 - w0)): Zheng et al. 2017, both gradients
// taken at w0. The adaptive lambda is divided by the root of 0.95 * 0.05 g0 g0 + 0.05 g1 g1.
TEST(Replay, DelayCompensationIsTheFormulaOfItsPaper) {
  constexpr double rate = 0.1;
  const TrainingStep step = lenet(32);
  const ImageBatches batches(data().train, step, at::kCPU);
  const auto batch = [&](int worker, std::int64_t number) {
    return batches.make(data().train,
                        ShardOrder(data().train.count, 2, worker, 32, 1).indices(number));
  };
  LearningPlan with = plan(0);
  with.optimizer.weight_decay = 0;
  with.optimizer.learning_rate = rate;
  UpdateSchedule schedule;
  schedule.workers = 2;
  schedule.pushes = {{0, 0, 0, 0, 1}, {1, 1, 0, 0, 2}, {2, 0, 0, 2, 3}};
  const auto loss_at_w2 = [&](double lambda, bool adaptive) {
    RealNetwork network(step, at::kCPU, 1);
    std::vector<std::vector<at::Tensor>> gradients(2);
    for (int worker = 0; worker < 2; ++worker) {
      network.drop_gradients();
      network.forward(batch(worker, 0)).backward();
      for (const NetworkParameter& p : network.parameters()) {
        gradients[static_cast<std::size_t>(worker)].push_back(p.tensor.grad().clone());
      }
    }
    {
      const at::NoGradGuard no_gradients;
      for (std::size_t i = 0; i < network.parameters().size(); ++i) {
        const at::Tensor &g0 = gradients[0][i], &g1 = gradients[1][i];
        at::Tensor curvature = lambda * g1 * g1;
        if (adaptive) curvature /= (0.0475 * g0 * g0 + 0.05 * g1 * g1 + 1e-7).sqrt();
        network.parameters()[i].tensor.sub_(rate * (g0 + g1 + curvature * (-rate * g0)));
      }
    }
    return network.forward(batch(0, 1)).item<double>();
  };
  const double plain = loss_at_w2(0, false);
  for (const auto& [by, lambda] :
       {std::pair{Weighting::compensated, 1e5}, std::pair{Weighting::compensated_adaptive, 1e2}}) {
    schedule.weighting = by;
    schedule.weighting_parameter = lambda;
    const double expected = loss_at_w2(lambda, by == Weighting::compensated_adaptive);
    EXPECT_NEAR(replay(step, schedule, data(), with).losses[0][1], expected, 1e-6 * expected);
    EXPECT_GT(std::abs(expected / plain - 1), 1e-4);
  }
}

// What a test computes by hand: the batches of every worker, and gradients on parameters of its own.
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

  // `micro` of `accumulation` parts of the batch.
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

// n-softsync: who has pushed reads at once, while its push waits for others. The version that it
// reads then may be made before its push is applied.
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

TEST(Replay, AWorkerMayPushTwiceToOneUpdate) {
  ByHand hand(1);
  UpdateSchedule schedule;
  schedule.pushes = {{0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, {1, 0, 0, 1, 2}};
  const auto seen = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  EXPECT_EQ(seen.at(1), hand.loss(0, 1));  // on the initial parameters, as the first
  std::vector<at::Tensor> mean = hand.gradients(0, 0);
  const std::vector<at::Tensor> second = hand.gradients(0, 1);
  for (std::size_t i = 0; i < mean.size(); ++i) mean[i].add_(second[i]).div_(2);
  hand.subtract(mean, 0.1);
  EXPECT_EQ(seen.at(2), hand.loss(0, 2));
}

// Two servers of a worker that goes on at once: one message of its first push is applied after the
// other message of its second one. The former still carries the first gradient.
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
  EXPECT_EQ(seen.at(2), hand.loss(0, 2));  // of message 1 it has read version 0
  schedule.pushes.push_back({5, 0, 1, 2, 3});
  const auto read = replay(hand.step, schedule, data(), plain_sgd()).losses.at(0);
  step_along(first, 1);
  step_along(second, 1);
  EXPECT_EQ(read.at(2), hand.loss(0, 2));  // and here version 2, which both gradients made
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

// Batch norm takes mean and variance of each micro-batch by itself.
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

// Stich et al. 2018, algorithm 1: what is left of one step is added to the next gradient.
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

// Two workers with momentum, two local steps a round: where momenta are averaged, too, both begin
// the second round with their mean.
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

// EASGD (Zhang et al. 2015, equations 2 and 3), one worker and one step an exchange.
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

TEST(Replay, AveragingAfterEachStepIsSynchronousSgd) {
  LearningPlan with = plan(0);
  with.optimizer.weight_decay = 0;
  UpdateSchedule local = synchronous_schedule(4, 20, 1, 1);
  local.exchange = Exchange::parameters;
  EXPECT_LT(farthest(losses(local, 8, with), losses(synchronous_schedule(4, 20, 1, 1), 8, with)),
            1e-5);
}

TEST(Replay, LocalStepsUseALotOfDataBetweenTwoUpdates) {
  UpdateSchedule local = synchronous_schedule(4, 5, 1, 1);
  local.exchange = Exchange::parameters;
  local.local_steps = 4;
  const ReplayResult result = replay(lenet(8), local, data(), plan());
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.curve.back().updates, 5);
  EXPECT_NEAR(result.curve.back().epochs, 0.32, 1e-9);
}

TEST(Replay, AnElasticCentreThatNobodyPullsStaysWhereItWas) {
  UpdateSchedule elastic = round_robin(2, 20);
  elastic.exchange = Exchange::elastic;
  const auto curve = replay(lenet(32), elastic, data(), plan()).curve;
  for (const AccuracyPoint& point : curve) EXPECT_EQ(point.accuracy, curve.front().accuracy);
  elastic.elasticity = 0.4;
  const auto pulled = replay(lenet(32), elastic, data(), plan()).curve;
  EXPECT_NE(pulled.back().accuracy, curve.back().accuracy);
}

TEST(Replay, ADivergingRunEndsThereAndSaysSo) {
  LearningPlan with = plan();
  with.optimizer.learning_rate = 1e6;
  const ReplayResult result = replay(lenet(32), round_robin(1, 20), data(), with);
  EXPECT_TRUE(result.diverged);
  EXPECT_FALSE(result.complete);
  ASSERT_FALSE(result.curve.empty());
  const ReplayResult again = replay_result_from_json(to_json(result));
  EXPECT_TRUE(again.diverged);
  EXPECT_EQ(again.curve.size(), result.curve.size());
}

TEST(Replay, ARateIsWarmedUpAndFalls) {
  LearningPlan with = plan();
  with.epochs = 10;
  with.warm_up_epochs = 2;
  EXPECT_EQ(rate_factor(with, 1), 0.5);
  EXPECT_EQ(rate_factor(with, 9), 1);
  with.rate_schedule = RateSchedule::steps;
  EXPECT_EQ(rate_factor(with, 5.9), 1);
  EXPECT_EQ(rate_factor(with, 6.1), 0.1);
  EXPECT_EQ(rate_factor(with, 8.1), 0.01);
  with.rate_schedule = RateSchedule::cosine;
  EXPECT_NEAR(rate_factor(with, 6), 0.5, 1e-12);
  EXPECT_NEAR(rate_factor(with, 10), 0, 1e-12);
}

TEST(Schedule, IsReadAsItWasWritten) {
  const RunFolder folder;
  const std::string path = folder.file("schedule").string();
  UpdateSchedule schedule = round_robin(3, 5);
  schedule.messages = {{{0, 0, 10}, {1, 0, 5}}, {{1, 5, 5}}};
  schedule.weighting = Weighting::age;
  schedule.weighting_parameter = 0.5;
  schedule.local_steps = 2;
  schedule.pushed_as = PushedAs::largest;
  schedule.largest_share = 0.25;
  schedule.average_state = true;
  write_schedule(schedule, path);
  const UpdateSchedule again = read_schedule(path);
  EXPECT_EQ(again.workers, 3);
  EXPECT_EQ(again.pushed_as, PushedAs::largest);
  EXPECT_EQ(again.largest_share, 0.25);
  EXPECT_TRUE(again.average_state);
  EXPECT_EQ(again.local_steps, 2);
  EXPECT_EQ(again.weighting, Weighting::age);
  ASSERT_EQ(again.pushes.size(), 5u);
  EXPECT_EQ(again.pushes[4].read, 2);
  EXPECT_EQ(again.messages[1][0].first, 5);
  std::ofstream(path, std::ios::app) << "1 7 0 0 1\n";
  EXPECT_THROW(read_schedule(path), std::runtime_error);
  std::ofstream(path, std::ios::app) << "oops\n";
  EXPECT_THROW(read_schedule(path), std::runtime_error);
}

TEST(DataSets, Cifar10IsReadAndItsDamageNamed) {
  const RunFolder folder;
  const auto write = [&](const std::string& name, int count, int label) {
    std::ofstream file(folder.file(name));
    for (int i = 0; i < count; ++i) {
      file << static_cast<char>(label) << std::string(1024, '\x10') << std::string(1024, '\x20')
           << std::string(1024, '\x30');
    }
  };
  for (int batch = 1; batch <= 5; ++batch)
    write("data_batch_" + std::to_string(batch) + ".bin", 4, batch);
  const auto refusal = [&] {
    try {
      read_data_set(folder.path().string(), 10, 1);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal(), HasSubstr("test_batch.bin: cannot be read"));
  write("test_batch.bin", 3, 9);
  const ImageSets sets = read_data_set(folder.path().string(), 10, 1);
  EXPECT_EQ(sets.train.count, 20);
  EXPECT_EQ(sets.test.count, 3);
  EXPECT_EQ(sets.train.channels, 3);
  EXPECT_EQ(sets.train.pixels[1024], 0x20);
  EXPECT_EQ(sets.test.labels[2], 9);
  std::ofstream(folder.file("test_batch.bin"), std::ios::app) << "more";
  EXPECT_THAT(refusal(), HasSubstr("no whole number of records"));
  write("test_batch.bin", 1, 12);
  EXPECT_THAT(refusal(), HasSubstr("image 0 is of class 12"));
  EXPECT_THAT([] { read_data_set("/nowhere", 10, 1); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("there is no folder")));
}

TEST(Replay, KaimingConvolutionsHaveTheVarianceOfTorchvision) {
  RealNetwork network(lenet(1), at::kCPU, 1);
  const at::Tensor linear = network.parameters()[4].tensor.detach().clone();
  initialise_kaiming(network, 1);
  const at::Tensor weight = network.parameters()[2].tensor.detach();  // 16 x 6 x 5 x 5
  ASSERT_EQ(weight.numel(), 2400);
  // The standard error of a variance of n normal values is sqrt(2 / n) of it: 3 %.
  EXPECT_NEAR(weight.var().item<double>() / (2.0 / (16 * 25)), 1, 0.12);
  EXPECT_EQ(network.parameters()[3].tensor.detach().abs().max().item<double>(), 0);
  EXPECT_TRUE(network.parameters()[4].tensor.detach().equal(linear));
}

TEST(Replay, WithoutRunningStatisticsBatchNormJudgesWithItsFirstOnes) {
  StepOptions options;
  options.samples = 16;
  options.image = {1, 28, 28};
  options.classes = 10;
  options.parameters = {{"base", 4}, {"cifar", 1}};
  const TrainingStep step = build_step(*load_model("resnet18"), options);
  LearningPlan with = plan();
  with.evaluations = 1;
  with.test_samples = 500;
  LearningPlan without = with;
  without.running_statistics = RunningStatistics::untouched;
  const auto learned = replay(step, round_robin(1, 40), data(), with).curve.back();
  const auto judged = replay(step, round_robin(1, 40), data(), without).curve.back();
  EXPECT_EQ(learned.loss, judged.loss);  // they learn the same
  EXPECT_GT(learned.accuracy, judged.accuracy + 0.1);
}

TEST(Images, TakenOffAreNotLeft) {
  Images all = synthetic_images(10, 1).train;
  Images first = all;
  const Images last = take_last(first, 300);
  EXPECT_EQ(first.count, 1700);
  EXPECT_EQ(last.count, 300);
  std::vector<std::uint8_t> joined = first.pixels;
  joined.insert(joined.end(), last.pixels.begin(), last.pixels.end());
  EXPECT_EQ(joined, all.pixels);
  EXPECT_EQ(last.labels.back(), all.labels.back());
}

}  // namespace
}  // namespace lockstep::replay_test
