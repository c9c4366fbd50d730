// Does the replay learn in exactly the order of the schedule?
#include <gtest/gtest.h>

#include <fstream>

#include "convergence/job.hpp"
#include "launch/processes.hpp"
#include "replay_plans.hpp"
#include "torch/initialisation.hpp"
#include "torch/optimizer.hpp"

namespace lockstep::replay_test {
namespace {

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

TEST(Replay, ADroppedPushChangesNothing) {
  UpdateSchedule schedule = round_robin(1, 20);
  UpdateSchedule late = schedule;
  late.workers = 2;
  schedule.workers = 2;
  late.pushes.insert(late.pushes.begin() + 5, {5, 1, 0, 0, 0});
  LearningPlan with = plan();
  with.evaluations = 1;
  with.epochs = 10;  // until the schedule ends
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
  // The loss of a fixed batch shows the effect of two or three updates, of which the third is two
  // versions old. With so small a step losses are nearly linear, so half of the rate gives half of
  // the effect.
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

// Zheng et al. 2017, both gradients taken at w0: w1 = w0 - rate g0; w2 = w1 - rate (g1 + lambda g1
// g1 (w1 - w0)). The adaptive lambda is divided by the root of the running mean square, 0.95 * 0.05
// g0 g0 + 0.05 g1 g1.
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

TEST(Replay, CompressionOfEverythingIsPlainTrainingAndLessIsNot) {
  const auto trained = [](Compression compression, double fraction) {
    UpdateSchedule schedule = synchronous_schedule(4, 20, 1, 1);
    schedule.mean.compression = compression;
    schedule.mean.fraction = fraction;
    return losses(schedule, 8);
  };
  const auto plain = losses(synchronous_schedule(4, 20, 1, 1), 8);
  for (const Compression compression : {Compression::top_k, Compression::random_k}) {
    EXPECT_LT(farthest(trained(compression, 1), plain), 1e-5);
    const auto some = trained(compression, 0.05);
    EXPECT_GT(farthest(some, plain), 1e-3);
    EXPECT_EQ(trained(compression, 0.05), some);
  }
  for (const Compression compression : {Compression::qsgd, Compression::powersgd}) {
    const auto some = trained(compression, 1);
    EXPECT_GT(farthest(some, plain), 1e-4);
    EXPECT_EQ(trained(compression, 1), some);
  }
}

// With one worker the hook returns the gradient's signs, or its values rounded to fp16.
TEST(Replay, AStepFollowsWhatTheHookMakesOfTheGradient) {
  const auto accuracy = [](const CompressedMean& mean) {
    UpdateSchedule schedule = synchronous_schedule(1, 20, 1, 1);
    schedule.mean = mean;
    return losses(schedule);
  };
  CompressedMean halves;
  halves.element = GradientElement::fp16;
  const auto plain = accuracy({});
  EXPECT_LT(farthest(accuracy(halves), plain), 0.05);
  EXPECT_NE(accuracy(halves), plain);
  CompressedMean signs;
  signs.compression = Compression::sign;
  EXPECT_GT(farthest(accuracy(signs), plain), 0.05);
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
  schedule.shares = {0.5, 1, 1.5};
  schedule.class_concentration = 0.25;
  schedule.mean = {GradientElement::bf16, Compression::top_k, 0.125, 3, {{1, 0}, {2}}};
  write_schedule(schedule, path);
  const UpdateSchedule again = read_schedule(path);
  EXPECT_EQ(again.workers, 3);
  EXPECT_EQ(again.pushed_as, PushedAs::largest);
  EXPECT_EQ(again.largest_share, 0.25);
  EXPECT_TRUE(again.average_state);
  EXPECT_EQ(again.mean.element, GradientElement::bf16);
  EXPECT_EQ(again.mean.compression, Compression::top_k);
  EXPECT_EQ(again.mean.fraction, 0.125);
  EXPECT_EQ(again.mean.rank, 3);
  EXPECT_EQ(again.mean.buckets, schedule.mean.buckets);
  EXPECT_EQ(again.local_steps, 2);
  EXPECT_EQ(again.shares, schedule.shares);
  EXPECT_EQ(again.class_concentration, 0.25);
  EXPECT_EQ(again.steps_of(0), 1);
  EXPECT_EQ(again.steps_of(2), 3);
  EXPECT_EQ(again.weighting, Weighting::age);
  ASSERT_EQ(again.pushes.size(), 5u);
  EXPECT_EQ(again.pushes[4].read, 2);
  EXPECT_EQ(again.messages[1][0].first, 5);
  std::ofstream(path, std::ios::app) << "1 7 0 0 1\n";
  EXPECT_THROW(read_schedule(path), std::runtime_error);
  std::ofstream(path, std::ios::app) << "oops\n";
  EXPECT_THROW(read_schedule(path), std::runtime_error);
}

TEST(Replay, KaimingConvolutionsHaveTheVarianceOfTorchvision) {
  RealNetwork network(lenet(1), at::kCPU, 1);
  const at::Tensor linear = network.parameters()[4].tensor.detach().clone();
  initialise_kaiming(network, 1);
  const at::Tensor weight = network.parameters()[2].tensor.detach();  // 16 x 6 x 5 x 5
  ASSERT_EQ(weight.numel(), 2400);
  // The variance of n normal values has a standard error of sqrt(2 / n): 3 %.
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
  EXPECT_EQ(learned.loss, judged.loss);  // both learn the same
  EXPECT_GT(learned.accuracy, judged.accuracy + 0.1);
}

}  // namespace
}  // namespace lockstep::replay_test
