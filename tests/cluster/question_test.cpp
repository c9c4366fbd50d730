// Does a cluster scenario get its speeds from the simulator, and are wrong ones refused at their
// place?
#include "cluster/question.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "costs/collective.hpp"
#include "costs/collective_links.hpp"
#include "hardware/machine.hpp"
#include "questions/run.hpp"
#include "test_folder.hpp"

namespace lockstep::question_test {
namespace {

using testing::HasSubstr;

std::string file_text(const std::string& jobs, const std::string& more = "") {
  return "name: test\n"
         "cluster: {platform: a100-sxm4-80gb-x4, nodes: 2}\n"
         "workloads:\n"
         "  small: {training: {model: resnet18, batch: {per_gpu: 16}, strategies: [ddp],"
         " simulation: {steps: 8}}}\n"
         "  async: {training: {model: resnet18, batch: {per_gpu: 16}, simulation: {steps: 8},"
         " strategies: [{parameter_server: {consistency: async}}]}, elastic: {least: 1}}\n" +
         jobs + more;
}

ClusterAnswer answer_to(const std::string& text) {
  return answer_cluster(read_cluster_text(text, "c.yaml"));
}

std::string refusal_of(const std::string& text) {
  try {
    answer_to(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Cluster, SpeedsAreThoseOfASimulatedRun) {
  const auto answer = answer_to(file_text("jobs: [{workload: small, gpus: 4, samples: 1M}]\n"));
  const Scenario scenario = read_scenario_text(
      "name: one\nplatform: a100-sxm4-80gb-x4\nmodel: resnet18\nbatch: {per_gpu: 16}\n"
      "strategies: [ddp]\ngpus: 4\nsimulation: {steps: 8}\n",
      "s.yaml");
  const double rate = run_scenario(scenario).predictions.at(0).samples_per_second;
  ASSERT_GT(rate, 0);
  EXPECT_NEAR(answer.outcomes[0].jobs[0].ended, 1e6 / rate, 1e-9 * 1e6 / rate);
}

// An anchor scales all speeds of its workload, on every GPU count.
TEST(Cluster, AnAnchorSetsTheSpeeds) {
  const auto with_anchor = [](const std::string& anchor) {
    std::string text = file_text("jobs: [{workload: small, gpus: 4, samples: 1M}]\n");
    text.replace(text.find("strategies: [ddp]"), 17, "strategies: [ddp]" + anchor);
    return answer_to(text);
  };
  const auto rate = [](const ClusterAnswer& answer) {
    return answer.question.kinds.at(1).rates.at(4);
  };
  const auto plain = with_anchor("");
  const auto anchored = with_anchor(", anchor: [{gpus: 1, step_time: 100 ms}]");
  const Scenario scenario = read_scenario_text(
      "name: one\nplatform: a100-sxm4-80gb-x4\nmodel: resnet18\nbatch: {per_gpu: 16}\n"
      "strategies: [ddp]\ngpus: 4\nsimulation: {steps: 8}\n"
      "anchor: [{gpus: 1, step_time: 100 ms}]\n",
      "s.yaml");
  const double expected = run_scenario(scenario).predictions.at(0).samples_per_second;
  EXPECT_LT(expected, 640);  // four GPUs that train 160 samples a second each
  EXPECT_NEAR(rate(anchored), expected, 1e-9 * expected);
  EXPECT_GT(rate(plain), 2 * expected);
  EXPECT_EQ(anchored.question.kinds[1].rates.size(), 1U);
  EXPECT_NEAR(anchored.outcomes[0].jobs[0].ended, 1e6 / rate(anchored), 1);
  EXPECT_THAT(plain.question.warnings, testing::IsEmpty());
  EXPECT_THAT(cluster_text(anchored), HasSubstr("\nsmall: ddp is anchored: device time x"));
  EXPECT_THAT(nlohmann::json::parse(cluster_json(anchored))["warnings"].dump(),
              HasSubstr("is anchored"));
  // A total time as anchor needs the length of the measured run.
  EXPECT_EQ(rate(with_anchor(", dataset: {samples: 16}, anchor: [{gpus: 1, total_time: 100 ms}]")),
            rate(anchored));
}

TEST(Cluster, DurationsAreOnTheGpusAskedFor) {
  for (const auto& o : answer_to(file_text("jobs:\n"
                                           "  - {workload: async, gpus: 8, duration: 1 h}\n"))
                           .outcomes) {
    EXPECT_NEAR(o.jobs[0].ended, 3600, 1e-6) << enum_name(o.policy);
    EXPECT_NEAR(o.utilisation, 1, 1e-9);
  }
}

TEST(Cluster, ElasticJobsDoNotWaitForTheirWholeGang) {
  const auto answer =
      answer_to(file_text("jobs:\n"
                          "  - {workload: small, gpus: 6, duration: 1 h}\n"
                          "  - {workload: async, gpus: 4, duration: 1 h, submit: 1 min}\n"));
  ASSERT_EQ(answer.outcomes.size(), 4U);
  EXPECT_NEAR(answer.outcomes[0].jobs[0].ended, 3600, 1e-6);
  EXPECT_EQ(answer.outcomes[0].jobs[1].started, answer.outcomes[0].jobs[0].ended);
  EXPECT_EQ(answer.outcomes[3].jobs[1].started, 60);
  EXPECT_GT(answer.outcomes[3].jobs[1].resizes, 0);
  EXPECT_LT(answer.outcomes[3].jobs[1].ended, answer.outcomes[0].jobs[1].ended);
}

TEST(Cluster, GeneratedJobsAreTheSameEachTimeAndOthersWithAnotherSeed) {
  const auto text = [](int seed) {
    return file_text("generated: {count: 50, per_hour: 20, seed: " + std::to_string(seed) +
                     ", mix: [{workload: small, gpus: [1, 2, 4], duration: {exponential: {mean: "
                     "10 min}}}, {workload: async, duration: {lognormal: {median: 5 min}}}]}\n");
  };
  EXPECT_EQ(cluster_csv(answer_to(text(1))), cluster_csv(answer_to(text(1))));
  EXPECT_NE(cluster_csv(answer_to(text(1))), cluster_csv(answer_to(text(2))));
}

TEST(Cluster, JsonAndTextTellTheSame) {
  const auto answer = answer_to(file_text("jobs: [{workload: small, gpus: 4, duration: 90 s}]\n"));
  const auto json = nlohmann::json::parse(cluster_json(answer));
  ASSERT_EQ(json["policies"].size(), 4U);
  EXPECT_EQ(json["policies"][0]["policy"], "fifo");
  EXPECT_NEAR(json["policies"][0]["makespan_s"], 90, 1e-9);
  EXPECT_THAT(cluster_text(answer), HasSubstr("1.5 min"));
  EXPECT_THAT(cluster_csv(answer), HasSubstr("fifo,1,small,4,0,0,90,0,360,0,0,0,0,0\n"));
}

TEST(Cluster, NoJobAsksForMoreThanItsWorkloadCanUse) {
  const auto with_most = [](const std::string& jobs) {
    std::string text = file_text(jobs);
    text.replace(text.find("{least: 1}"), 10, "{least: 1, most: 2}");
    return refusal_of(text);
  };
  EXPECT_EQ(with_most("jobs: [{workload: async, gpus: 2, duration: 1 h}]\n"), "");
  EXPECT_THAT(with_most("jobs: [{workload: async, gpus: 4, duration: 1 h}]\n"),
              HasSubstr("c.yaml:6:32: jobs[0].gpus: asks for 4 GPUs, but its workload can use 2; "
                        "`most: 4` in workloads.async.elastic, or fewer"));
  EXPECT_THAT(with_most("generated: {count: 1, per_hour: 1, mix: [{workload: async, gpus: [1, 4], "
                        "duration: {fixed: {seconds: 1 s}}}]}\n"),
              HasSubstr("generated.mix[0].gpus: asks for 4 GPUs, but its workload can use 2"));
}

const char* const two_jobs =
    "jobs:\n"
    "  - {workload: small, gpus: 8, duration: 2 h}\n"
    "  - {workload: small, gpus: 8, duration: 10 min, submit: 1 h}\n";

// The second job has its first turn when the first job has used its slice.
TEST(Cluster, ALateJobHasATurnUnderTimeSlicing) {
  const auto answer = answer_to(
      file_text(two_jobs, "policies: [fifo, time_slicing]\ntime_slicing: {slice: 2 min}\n"));
  const double stop = answer.question.jobs[1].switching;
  EXPECT_NEAR(answer.outcomes[0].jobs[1].started, 7200, 1e-6);
  EXPECT_EQ(answer.outcomes[1].jobs[1].started, 3600);
  EXPECT_NEAR(answer.outcomes[1].jobs[1].ended, 3600 + 9 * (120 + stop), 1e-6);
  EXPECT_NEAR(answer.outcomes[1].makespan, 7800 + 10 * stop, 1e-6);
  EXPECT_EQ(answer.outcomes[1].evictions, 9);
  const std::string text = cluster_text(answer);
  EXPECT_THAT(text, HasSubstr("switch  migration\n"));
  EXPECT_THAT(text, Not(HasSubstr("migrations")));
}

// A stop for a switch moves the state (parameters; SGD keeps no more) out and in over a GPU's link.
// A migration also moves it over the NIC.
TEST(Cluster, StopsFollowFromTheStateAndTheLinks) {
  const auto jobs = [](const std::string& stops) {
    std::string text = file_text(two_jobs, "policies: [time_slicing, migration]\n");
    text.replace(text.find("]},", text.find("async:")), 3, "]}," + stops);
    text.replace(text.rfind("small"), 5, "async");
    return answer_to(text);
  };
  const auto derived = jobs("");
  const Machine machine = load_machine("a100-sxm4-80gb-x4");
  constexpr double bytes = 11'689'512 * 4.0 + 9'600 * 4.0 + 20 * 8.0;
  const double link = host_device_copy(machine, bytes).bytes_per_second;
  const ClusterJob& job = derived.question.jobs[0];
  EXPECT_NEAR(job.switching, 2 * bytes / link, 1e-3 * job.switching + 2e-5);
  const double network = nic_payload_rate(machine) * machine.fabric.nics_per_node;
  EXPECT_NEAR(job.migration - job.switching, bytes / network, 1e-3 * job.migration);
  const auto json = nlohmann::json::parse(cluster_json(derived));
  EXPECT_EQ(json["workloads"]["small"]["switch_s"]["8"], job.switching);
  EXPECT_EQ(json["workloads"]["small"]["migration_s"]["8"], job.migration);
  const auto given = jobs(" switch: 100 ms, migration: 7 s,").question.jobs;
  EXPECT_EQ(given[1].switching, 0.1);
  EXPECT_EQ(given[1].migration, 7);
  EXPECT_EQ(given[0].switching, job.switching);
}

class Refused : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(Refused, AtItsPlace) {
  EXPECT_THAT(refusal_of(file_text(GetParam().first)), HasSubstr(GetParam().second));
}
INSTANTIATE_TEST_SUITE_P(
    , Refused,
    testing::Values(
        std::pair("jobs: [{workload: smal, duration: 1 h}]\n",
                  "c.yaml:6:19: jobs[0].workload: no workload is called 'smal'; allowed: async, "
                  "small; did you mean 'small'?"),
        std::pair("jobs: [{workload: small, gpus: 9, duration: 1 h}]\n",
                  "c.yaml:6:32: jobs[0].gpus: 9 GPUs can never start; the cluster has 2 nodes x 4"),
        std::pair("jobs: [{workload: small}]\n", "c.yaml:6:8: jobs[0]: has no length"),
        std::pair("jobs: [{workload: small, duration: -1 h}]\n", "jobs[0].duration: '-1 h' is out"),
        std::pair("", "has no jobs; give one of jobs, trace, generated"),
        std::pair("generated: {count: 5, per_hour: -2, mix: [{workload: small, duration: {fixed: "
                  "{seconds: 1 s}}}]}\n",
                  "generated.per_hour: '-2' is out of range"),
        std::pair("generated: {count: 5, per_hour: 2, mix: [{workload: small, gpus: [1, 16], "
                  "duration: {fixed: {seconds: 1 s}}}]}\n",
                  "generated.mix[0].gpus: 16 GPUs can never start"),
        std::pair("trace: {file: nowhere.csv}\n", "trace.file: 'nowhere.csv' is no file"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\npolicies: [fifo, sjf]\n",
                  "c.yaml:7:18: policies[1]: unknown value 'sjf'; allowed: fifo, backfill"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\npolicies: [fifo, fifo]\n",
                  "policies: names one twice"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\npolicies: [fifo, elastic]\n"
                  "preemption: {after: 2 h}\n",
                  "c.yaml:8:13: preemption: has no effect without the policy of this name; add "
                  "preemption to `policies`"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\npolicies: [time_slices]\n",
                  "policies[0]: unknown value 'time_slices'; allowed: fifo, backfill, preemption, "
                  "elastic, time_slicing, migration; did you mean 'time_slicing'?"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\ntime_slicing: {slice: 1 min}\n",
                  "c.yaml:7:15: time_slicing: has no effect without the policy of this name; add "
                  "time_slicing to `policies`"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\npolicies: [time_slicing]\n"
                  "time_slicing: {slices: 1 min}\n",
                  "c.yaml:8:16: time_slicing.slices: unknown key; allowed: slice"),
        std::pair("jobs: [{workload: small, duration: 1 h}]\npolicies: [time_slicing]\n"
                  "time_slicing: {slice: 1 ms}\n",
                  "time_slicing.slice: '1 ms' is out of range"),
        std::pair("jobs: [{workload: small, duration: 1000 d}]\npolicies: [time_slicing]\n"
                  "time_slicing: {slice: 2 s}\n",
                  "c.yaml:8:15: time_slicing.slice: makes 4e+07 turns of these jobs; at least "
                  "8.64 s"),
        std::pair("strategies: [ddp]\njobs: [{workload: small, duration: 1 h}]\n",
                  "strategies: unknown key")));

std::string with_training(const std::string& training) {
  return "name: t\ncluster: {platform: a100-sxm4-80gb-x4, nodes: 2}\nworkloads:\n  w:\n"
         "    training: " +
         training + "\njobs: [{workload: w, duration: 1 h}]\n";
}

TEST(Refusals, AreLocatedInTheTraining) {
  EXPECT_THAT(refusal_of(with_training("{model: vgg61, batch: {per_gpu: 1}, strategies: [ddp]}")),
              testing::AllOf(HasSubstr("c.yaml:5:23: "), HasSubstr("vgg61")));
  EXPECT_THAT(refusal_of(with_training("{model: vgg16, batch: {per_gpu: 1}, strategies: [dpd]}")),
              HasSubstr("workloads.w.training.strategies[0]"));
  EXPECT_THAT(refusal_of(with_training("{model: vgg16, batch: {per_gpu: 1}, gpus: 4, "
                                       "strategies: [ddp]}")),
              HasSubstr("workloads.w.training.gpus: is not this training's to say"));
  EXPECT_THAT(
      refusal_of(with_training("{model: vgg16, batch: {per_gpu: 1}, strategies: [ddp, fsdp]}")),
      HasSubstr("a job trains with one strategy"));
  EXPECT_THAT(refusal_of(with_training("{model: vgg16, batch: {per_gpu: 100000}, "
                                       "strategies: [ddp]}")),
              HasSubstr("does not fit into the memory of 1 GPU"));
  std::string groups = with_training(
      "{model: resnet18, batch: {per_gpu: 8}, strategies: [{fsdp: {sharding: hybrid_shard, "
      "shard_group: 3}}]}");
  groups.replace(groups.find("1 h"), 3, "1 h, gpus: 4");
  EXPECT_THAT(refusal_of(groups),
              HasSubstr("c.yaml:5:67: workloads.w.training.fsdp.shard_group: fsdp on 4 GPUs: "));
  EXPECT_THAT(refusal_of(with_training("7")), HasSubstr("training: must be a map"));
}

TEST(Refusals, OfWhatATrainingCannotHaveInACluster) {
  const std::string training = "{model: resnet18, batch: {per_gpu: 16}, strategies: [ddp], ";
  EXPECT_THAT(refusal_of(with_training(
                  training + "dataset: {time: 30 d}, faults: {mean_time_between_failures: {node: "
                             "30 d}}, checkpoint: {bandwidth: 1 GB/s}}")),
              testing::AllOf(HasSubstr("workloads.w.training.faults: has no effect in a cluster"),
                             HasSubstr("workloads.w.training.checkpoint: has no effect"),
                             HasSubstr("workloads.w.training.dataset: has no effect in a cluster; "
                                       "lengths are `duration` or `samples` of the jobs")));
  EXPECT_THAT(refusal_of(with_training(training + "convergence: {}}")),
              HasSubstr("workloads.w.training.convergence: has no effect"));
}

TEST(Refusals, OfABatchNameTheGpusThatAJobAsksFor) {
  const auto with_global = [](const std::string& gpus, const std::string& elastic) {
    return "name: t\ncluster: {platform: a100-sxm4-80gb-x4, nodes: 2}\nworkloads:\n  w:\n"
           "    training: {model: resnet18, batch: {global: 64}, strategies: [ddp]}\n" +
           elastic + "jobs: [{workload: w, duration: 1 h, gpus: " + gpus + "}]\n";
  };
  EXPECT_EQ(refusal_of(with_global("4", "    elastic: {least: 1}\n")), "");
  EXPECT_THAT(refusal_of(with_global("3", "")),
              HasSubstr("c.yaml:5:40: workloads.w.training.batch: global batch 64 does not divide "
                        "among 3 GPUs; a job asks for 3 GPUs; `per_gpu` goes with every number"));
  EXPECT_THAT(refusal_of(with_global("6", "    elastic: {least: 3}\n")),
              HasSubstr("a job may get 3 GPUs"));
}

TEST(Refusals, OfMoreNodesThanThePlatformHasAreLocated) {
  std::string text = file_text("jobs: [{workload: small, duration: 1 h}]\n");
  text.replace(text.find("nodes: 2"), 8, "nodes: 17");
  EXPECT_THAT(refusal_of(text),
              HasSubstr("c.yaml:2:47: cluster.nodes: 17 nodes, but a100-sxm4-80gb-x4 has at most "
                        "16; a larger platform, or a file of your own with `base: "
                        "a100-sxm4-80gb-x4` and `max_nodes: 17`"));
}

TEST(Refusals, AreOfWorkloadsThatNoJobUses) {
  std::string text = file_text("jobs: [{workload: async, duration: 1 h}]\n");
  text.replace(text.find("resnet18"), 8, "resnet81");
  EXPECT_THAT(refusal_of(text), testing::AllOf(HasSubstr("c.yaml:4:29: "), HasSubstr("resnet81")));
}

TEST(Refusals, OfAnUnknownPlatformAreLocated) {
  std::string text = file_text("jobs: [{workload: small, duration: 1 h}]\n");
  text.replace(text.find("sxm4"), 4, "sxm9");
  EXPECT_THAT(refusal_of(text), HasSubstr("c.yaml:2:21: cluster.platform: "));
}

TEST(Refusals, OfTheOtherKindOfScenarioNameTheVerb) {
  EXPECT_THAT(refusal_of("name: x\nmodel: vgg16\nstrategies: [ddp]\n"),
              HasSubstr("c.yaml:3:1: strategies: belongs to a scenario of one training; `lockstep "
                        "run`"));
  try {
    read_scenario_text(file_text(""), "c.yaml");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("c.yaml:2:1: cluster: belongs to a scenario of a cluster; `lockstep "
                          "cluster`"));
  }
}

TEST(Trace, NamesItsWorkloadsByJobName) {
  test_folder().write("jobs.csv",
                      "JobID,JobName,Submit,Elapsed,AllocTRES\n"
                      "1,async,2024-03-01T12:00:00,10:00,gres/gpu=2\n"
                      "2,other,2024-03-01T12:05:00,20:00,gres/gpu=4\n"
                      "3,other,2024-03-01T12:06:00,20:00,gres/gpu=4\n");
  const auto file = [&](const char* trace) {
    return read_cluster_text(file_text(trace), test_folder().file("c.yaml"));
  };
  try {
    cluster_question(file("trace: {file: jobs.csv}\n"));
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("jobs.csv:3:1: JobName: no workload is called 'other'"));
    EXPECT_THAT(error.what(), HasSubstr("jobs.csv:4:1: JobName: no workload is called 'other'"));
  }
  test_folder().write("jobs.csv",
                      "JobID,JobName,Submit,Elapsed,AllocTRES\n"
                      "1,async,2024-03-01T12:00:00,10:00,gres/gpu=2\n"
                      "2,other,2024-03-01T12:05:00,20:00,gres/gpu=4\n");
  const auto question = cluster_question(file("trace: {file: jobs.csv, workload: small}\n"));
  ASSERT_EQ(question.jobs.size(), 2U);
  EXPECT_EQ(question.kinds[question.jobs[0].kind].name, "async");
  EXPECT_EQ(question.kinds[question.jobs[1].kind].name, "small");
  EXPECT_EQ(question.jobs[1].submit, 300);
  EXPECT_THAT(question.warnings, testing::Not(testing::Contains(HasSubstr("trace:"))));
}

TEST(Trace, JobsLeftOutAreTold) {
  test_folder().write("jobs.csv",
                      "JobID,Partition,State,Submit,Elapsed,AllocTRES\n"
                      "1,gpu,COMPLETED,2024-03-01T12:00:00,10:00,gres/gpu=2\n"
                      "2,gpu,RUNNING,2024-03-01T12:05:00,20:00,gres/gpu=4\n"
                      "3,gpu,COMPLETED,2024-03-01T12:06:00,20:00,gres/gpu=40\n"
                      "4,gpu,PENDING,2024-03-01T12:06:00,00:00,gres/gpu=4\n"
                      "5,gpu,PENDING,2024-03-01T12:06:00,00:00,gres/gpu=4\n"
                      "6,cpu,COMPLETED,2024-03-01T12:06:00,20:00,gres/gpu=4\n");
  const auto ask = [](const char* trace) {
    return cluster_question(read_cluster_text(file_text(trace), test_folder().file("c.yaml")));
  };
  const auto question = ask("trace: {file: jobs.csv, workload: small, partition: gpu}\n");
  EXPECT_EQ(question.jobs.size(), 2U);
  for (const char* note :
       {"trace: 1 job larger than the cluster left out", "trace: 2 jobs that never ran left out",
        "trace: 1 job in other partitions left out",
        "trace: 1 job had not ended: the time so far is the length"}) {
    EXPECT_THAT(question.warnings, testing::Contains(note));
  }
  test_folder().write("jobs.csv",
                      "JobID,Submit,Elapsed,AllocTRES\n"
                      "1,2024-03-01T12:00:00,10:00,gres/gpu=40\n");
  try {
    ask("trace: {file: jobs.csv, workload: small}\n");
    ADD_FAILURE();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("trace.file: has no job of at most 8 GPUs"));
  }
}

// As docs/cluster.md says, the urgent job ends at half past three with preemption, before nine with
// elastic jobs, and after two in the afternoon with backfill.
TEST(Cluster, AnUrgentJobIsOverSoonestWhereOthersLeave) {
  const auto shipped = shipped_clusters();
  const auto file = std::find_if(shipped.begin(), shipped.end(), [](const std::string& path) {
    return path.ends_with("an_urgent_job.yaml");
  });
  ASSERT_NE(file, shipped.end());
  const auto answer = answer_cluster(read_cluster(*file));
  const auto& jobs = answer.question.jobs;
  const auto urgent = std::find_if(jobs.begin(), jobs.end(),
                                   [](const ClusterJob& job) { return job.name == "urgent"; });
  ASSERT_NE(urgent, jobs.end());
  const auto hour = [&](Policy policy) {  // the outcomes are in the order of the policies
    const PolicyOutcome& outcome = answer.outcomes.at(static_cast<std::size_t>(policy));
    return 18 + outcome.jobs.at(static_cast<std::size_t>(urgent - jobs.begin())).ended / 3600;
  };
  EXPECT_NEAR(hour(Policy::preemption), 24 + 3.5, 0.25);
  EXPECT_NEAR(hour(Policy::elastic), 24 + 8.6, 0.4);
  EXPECT_GT(hour(Policy::backfill), 24 + 14);
  EXPECT_EQ(hour(Policy::fifo), hour(Policy::backfill));
}

class ShippedCluster : public testing::TestWithParam<std::string> {};
TEST_P(ShippedCluster, IsAnsweredUnderEveryPolicy) {
  const auto answer = answer_cluster(read_cluster(GetParam()));
  EXPECT_FALSE(answer.outcomes.empty());
  for (const PolicyOutcome& o : answer.outcomes) {
    SCOPED_TRACE(enum_name(o.policy));
    EXPECT_GT(o.utilisation, 0);
    EXPECT_LE(o.utilisation, 1 + 1e-9);
    EXPECT_GE(o.fragmentation, 0);
    EXPECT_LE(o.fragmentation, 1 - o.utilisation + 1e-9);
    const std::vector<ClusterJob>& jobs = answer.question.jobs;
    ASSERT_EQ(o.jobs.size(), jobs.size());
    double queueing = 0, completion = 0;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      EXPECT_GE(o.jobs[i].started, jobs[i].submit);
      EXPECT_GT(o.jobs[i].ended, o.jobs[i].started);
      queueing += o.jobs[i].started - jobs[i].submit;
      completion += o.jobs[i].ended - jobs[i].submit;
    }
    EXPECT_NEAR(o.queueing.mean * static_cast<double>(jobs.size()), queueing, 1e-9 * completion);
    EXPECT_NEAR(o.completion.mean * static_cast<double>(jobs.size()), completion,
                1e-9 * completion);
  }
}
INSTANTIATE_TEST_SUITE_P(, ShippedCluster, testing::ValuesIn(shipped_clusters()),
                         [](const auto& file) {
                           return std::filesystem::path(file.param).stem().string();
                         });

}  // namespace
}  // namespace lockstep::question_test
