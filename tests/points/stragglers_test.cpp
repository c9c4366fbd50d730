// Do stragglers cost the time that order statistics and the hardware imply, and are impossible ones
// refused?
#include "strategies/common/stragglers.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/data.hpp"
#include "questions/run.hpp"
#include "scenario/helpers.hpp"
#include "test_folder.hpp"

namespace lockstep::stragglers_test {
namespace {

using testing::HasSubstr;

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

// The mean over steps of the slowest of n ranks.
double slowest_of(const Stragglers& stragglers, int n) {
  double sum = 0;
  const int steps = 20000;
  for (int step = 0; step < steps; ++step) {
    double most = 0;
    for (int rank = 0; rank < n; ++rank) {
      most = std::max(most, varying_factor(stragglers, 1, rank, step));
    }
    sum += most / steps;
  }
  return sum;
}

// Fact 145: the slowest of n exponential times is H_n means behind.
TEST(Stragglers, TheSlowestOfManyIsWhatOrderStatisticsSay) {
  Stragglers exponential, empirical;
  exponential.per_step = ShiftedExponential{0.1};
  for (const int n : {1, 4, 32}) {
    EXPECT_NEAR(slowest_of(exponential, n), 1 + 0.1 * harmonic(n), 0.005) << n;
  }
  // A file has one slow value of ten. At least one of n draws is slow with probability 1 - 0.9^n.
  Empirical law;
  law.values = {1, 1, 1, 1, 1, 1, 1, 1, 1, 3};
  empirical.per_step = law;
  for (const int n : {1, 4, 32}) {
    EXPECT_NEAR(slowest_of(empirical, n), 1 + 2 * (1 - std::pow(0.9, n)), 0.03) << n;
  }
}

TEST(Stragglers, SlowPeriodsLastAndComeAsOftenAsTheySay) {
  Stragglers stragglers;
  stragglers.slow_periods = SlowPeriods{500, 10, 2};
  int slow = 0, begun = 0;
  const int steps = 500000;
  bool before = false;
  for (int step = 0; step < steps; ++step) {
    const bool now = varying_factor(stragglers, 1, 0, step) == 2;
    slow += now;
    begun += now && !before;
    before = now;
  }
  EXPECT_NEAR(static_cast<double>(slow) / begun, 10, 0.5);
  EXPECT_NEAR(begun, steps / 500.0, 4 * std::sqrt(steps / 500.0));
}

TEST(Stragglers, HiccupsComeAsOftenAsTheySay) {
  int late = 0;
  for (int batch = 0; batch < 100000; ++batch) late += hiccup({50, 0.5}, 1, 3, batch) == 0.5;
  EXPECT_NEAR(late, 2000, 4 * std::sqrt(2000));
}

// The values of a file are factors relative to the file's median; blank lines and comments are
// skipped.
TEST(Stragglers, ValuesOfAFileAreOverTheirMedian) {
  const auto with = [](const std::string& content) {
    test_folder().write("times.txt", content);
    return read_scenario_text(
        scenario_text("stragglers: {per_step: {empirical: {file: times.txt}}}\n"),
        test_folder().file("test.yaml"));
  };
  const Scenario good = with("# ms\n10\n\n20 # usual\n40\n");
  EXPECT_EQ(std::get<Empirical>(*good.stragglers.per_step).values,
            (std::vector<double>{0.5, 1, 2}));
  for (const auto& [content, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"1\nfast\n", "times.txt:2:1: "},
           {"1\n  -2\n", "times.txt:2:3: '-2' is not positive"},
           {"1 ms\n", "times.txt:1:1: "},
           {"# none\n", "has no values"}}) {
    EXPECT_THAT(refusal([&, text = content] { with(text); }), HasSubstr(message)) << content;
  }
  EXPECT_THAT(
      refusal([] { scenario_of("stragglers: {per_step: {empirical: {file: nowhere.txt}}}\n"); }),
      testing::MatchesRegex("test.yaml:[0-9]+:[0-9]+: .*cannot read 'nowhere.txt'.*"));
}

double step_of(const std::string& more) {
  return mean(simulate(expand(scenario_of(more))).at(0).step_seconds);
}

const std::string nodes = "gpus: 16\nmodel: vgg11\nbatch: {per_gpu: 4}\n";
const std::string served =
    nodes + "strategies: [parameter_server: {placement: worker-host, servers: 2}]\n";

TEST(Stragglers, ASlowLinkCostsAsMuchAsASlowNetwork) {
  const std::string slow = "stragglers: {slow_links: [{link: NIC, speed: 5%, node: 1}]}\n";
  for (const std::string& job : {nodes, nodes + "strategies: [fsdp]\n", served}) {
    EXPECT_GT(step_of(job + slow), 1.5 * step_of(job)) << job;
  }
  // A ring is as slow as its slowest link. FSDP uses rings at any rate of the network.
  const std::string rings = nodes + "strategies: [fsdp]\n";
  const double all = step_of(rings + slow);
  Scenario narrow = scenario_of(rings);
  const auto points = expand(narrow, {}, [](Machine& machine, Framework&) {
    machine.fabric.nic_bytes_per_second *= 0.05;
  });
  EXPECT_NEAR(all / mean(simulate(points).at(0).step_seconds), 1, 0.1);
}

// If every batch comes 2 s after the one before, the step takes 2 s. If one of four batches is late
// by 2 s, the mean step takes half a second.
TEST(Stragglers, LateBatchesAreWaitedFor) {
  for (const std::string strategy : {"ddp", "fsdp", "parameter_server", "local_sgd", "zero"}) {
    const std::string job = "gpus: 1\nsimulation: {steps: 400}\nstrategies: [" + strategy + "]\n";
    const std::string late = "stragglers: {loader_hiccups: {lasts: 2 s, every: ";
    EXPECT_NEAR(step_of(job + late + "1}}\n"), 2, 0.02) << strategy;
    EXPECT_NEAR(step_of(job + late + "4}}\n"), 0.5, 0.1) << strategy;
  }
}

// Two batches are ready, and the host is one step ahead of the device. The rest of a hiccup is
// lost, in every strategy and for any length of the run.
TEST(Stragglers, AHiccupCostsWhatTwoBatchesAndOneStepOfLeadDoNotHide) {
  const std::string job = "model: resnet50\nbatch: {per_gpu: 128}\ngpus: 1\n";
  for (const std::string strategy : {"ddp", "fsdp", "zero", "parameter_server: {placement: gpu}"}) {
    const std::string alone = job + "strategies: [" + strategy + "]\n";
    const double step = run_scenario(scenario_of(alone)).predictions.at(0).step_seconds;
    for (const int steps : {400, 1600}) {
      const double late = 5;
      const std::string rest =
          "stragglers: {per_rank: 0, loader_hiccups: {every: 50, lasts: 5 s}}\nsimulation: "
          "{steps: " +
          std::to_string(steps) + "}\n";
      const double with = run_scenario(scenario_of(alone + rest)).predictions.at(0).step_seconds;
      int hiccups = 0;
      for (int batch = 1; batch <= steps; ++batch) hiccups += hiccup({50, late}, 1, 0, batch) > 0;
      // Two hiccups in a row are hidden less; the tolerance allows for this.
      const double lost = (late - 3 * step) * hiccups / steps;
      EXPECT_NEAR(with - step, lost, 0.25 * lost) << strategy << " " << steps;
    }
  }
}

TEST(Stragglers, ALinkMayBecomeSlowLater) {
  for (const std::string& job : {nodes, served}) {
    const auto steps = [&](const std::string& from) {
      return simulate(expand(scenario_of(job +
                                         "simulation: {steps: 40}\nstragglers: {per_rank: 0, "
                                         "slow_links: [{speed: 5%, from: " +
                                         from + "}]}\n")))
          .at(0)
          .step_seconds;
    };
    const auto late = steps("300 ms"), never = steps("1 h"), always = steps("0 s");
    EXPECT_EQ(late.front(), never.front()) << job;
    EXPECT_GT(late.back(), 1.5 * never.back()) << job;
    EXPECT_NEAR(late.back() / always.back(), 1, 1e-6) << job;
  }
}

// The slow-down that a V100 node causes in an A100 job is the slow-down of a job with V100 nodes
// only.
TEST(Stragglers, OtherDevicesAreAsSlowAsTheyAre) {
  const std::string job = "gpus: 16\nmodel: resnet50\nbatch: {per_gpu: 64}\nprecision: amp-fp16\n";
  const std::string other = "stragglers: {per_rank: 0, other_devices: [{device: ";
  const double same = step_of(job + "stragglers: {per_rank: 0}\n");
  EXPECT_NEAR(step_of(job + other + "a100-sxm4-80gb, nodes: 1}]}\n") / same, 1, 1e-9);
  const double mixed = step_of(job + other + "v100-sxm2-32gb, nodes: 1}]}\n");
  const double all = step_of(job + other + "v100-sxm2-32gb, nodes: [0, 1]}]}\n");
  EXPECT_GT(mixed, 1.3 * same);
  EXPECT_NEAR(mixed / all, 1, 0.02);
  const auto memory = memory_of(expand(scenario_of(job + other + "v100-sxm2-16gb, nodes: 1}]}\n")));
  EXPECT_LT(memory.at(0).capacity, 17e9);
}

// A device file is read once for all points and figures of a scenario.
TEST(Stragglers, OtherDevicesAreOfTheInputs) {
  const std::string file = test_folder().file("own.yaml");
  std::filesystem::copy_file(data_folder("platforms/devices") + "/v100-sxm2-16gb.yaml", file);
  const Scenario scenario = scenario_of(
      "gpus: [8, 16]\nstragglers: {other_devices: [{device: " + file + ", ranks: 0}]}\n");
  InputFiles files;
  const Inputs inputs = files.of(scenario);
  EXPECT_EQ(files.of(scenario).devices.at(file), inputs.devices.at(file));
  std::filesystem::remove(file);
  Workloads workloads;
  const auto points = expand(scenario, inputs, workloads);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_LT(points[1].job.machine.device.memory_bytes, 17e9);
  const auto results = simulate(points);
  EXPECT_GT(summarise_point(scenario, points[1], results[1]).mfu, 0);
}

// If all nodes have the other device, each kind of work takes as long as on a platform with that
// device: products, copies and updates have factors of their own.
TEST(Stragglers, EachPieceOfWorkTakesWhatTheOtherDeviceNeeds) {
  const std::string v100_nodes =
      test_folder().write("v100-nodes.yaml", "base: dgx-a100-80gb\ndevice: v100-sxm2-32gb\n");
  const auto split = [](const std::string& more) {
    const Scenario scenario = scenario_of(
        "gpus: 16\nmodel: resnet50\nbatch: {per_gpu: 32, micro: 16}\nprecision: amp-fp16\n"
        "optimizer: {name: adam}\nsimulation: {interference: false, steps: 4}\n" +
        more);
    return simulate({expand(scenario).at(0)}).at(0).split;
  };
  const StepSplit v100 = split("platform: " + v100_nodes + "\n"), a100 = split("");
  // A single factor would not do: the products of this network gain less from an A100 than its
  // memory-bound work.
  EXPECT_LT(1.1 * v100.forward / a100.forward, v100.optimizer / a100.optimizer);
  for (const std::string strategy :
       {"ddp: {gradient_as_bucket_view: false}", "fsdp", "local_sgd: {every: 2}",
        "parameter_server: {consistency: async, push_compression: fp16}"}) {
    const std::string job = "strategies: [" + strategy + "]\nstragglers: {per_rank: 0";
    const StepSplit there = split("platform: " + v100_nodes + "\n" + job + "}\n");
    const StepSplit mixed =
        split(job + ", other_devices: [{device: v100-sxm2-32gb, nodes: [0, 1]}]}\n");
    for (double StepSplit::*part :
         {&StepSplit::forward, &StepSplit::backward, &StepSplit::optimizer, &StepSplit::copies}) {
      EXPECT_NEAR(mixed.*part, there.*part, 1e-9 * there.*part) << strategy;
    }
  }
}

// Two of three nodes have devices of two other kinds. The host delays no rank.
TEST(Stragglers, EachNodeHasItsOwnDevice) {
  const auto slowest = [](const std::string& devices) {
    const Scenario scenario = scenario_of(
        "gpus: 24\nmodel: resnet50\nbatch: {per_gpu: 32}\nprecision: fp32\n"
        "simulation: {interference: false, steps: 8}\ndata_loading: {on_device: true}\nstragglers: "
        "{per_rank: 0, other_devices: [" +
        devices + "]}\n");
    const StrategyResult result = simulate({expand(scenario).at(0)}).at(0);
    std::vector<double> own;
    for (const RankTimes& rank : result.ranks) own.push_back(rank.own);
    return own;
  };
  const auto both = slowest("{device: t4, nodes: 1}, {device: v100-sxm2-32gb, nodes: 2}");
  const auto t4 = slowest("{device: t4, nodes: 1}");
  const auto v100 = slowest("{device: v100-sxm2-32gb, nodes: 2}");
  ASSERT_EQ(both.size(), 3u);
  EXPECT_NEAR(both[1], t4[1], 1e-9);
  EXPECT_NEAR(both[2], v100[1], 1e-9);
  EXPECT_GT(both[1], both[2]);
  EXPECT_GT(both[2], both[0]);
}

// A node whose ranks all have the other device equals a node with that device, and a single slow
// rank delays the others of its node.
TEST(Stragglers, RanksOfOneNodeMayDiffer) {
  const std::string job = "gpus: 8\nmodel: resnet50\nbatch: {per_gpu: 64}\nprecision: amp-fp16\n";
  const auto step = [&](const std::string& who) {
    return step_of(job + "stragglers: {per_rank: 0, other_devices: [{device: v100-sxm2-32gb, " +
                   who + "}]}\n");
  };
  const double node = step("nodes: 0");
  EXPECT_EQ(step("ranks: [0, 1, 2, 3, 4, 5, 6, 7]"), node);
  EXPECT_NEAR(step("ranks: 5") / node, 1, 0.02);
  EXPECT_GT(step("ranks: 5"), 1.3 * step_of(job + "stragglers: {per_rank: 0}\n"));
  const auto result = simulate(expand(scenario_of(
      job + "stragglers: {other_devices: [{device: v100-sxm2-16gb, ranks: [5, 7]}]}\n")));
  for (const RankTimes& rank : result.at(0).ranks) {
    const bool other = rank.rank == 5 || rank.rank == 7;
    EXPECT_EQ(rank.waiting < 0.1 * rank.own, other) << rank.rank;
  }
}

// Half of the GPUs reach 312 TFLOP/s in fp16, the other half 125. With bf16, ten of 26 GPUs are
// V100 without bf16 units, which reach 15.7 TFLOP/s in fp32.
TEST(Stragglers, UtilisationIsOfWhatEachDeviceCanDo) {
  const auto ratio = [](const std::string& precision, int gpus,
                        const std::string& who = "nodes: [1, 3]") {
    const Scenario scenario =
        scenario_of("gpus: " + std::to_string(gpus) + "\nprecision: " + precision +
                    "\nstragglers: {other_devices: [{device: v100-sxm2-32gb, " + who + "}]}\n");
    const Point point = expand(scenario).at(0);
    const Prediction p = summarise_point(scenario, point, simulate({point}).at(0));
    return point.model_flops / p.step_seconds / p.mfu;
  };
  EXPECT_NEAR(ratio("amp-fp16", 32) / 1e12, (312 + 125) / 2.0, 0.5);
  EXPECT_NEAR(ratio("amp-fp16", 8, "ranks: 2") / 1e12, (7 * 312 + 125) / 8.0, 0.5);
  EXPECT_NEAR(ratio("amp-bf16", 26) / 1e12, (16 * 312 + 10 * 15.7) / 26, 0.5);
}

TEST(Stragglers, WhatIsNotThereIsRefusedWithItsPlace) {
  for (const auto& [stragglers, message] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"other_devices: [{device: v100, nodes: 0}]", "v100"},
           {"other_devices: [{device: t4, nodes: 2}]", "there is no node 2"},
           {"other_devices: [{device: cpu-core, nodes: 0}]", "GPUs and CPUs are not in one job"},
           {"other_devices: [{device: t4, nodes: [1, 1]}]", "names node 1 twice"},
           {"other_devices: [{device: t4, nodes: 0}, {device: l4, nodes: 1}, {device: a30, nodes: "
            "0}, {device: a40, nodes: 1}]",
            "too many kinds of devices in one job"},
           {"other_devices: [{device: t4, ranks: [3, 16]}]",
            "there is no rank 16; ranks are 0 to 15"},
           {"other_devices: [{device: t4, ranks: [3, 3]}]", "names rank 3 twice"},
           {"other_devices: [{device: t4, ranks: 3}, {device: l4, ranks: [2, 3]}]",
            "names rank 3 twice"},
           {"other_devices: [{device: t4, ranks: 9}, {device: t4, nodes: 1}]",
            "rank 9 is in node 1, which is named, too"},
           {"other_devices: [{device: t4, ranks: 1, nodes: 0}]", "ranks: contradicts nodes"},
           {"other_devices: [{device: t4}]", "names no node or rank; nodes, or ranks"},
           {"slow_links: [{speed: 50%, node: 3}]", "there is no node 3; nodes are 0 to 1"},
           {"slow_links: [{speed: 50%, link: nic}]", "did you mean 'NIC'?"},
           {"slow_links: [{speed: 0%}]", "out of range"},
           {"slow_links: [{speed: 50%, link: uplink}]", "one switch joins all nodes"},
           {"neighbours: [{share: 50%, nodes: [0, 2]}]", "there is no node 2"},
           {"neighbours: [{share: 50%, link: uplink}]", "one switch joins all nodes"},
           {"neighbours: [{share: 100%}]", "out of range"},
           {"neighbours: [{link: NIC}]", "share"},
           {"neighbours: [{share: 50%, lasts: 1 s}]", "needs `every`"},
           {"neighbours: [{share: 50%, every: 1 s}]", "need `lasts`"},
           {"neighbours: [{share: 50%, lasts: 2 s, every: 1 s}]", "longer than"},
           {"slow_periods: {every: 5, lasts: 10}", "longer than"},
           {"slow_periods: {factor: 0.5}", "out of range"},
           {"loader_hiccups: {every: 0}", "out of range"},
       }) {
    const std::string text = served + "stragglers: {" + stragglers + "}\n";
    const std::string what = refusal([&] { expand(scenario_of(text)); });
    EXPECT_THAT(what, HasSubstr(message)) << text;
    EXPECT_THAT(what, testing::MatchesRegex("test.yaml:[0-9]+:[0-9]+: .*")) << text;
  }
}

TEST(Stragglers, LinksThatAMachineLacksAreRefused) {
  for (const std::string what :
       {"slow_links: [{link: NVLink, speed: 50%}]", "neighbours: [{link: NVLink, share: 50%}]"}) {
    const std::string text = "gpus: 4\nplatform: a100-pcie-80gb-x8\nstragglers: {" + what + "}\n";
    EXPECT_THAT(refusal([&] { expand(scenario_of(text)); }),
                testing::MatchesRegex("test.yaml:[0-9]+:[0-9]+: stragglers.*.link: "
                                      "a100-pcie-80gb-x8 has no NVLink; PCIe, NIC"));
  }
}

// Servers' own hosts are numbered after the nodes with GPUs, if some strategy has such hosts. These
// hosts have no links of GPUs.
TEST(Stragglers, ServersOnHostsOfTheirOwnHaveLinksToo) {
  const std::string own = "parameter_server: {placement: own-hosts, servers: 2}";
  const auto refused = [&](const std::string& strategies, const std::string& stragglers) {
    return refusal([&] {
      expand(scenario_of(nodes + "strategies: [" + strategies + "]\nstragglers: {" + stragglers +
                         "}\n"));
    });
  };
  const std::string slow = "slow_links: [{speed: 50%, node: ";
  const std::string busy = "neighbours: [{share: 50%, nodes: [0, ";
  EXPECT_EQ(expand(scenario_of(nodes + "strategies: [ddp, " + own + "]\nstragglers: {" + slow +
                               "3}], " + busy + "2]}]}\n"))
                .size(),
            2);
  EXPECT_THAT(refused(own, slow + "4}]"),
              HasSubstr("there is no node 4; nodes are 0 to 1, the servers' own hosts 2 to 3"));
  EXPECT_THAT(refused(own, busy + "4]}]"), HasSubstr("there is no node 4"));
  EXPECT_THAT(refused(own, slow + "2, link: PCIe}]"),
              HasSubstr("node 2 is a server's host and has no GPU"));
  for (const std::string& stragglers : {slow + "2}]", busy + "2]}]"}) {
    EXPECT_THAT(refused("ddp, parameter_server", stragglers),
                HasSubstr("there is no node 2; nodes are 0 to 1"));
  }
}

TEST(Stragglers, NeighboursNeedANetworkThatIsShared) {
  const std::string text = nodes + "stragglers: {neighbours: [{share: 50%}]}\n";
  const std::string what =
      refusal([&] { expand(scenario_of(text + "simulation: {network: analytic}\n")); });
  EXPECT_THAT(what, HasSubstr("lets nobody share a link"));
}

// The analytic network supports slow links for the parameter server, whose messages have links of
// their own, but not for collectives.
TEST(Stragglers, SlowLinksOfCollectivesNeedANetworkThatIsShared) {
  const std::string text = nodes + "stragglers: {slow_links: [{speed: 50%}]}\n" +
                           "simulation: {network: analytic}\nstrategies: [";
  EXPECT_THAT(refusal([&] { expand(scenario_of(text + "ddp]\n")); }),
              HasSubstr("collectives on links of full speed"));
  EXPECT_EQ(expand(scenario_of(text + "parameter_server]\n")).size(), 1);
}

// The reported cost is the difference between the scenario with `stragglers` and without.
TEST(Stragglers, CostWhatTheRunIsLongerAndDearerThanWithout) {
  const std::string run = "gpus: 4\nplatform: a100-pcie-80gb-x8\ndataset: {steps: 1000}\n";
  const Prediction without = run_scenario(scenario_of(run)).predictions.at(0);
  EXPECT_FALSE(without.stragglers.has_value());
  const Prediction with =
      run_scenario(scenario_of(run + "stragglers: {slow_ranks: [{rank: 1, factor: 2}]}\n"))
          .predictions.at(0);
  ASSERT_TRUE(with.stragglers.has_value());
  const StragglerCost& cost = *with.stragglers;
  const double rounding = 1e-9 * with.total_seconds;
  EXPECT_NEAR(cost.step_without, without.step_seconds, 1e-9 * without.step_seconds);
  EXPECT_NEAR(cost.step_more, with.step_seconds - without.step_seconds, rounding / 1000);
  EXPECT_NEAR(cost.total_more, 1000 * cost.step_more, rounding);
  ASSERT_GT(with.dollars, without.dollars);
  EXPECT_NEAR(cost.dollars_more / with.dollars, cost.total_more / with.total_seconds, 1e-9);
  for (const RankTimes& times : cost.ranks) {
    EXPECT_NEAR(times.own + times.communicating + times.waiting, with.step_seconds,
                rounding / 1000);
  }
}

// The comparison removes the slow rank only; the other ranks keep the spread that the scenario
// states, not the default spread. A slow rank therefore never has a negative cost.
TEST(Stragglers, CostNothingLessThanNothingWhereTheScenarioSaysHowRanksDiffer) {
  for (const std::string strategy :
       {"ddp", "fsdp", "parameter_server: {placement: worker-host, servers: 8}"}) {
    const std::string run =
        "gpus: 8\nplatform: v100-sxm2-16gb-x1-tcp\nstrategies: [" + strategy + "]\n";
    const auto of = [&](const std::string& stragglers) {
      return run_scenario(scenario_of(run + "stragglers: {" + stragglers + "}\n"))
          .predictions.at(0);
    };
    for (const std::string spread : {"per_rank: 0", "per_rank: 5%"}) {
      const Prediction alike = of(spread);
      EXPECT_FALSE(alike.stragglers.has_value()) << strategy;
      const Prediction slow = of(spread + ", slow_ranks: [{rank: 7, factor: 1.02}]");
      ASSERT_TRUE(slow.stragglers.has_value()) << strategy;
      EXPECT_NEAR(slow.stragglers->step_without / alike.step_seconds, 1, 1e-9) << strategy;
    }
    const Prediction slow = of("per_rank: 0, slow_ranks: [{rank: 7, factor: 1.02}]");
    EXPECT_GT(slow.stragglers->step_more, 0) << strategy;
  }
}

}  // namespace
}  // namespace lockstep::stragglers_test
