// Which failures does a scenario accept or refuse, and do their results follow from the simulated
// steps?
#include "points/faults.hpp"

#include "questions/run.hpp"
#include "scenario/helpers.hpp"

namespace lockstep::faults_test {
namespace {

using testing::HasSubstr;

const std::string two_nodes = "model: lenet5\ngpus: 16\ndataset: {time: 10 d}\n";

TEST(Faults, WhatCannotBeIsRefusedWithItsPlace) {
  struct Case {
    const char* faults;
    const char* message;
  };
  const std::string platform = "platform: a100-sxm4-80gb-x4\ngpus: 8\n";
  for (const auto& [faults, message] : std::initializer_list<Case>{
           {"faults: {mean_time_between_failures: {node: -1 d}, repair: 1 h}\n", "out of range"},
           {"faults: {mean_time_between_failures: {node: 20}, repair: 1 h}\n", "needs a unit"},
           {"faults: {mean_time_between_failures: {nodes: 1 d}}\n", "did you mean 'node'?"},
           {"faults: {mean_time_between_failures: {gpu: 1 d}}\n", "repair: missing"},
           {"faults: {min_nodes: 2, recovery: restart}\n", "no effect with recovery: restart"},
           {"faults: {min_nodes: 3, recovery: elastic}\n", "but the job has 2 nodes"},
           {"faults: {spare_nodes: 20}\n", "has at most 16"},
           {"faults: {spare_nodes: -1}\n", "out of range"},
           {"faults: {at: [{time: 1 h, node: 2}], repair: 1 h}\n", "there is no node 2"},
           {"faults: {at: [{time: 1 h, node: 0, server: 0}]}\n", "says more than one thing"},
           {"faults: {at: [{time: 1 h, server: 0}]}\n", "there is no server 0"},
           {"faults: {at: [{time: 1 h, node: 0}, {time: 2 h, node: 1}], spare_nodes: 1}\n",
            "leaves too few nodes for ddp on 2 nodes; more spare_nodes, `repair: 1 h`, or "
            "`recovery: elastic`"},
           {"faults: {at: [{time: 1 h, node: 0}, {time: 2 h, node: 1}], recovery: elastic}\n",
            "leaves too few nodes for ddp on 2 nodes; more spare_nodes, or `repair: 1 h`"},
           {"faults: {at: [{time: 1 h, leaves: 1}]}\n", "leaves too few nodes"},
           {"faults: {at: [{time: 1 h, leaves: 2}]}\n", "leaves: there is no node 2"},
           {"faults: {at: [{time: 1 h, joins: 2}]}\n", "joins: there is no node 2"},
           {"faults: {at: [{time: 1 h, worker: 8}]}\n", "workers are 0 to 7"},
           {"faults: {at: [{time: 1 h, link: 2}], link_outage: 1 h}\n", "link: there is no node 2"},
           {"faults: {at: [{time: 1 h, link: 0}]}\n", "link_outage: missing"},
           {"faults: {mean_time_between_failures: {link: 1 d}}\n", "link_outage: missing"},
           {"faults: {link_outage: 1 h}\n", "link_outage: has no effect"},
           {"faults: {at: [{node: 0}]}\n", "missing"},
           {"checkpoint: {every: 1 h}\n", "no effect without faults"},
           {"faults: {}\ncheckpoint: {every: 0 s}\n", "out of range"},
       }) {
    const std::string text = platform + "dataset: {time: 10 d}\n" + faults;
    const std::string what = refusal([&] { expand(scenario_of(text)); });
    EXPECT_THAT(what, HasSubstr(message)) << text;
    EXPECT_THAT(what, testing::MatchesRegex("test.yaml:[0-9]+:[0-9]+: .*")) << text;
  }
  EXPECT_THAT(refusal([] { scenario_of("faults: {}\n"); }), HasSubstr("length of the run"));
  EXPECT_THAT(refusal([] { scenario_of("dataset: {time: 1 d, steps: 3}\n"); }),
              HasSubstr("contradicts steps"));
}

RunWithFailures run_of(const std::string& more) {
  const ResultRecord record = run_scenario(scenario_of(more));
  return record.predictions.at(0).with_failures.value();
}

TEST(Faults, ServersAreThereWhereTheyHaveHosts) {
  const std::string servers =
      two_nodes + "strategies: [parameter_server: {consistency: async, placement: own-hosts}]\n";
  EXPECT_EQ(run_of(servers + "faults: {at: [{time: 1 h, server: 0}]}\n").interruptions, 1);
  EXPECT_THAT(
      refusal([&] { expand(scenario_of(servers + "faults: {at: [{time: 1 h, server: 1}]}\n")); }),
      HasSubstr("servers are 0 to 0"));
}

TEST(Faults, WithoutFailuresTheRunIsItsSteps) {
  const RunWithFailures run = run_of(two_nodes + "faults: {}\n");
  EXPECT_NEAR(run.finish_seconds, 10 * 86400, 1);
  EXPECT_EQ(run.interruptions, 0);
  EXPECT_EQ(run.checkpoint_period_seconds, 0);  // without failures no checkpoint is needed
  EXPECT_DOUBLE_EQ(run.goodput, 1);
  EXPECT_DOUBLE_EQ(run.availability, 1);
}

// This holds with first steps and stragglers: asynchronous workers are slower at first than later.
TEST(Faults, WithoutFailuresEveryStrategyTakesWhatItWasPredictedToTake) {
  for (const std::string strategy :
       {"ddp", "parameter_server: {consistency: ssp}",
        "parameter_server: {consistency: async, placement: own-hosts}"}) {
    const auto p = run_scenario(scenario_of(two_nodes +
                                            "faults: {}\nstragglers: {slow_ranks: [{rank: "
                                            "0, factor: 4}]}\nstrategies: [" +
                                            strategy + "]\n"))
                       .predictions.at(0);
    EXPECT_NEAR(p.with_failures->finish_seconds, p.total_seconds, 1e-9 * p.total_seconds)
        << strategy;
  }
}

// A strategy that continues with fewer nodes by itself needs no option for that. With 8 GPUs there
// is only one node, so the loss is refused.
TEST(Faults, WhoDoesWithoutANodeIsNotRefused) {
  const std::string lost =
      "dataset: {time: 10 d}\nmodel: lenet5\nfaults: {at: [{time: 1 h, node: 0}]}\n"
      "strategies: [parameter_server: {consistency: async, placement: "
      "own-hosts}]\n";
  EXPECT_EQ(run_of(lost + "gpus: 16\n").unfinished, 0);
  EXPECT_THAT(refusal([&] { expand(scenario_of(lost + "gpus: [16, 8]\n")); }),
              HasSubstr("leaves too few nodes for parameter_server on 1 node;"));
}

TEST(Faults, LengthOfARunIsStepsOrTimeAlike) {
  const auto steps = run_scenario(scenario_of("dataset: {steps: 1000}\n")).predictions.at(0);
  EXPECT_EQ(steps.steps, 1000);
  const auto time = run_scenario(scenario_of("dataset: {time: 1 h}\n")).predictions.at(0);
  EXPECT_NEAR(time.total_seconds, 3600, time.first_step_seconds + time.step_seconds);
}

// 3.6 of 1000 node-days have a failure here; fact 148 has 6.5. 16,384 GPUs in nodes of 8 then fail
// every 1.8 h.
TEST(Faults, ManyGpusAreInterruptedAsOftenAsPublished) {
  Scenario s = scenario_of(two_nodes +
                           "faults: {mean_time_between_failures: {node: 3692 h}, repair: 0 s, "
                           "detection: 0 s, restart: 0 s, runs: 50}\n");
  const auto point = expand(s).at(0);
  StrategyResult result;
  result.samples_per_step = 1;
  Prediction p;
  p.step_seconds = 10;
  p.steps = 86400;
  p.total_seconds = 864000;
  Point large = point;
  large.job.mesh.data = 16384;
  const auto run = run_with_failures(s, large, result, p);
  EXPECT_NEAR(run.seconds_between_interruptions / 3600, 1.803, 0.05);
}

// A checkpoint of ResNet-18 holds parameters and momentum in fp32, and the statistics of batch
// norms.
TEST(Faults, ACheckpointHoldsParametersAndOptimizer) {
  const std::string fails = "gpus: 16\ndataset: {time: 10 d}\nfaults: {at: [{time: 1 h}]}\n";
  const std::string momentum = "optimizer: {momentum: 0.9}\ncheckpoint: {bandwidth: 1 GB/s}\n";
  const RunWithFailures ddp = run_of(fails + momentum);
  EXPECT_NEAR(ddp.checkpoint_bytes, 11689512 * 8.0, 0.001 * 11689512 * 8);
  EXPECT_NEAR(ddp.checkpoint_seconds, ddp.checkpoint_bytes / 1e9, 1e-9);
  const RunWithFailures fsdp = run_of(fails + momentum + "strategies: [fsdp]\n");
  EXPECT_DOUBLE_EQ(fsdp.checkpoint_bytes, ddp.checkpoint_bytes);
  EXPECT_DOUBLE_EQ(fsdp.checkpoint_seconds, ddp.checkpoint_seconds / 2);  // both nodes write
}

TEST(Faults, SpareNodesArePaidFor) {
  const std::string fails =
      two_nodes + "price_per_gpu_hour: 1 USD/h\nfaults: {at: [{time: 1 h}], spare_nodes: ";
  const RunWithFailures none = run_of(fails + "0}\n"), two = run_of(fails + "2}\n");
  EXPECT_DOUBLE_EQ(none.dollars, none.finish_seconds / 3600 * 16);
  EXPECT_DOUBLE_EQ(two.dollars, two.finish_seconds / 3600 * 32);
}

TEST(Faults, NodesThatLeftAreNotPaidFor) {
  const RunWithFailures run =
      run_of(two_nodes +
             "price_per_gpu_hour: 1 USD/h\nfaults: {recovery: "
             "elastic, at: [{time: 1 d, leaves: 1}, {time: 3 d, joins: 1}]}\n");
  EXPECT_EQ(run.lost, 0);
  EXPECT_NEAR(run.mean_gpus_away * run.finish_seconds, 8 * 2 * 86400, 8 * 60);
  EXPECT_NEAR(run.dollars, (run.finish_seconds * 16 - 2 * 86400 * 8) / 3600, 1);
}

// The second node has four of the twelve GPUs, so its absence saves four GPU prices.
TEST(Faults, NodesThatAreNotFullCostWhatTheyHave) {
  const std::string job =
      "model: lenet5\ngpus: 12\ndataset: {time: 10 d}\nprice_per_gpu_hour: 1 USD/h\n";
  const RunWithFailures run = run_of(job +
                                     "faults: {recovery: elastic, at: [{time: 1 d, leaves: 1}, "
                                     "{time: 3 d, joins: 1}]}\n");
  EXPECT_NEAR(run.dollars, (run.finish_seconds * 12 - 2 * 86400 * 4) / 3600, 1);
  // Worker 7 runs on the first node; a worker 12 does not exist.
  const std::string async = job +
                            "strategies: [parameter_server: {consistency: async, placement: "
                            "own-hosts}]\nfaults: {restart: 10 d, at: [{time: 1 h, worker: ";
  EXPECT_EQ(run_of(async + "7}, {time: 2 h, node: 1}], repair: 1 h}\n").failures, 2);
  EXPECT_THAT(refusal([&] { expand(scenario_of(async + "12}]}\n")); }),
              HasSubstr("workers are 0 to 11"));
}

// A scheduled failure of a server or worker that a point does not have is ignored there.
TEST(Faults, WhatAJobHasNotDoesNotFailThere) {
  const ResultRecord record = run_scenario(scenario_of(
      two_nodes +
      "strategies: [ddp, {parameter_server: {consistency: async, placement: own-hosts}}]\n"
      "faults: {at: [{time: 1 h, server: 0}]}\n"));
  EXPECT_EQ(record.predictions.at(0).with_failures->failures, 0);
  EXPECT_EQ(record.predictions.at(0).with_failures->checkpoint_period_seconds, 0);
  EXPECT_EQ(record.predictions.at(1).with_failures->failures, 1);
  const std::string counts = "model: lenet5\ngpus: [8, 16]\ndataset: {time: 10 d}\nfaults: ";
  const auto failures = [](const std::string& text) {
    std::vector<double> each;
    for (const Prediction& p : run_scenario(scenario_of(text)).predictions) {
      each.push_back(p.with_failures->failures);
    }
    return each;
  };
  EXPECT_EQ(failures(counts + "{at: [{time: 1 h, worker: 9}]}\n"), (std::vector<double>{0, 1}));
  // The smaller count is not refused for a node that it does not have.
  EXPECT_EQ(failures(counts + "{recovery: elastic, at: [{time: 1 h, leaves: 1}]}\n"),
            (std::vector<double>{0, 0}));
}

// If a worker's node leaves, the server's host keeps its slow link.
TEST(Faults, AServersSlowLinkStaysWithFewerNodes) {
  const std::string job =
      "model: vgg11\nbatch: {per_gpu: 4}\ngpus: 16\ndataset: {time: 10 h}\nstrategies: "
      "[parameter_server: {consistency: async, placement: own-hosts}]\nstragglers: {slow_links: "
      "[{node: 2, speed: 5%}]}\nfaults: {at: [{time: 1 h, leaves: 1}]}\n";
  const RunWithFailures run = run_of(job);
  EXPECT_GE(run.finish_seconds, 10 * 3600 * 0.99);
}

// The job is without one worker of eight for a day, then without the node's link for a day: eight
// times the loss.
TEST(Faults, WorkersAndLinksComeBackByThemselves) {
  const std::string async = two_nodes +
                            "strategies: [parameter_server: {consistency: async, "
                            "placement: own-hosts}]\n";
  const RunWithFailures worker =
      run_of(async + "faults: {at: [{time: 1 d, worker: 9}], restart: 1 d}\n");
  EXPECT_EQ(worker.failures, 1);
  EXPECT_EQ(worker.interruptions, 0);
  EXPECT_DOUBLE_EQ(worker.mean_nodes, 2);
  const double of_one = worker.finish_seconds - 10 * 86400;
  const RunWithFailures link =
      run_of(async + "faults: {at: [{time: 1 d, link: 1}], link_outage: 1 d}\n");
  EXPECT_LT(link.mean_nodes, 2);
  EXPECT_NEAR(link.finish_seconds - 10 * 86400, 8 * of_one, 0.02 * 8 * of_one);
  EXPECT_EQ(run_of(two_nodes + "faults: {at: [{time: 1 d, worker: 9}]}\n").interruptions, 1);
}

// The speed with fewer nodes is simulated: with half of the workers the job does about half of the
// samples per second.
TEST(Faults, WhatIsLeftGoesOnAsFastAsItIsSimulated) {
  const std::string half = two_nodes +
                           "faults: {at: [{time: 1 d, node: 1}], repair: 2 d, detection: 0 s, "
                           "restart: 0 s, recovery: elastic}\ncheckpoint: {every: 1 h}\n";
  const RunWithFailures ddp = run_of(half);
  Scenario s = scenario_of("model: lenet5\ngpus: [8, 16]\n");
  const auto r = run_scenario(s).predictions;
  const double speed = r[0].samples_per_second / r[1].samples_per_second;
  EXPECT_LT(speed, 0.6);
  // In the two days with one node an hour takes as long as two. A node that returns waits for the next
  // checkpoint.
  EXPECT_NEAR(ddp.finish_seconds, 86400 * (10 + 2 * (1 - speed)), 3 * 3600);
  EXPECT_LT(ddp.mean_nodes, 2);
  EXPECT_EQ(ddp.waiting, 0);
}

// Four nodes hold two replicas of a model, each on two nodes. A lost node takes its replica with
// it, and the other replica continues with half of the samples per second; its step takes as long,
// because no replica is left with which to reduce gradients.
TEST(Faults, ALostNodeTakesItsReplicaWithIt) {
  const std::string job =
      "model: gpt\nmodel_parameters: {layers: 8, hidden: 512, heads: 8, sequence: 256, vocabulary: "
      "51200}\nprecision: amp-bf16\nbatch: {global: 64, micro: 4}\ngpus: 32\ndataset: {time: 10 "
      "d}\n"
      "parallel: {tensor: 8, pipeline: 2}\n";
  const RunWithFailures run =
      run_of(job +
             "faults: {recovery: elastic, at: [{time: 1 d, node: 1}], repair: 2 d, detection: 0 s, "
             "restart: 0 s}\ncheckpoint: {every: 1 h}\n");
  std::string half_job = job;
  half_job.replace(half_job.find("gpus: 32"), 8, "gpus: 16");
  half_job.replace(half_job.find("global: 64"), 10, "global: 32");
  const double whole = run_scenario(scenario_of(job)).predictions.at(0).samples_per_second;
  const double half = run_scenario(scenario_of(half_job)).predictions.at(0).samples_per_second;
  const double share = half / whole;
  EXPECT_NEAR(share, 0.5, 0.1);  // two replicas reduce gradients, one replica does not
  // The job runs for two days at that share of the speed.
  EXPECT_NEAR(run.finish_seconds, 86400 * (10 + 2 * (1 - share)), 3 * 3600);
  EXPECT_EQ(run.waiting, 0);
  // Without a whole replica the job stops.
  std::string one_replica = job;
  one_replica.replace(one_replica.find("pipeline: 2"), 11, "pipeline: 4");
  const RunWithFailures stopped =
      run_of(one_replica +
             "faults: {recovery: elastic, at: [{time: 1 d, node: 1}], repair: 2 d, detection: 0 s, "
             "restart: 0 s}\ncheckpoint: {every: 1 h}\n");
  EXPECT_NEAR(stopped.waiting, 2 * 86400, 60);
}

TEST(Faults, AsynchronousWorkersGoOnByThemselves) {
  const std::string fails = two_nodes + "faults: {at: [{time: 1 d, node: 1}], repair: 2 d}\n";
  const std::string async = "strategies: [parameter_server: {consistency: async, placement: ";
  const RunWithFailures ddp = run_of(fails);
  // two days minus the detection, which is booked elsewhere
  EXPECT_NEAR(ddp.waiting, 2 * 86400 - 60, 1);
  const RunWithFailures own = run_of(fails + async + "own-hosts}]\n");
  EXPECT_EQ(own.interruptions, 0);
  EXPECT_EQ(own.failures, 1);
  EXPECT_EQ(own.lost, 0);
  EXPECT_LT(own.finish_seconds, ddp.finish_seconds);
  const RunWithFailures with = run_of(fails + async + "worker-host, servers: 2}]\n");
  EXPECT_EQ(with.interruptions, 1);  // half of the weights is lost with the node's server
}

// A lost worker stops strategies that wait for all workers, even if they wait in a part of the run
// only.
TEST(Faults, WorkersThatKeepStepForAWhileRestart) {
  const auto interruptions = [](const std::string& rule) {
    return run_of(two_nodes + "faults: {at: [{time: 1 d, node: 1}], repair: 2 d}\n" +
                  "strategies: [parameter_server: {placement: own-hosts, " + rule + "}]\n")
        .interruptions;
  };
  for (const std::string rule :
       {"backup_workers: 8", "consistency: ssp", "consistency: softsync, splitting: 2",
        "consistency: modified-async", "consistency: elastic"}) {
    EXPECT_EQ(interruptions(rule), 0) << rule;
  }
  for (const std::string rule :
       {"servers: 1", "switch: {to: async, at: 25%}", "controller: {above: 1.5, below: 1.2}",
        "consistency: ssp, staleness_bound: 0"}) {
    EXPECT_EQ(interruptions(rule), 1) << rule;
  }
}

// With shard groups of two nodes, three of four nodes are as fast as two. With one backup worker a
// single worker makes no progress.
TEST(Faults, NodesThatAStrategyCannotUseStandIdle) {
  const std::string fails =
      "faults: {at: [{time: 1 d, node: 1}], repair: 2 d, detection: 0 s, restart: 0 s, "
      "recovery: elastic}\ncheckpoint: {every: 1 h}\ndataset: {time: 10 d}\n";
  const std::string groups =
      "model: lenet5\nstrategies: [fsdp: {sharding: hybrid_shard, shard_group: 16}]\n";
  const auto r = run_scenario(scenario_of(groups + "gpus: [16, 32]\n")).predictions;
  const double speed = r[0].samples_per_second / r[1].samples_per_second;
  EXPECT_NEAR(run_of(groups + "gpus: 32\n" + fails).finish_seconds, 86400 * (10 + 2 * (1 - speed)),
              3 * 3600);
  const RunWithFailures pair = run_of(
      "model: lenet5\nplatform: g5.xlarge\ngpus: 2\n"
      "strategies: [parameter_server: {backup_workers: 1}]\n" +
      fails);
  EXPECT_NEAR(pair.waiting, 2 * 86400, 1);
  EXPECT_NEAR(pair.finish_seconds, 12 * 86400, 3600);
  // The two workers that are left are no more than the backup workers, so no step completes.
  const RunWithFailures two = run_of(
      "model: lenet5\nplatform: g5.xlarge\ngpus: 8\ndataset: {time: 10 d}\n"
      "strategies: [parameter_server: {backup_workers: 2}]\ncheckpoint: {every: 1 h}\n"
      "faults: {at: [{time: 1 d, node: 1}, {time: 1 d, node: 2}, {time: 1 d, node: 3}, "
      "{time: 1 d, node: 4}, {time: 1 d, node: 5}, {time: 1 d, node: 6}], repair: 2 d, "
      "detection: 0 s, restart: 0 s, recovery: elastic}\n");
  EXPECT_NEAR(two.waiting, 2 * 86400, 1);
}

TEST(Faults, WhatNeverComesToItsEndSaysSo) {
  const RunWithFailures run = run_of(
      two_nodes + "faults: {mean_time_between_failures: {job: 1 min}, restart: 1 h, runs: 2}\n");
  EXPECT_EQ(run.unfinished, 2);
  EXPECT_EQ(run.goodput, 0);
}

}  // namespace
}  // namespace lockstep::faults_test
