// Are Slurm's own columns read as Slurm means them, and wrong rows refused at their place?
#include "cluster/sacct.hpp"

#include <gmock/gmock.h>

#include "core/errors.hpp"

namespace lockstep::sacct_test {
namespace {

using testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  try {
    read_sacct_text(text, "jobs.csv");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<TracedJob> jobs_of(const std::string& text) {
  return read_sacct_text(text, "jobs.csv").jobs;
}

const std::string header = "JobID,JobName,Submit,Elapsed,AllocTRES,NNodes,Timelimit\n";

TEST(Sacct, ReadsJobsInTheOrderOfSubmission) {
  const auto jobs = jobs_of(
      header +
      "8,b,2024-03-01T12:01:00,1-00:00:10,\"billing=8,gres/gpu:a100=8,node=1\",1,2-00:00:00\n"
      "7,a,2024-03-01T12:00:00,10:30,\"cpu=4,gres/gpu=4,gres/gpu:a100=4\",1,UNLIMITED\n"
      "7.batch,batch,2024-03-01T12:00:00,10:30,,1,\n"
      "9,c,2024-03-01T12:02:00,00:00:00,,0,01:00:00\n"
      "10,d,2024-03-01T12:03:00,01:00:00,cpu=8,2,01:00:00\n");
  ASSERT_EQ(jobs.size(), 2U);  // job 10 ran on CPUs only
  EXPECT_EQ(jobs[0].id, "7");
  EXPECT_EQ(jobs[0].name, "a");
  EXPECT_EQ(jobs[0].submit, 0);
  EXPECT_EQ(jobs[0].elapsed, 630);
  EXPECT_EQ(jobs[0].gpus, 4);
  EXPECT_EQ(jobs[0].limit, 0);
  EXPECT_EQ(jobs[1].submit, 60);
  EXPECT_EQ(jobs[1].elapsed, 86410);
  EXPECT_EQ(jobs[1].gpus, 8);
  EXPECT_EQ(jobs[1].limit, 2 * 86400);
}

TEST(Sacct, JobsOnCpusOccupyNoGpus) {
  const std::string on_cpus = "1,a,2024-03-01T12:00:00,10:00,\"billing=4,cpu=8,node=1\",1,\n";
  const std::string no_nodes = "2,a,2024-03-01T12:00:00,10:00,cpu=8,,\n";
  const std::string with_gpus = "3,a,2024-03-01T12:00:00,10:00,gres/gpu=8,1,\n";
  const auto jobs = jobs_of(header + on_cpus + no_nodes + with_gpus);
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, "3");
  // If no row names GPUs, each job occupies whole nodes.
  EXPECT_EQ(jobs_of(header + on_cpus).at(0).nodes, 1);
}

TEST(Sacct, ReadsParsableOutputAndRawColumns) {
  const auto jobs = jobs_of(
      "JobIDRaw|Submit|ElapsedRaw|ReqTRES|TimelimitRaw|\r\n5|1700000000|90|gres/gpu=2|10|\r\n");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].elapsed, 90);
  EXPECT_EQ(jobs[0].gpus, 2);
  EXPECT_EQ(jobs[0].limit, 600);
}

int gpus_of(const std::string& columns, const std::string& cells) {
  return jobs_of("JobID|Submit|ElapsedRaw|" + columns + "\n1|0|90|" + cells + "\n").at(0).gpus;
}

TEST(Sacct, GpusAreOfTheFirstColumnThatNamesThem) {
  EXPECT_EQ(gpus_of("AllocTRES|ReqTRES", "cpu=4,node=1|cpu=4,gres/gpu=2"), 2);
  EXPECT_EQ(gpus_of("ReqTRES|AllocTRES", "gres/gpu=2|gres/gpu=4"), 4);
  EXPECT_EQ(gpus_of("AllocTRES|NNodes", "gres/gpumem=81920M,gres/gpuutil=30|3"), 0);
  EXPECT_EQ(gpus_of("AllocTRES", "gres/gpumem=81920M,gres/gpu:a100=1,gres/gpu:h100=2"), 3);
  for (const char* two : {"gpu:2", "gres:gpu:2", "gpu:a100:2", "mps:100,gpu:a100:1,gpu:h100"}) {
    EXPECT_EQ(gpus_of("AllocGRES|NNodes", std::string(two) + "|3"), 2) << two;
  }
  EXPECT_EQ(gpus_of("ReqGRES|NNodes", "gpu:2|3"), 6);  // --gres counts GPUs of each node
  EXPECT_EQ(gpus_of("ReqGRES", "gpu"), 1);
}

TEST(Sacct, QuotesAreThoseOfCommasOnly) {
  const auto jobs =
      jobs_of("JobID|JobName|Submit|ElapsedRaw|NNodes\n1|12\" wheels|0|90|1\n2|\"b\"|0|90|1\n");
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].name, "12\" wheels");
  EXPECT_EQ(jobs[1].name, "\"b\"");
  EXPECT_EQ(
      jobs_of("\xEF\xBB\xBFJobID,JobName,Submit,ElapsedRaw,NNodes\n1,\"a, b\",0,90,1\n").at(0).name,
      "a, b");
}

TEST(Sacct, JobsThatAreLeftOutAreCountedByReason) {
  const std::string text =
      "JobID|Partition|State|Start|Submit|ElapsedRaw|AllocTRES\n"
      "1|gpu|COMPLETED|2024-03-01T12:00:00|0|90|gres/gpu=1\n"
      "2|gpu|RUNNING|2024-03-01T12:00:00|0|90|gres/gpu=1\n"
      "3|gpu|PENDING|Unknown|0|0|\n"
      "4|gpu|BOOT_FAIL|2024-03-01T12:00:00|0|90|gres/gpu=1\n"
      "5|gpu|CANCELLED by 0|None|0|90|gres/gpu=1\n"
      "6|gpu|FAILED|2024-03-01T12:00:00|0|90|cpu=1\n"
      "7|long|TIMEOUT|2024-03-01T12:00:00|0|90|gres/gpu=1\n"
      "7.batch|long|TIMEOUT|2024-03-01T12:00:00|0|90|\n";
  using Reasons = std::map<std::string, int>;
  const SacctTrace all = read_sacct_text(text, "jobs.csv");
  EXPECT_EQ(all.jobs.size(), 3U);
  EXPECT_EQ(all.running, 1);
  EXPECT_EQ(all.left_out, (Reasons{{"on CPUs", 1}, {"that never ran", 3}}));
  const SacctTrace gpu = read_sacct_text(text, "jobs.csv", "gpu");
  EXPECT_EQ(gpu.jobs.size(), 2U);
  EXPECT_EQ(gpu.left_out,
            (Reasons{{"in other partitions", 1}, {"on CPUs", 1}, {"that never ran", 3}}));
  const auto refusal = [](const std::string& of, const std::string& partition) -> std::string {
    try {
      read_sacct_text(of, "jobs.csv", partition);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(text, "gpus"),
            "jobs.csv: Partition: no job is of partition 'gpus'; allowed: gpu, long; did you mean "
            "'gpu'?");
  EXPECT_THAT(refusal(header, "gpu"), HasSubstr("jobs.csv:1:1: Partition: no such column"));
}

// A job without a start is left out; its other cells have no effect.
TEST(Sacct, WhatNeverRanIsLeftOut) {
  const auto jobs = jobs_of(header +
                            "1,a,Unknown,00:00:00,,soon,never\n"
                            "2,a,Unknown,,gres/gpu=many,,\n"
                            "3,a,2024-03-01T12:00:00,10:00,gres/gpu=1,1,\n");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, "3");
}

TEST(Sacct, ClocksAndNodesHaveRanges) {
  for (const char* wrong : {"25:61:00", "10:60", "1-24:00:00", "1-10:00", "1:1:1:1", "1.5:00",
                            ":10", "10:", "10", "-1:10", "1-:10:10"}) {
    EXPECT_THAT(refusal_of(header + "1,a,2024-03-01T12:00:00," + wrong + ",gres/gpu=1,1,\n"),
                HasSubstr(std::string("jobs.csv:2:1: Elapsed: '") + wrong + "'"));
  }
  for (const char* wrong : {"2024-03-01T24:00:00", "2024-03-01T12:60:00", "2024-03-01T12:00:60",
                            "2024-03-01T12:00000", "2024-03-01T1-1:1:11"}) {
    EXPECT_THAT(refusal_of(header + "1,a," + wrong + ",10:00,gres/gpu=1,1,\n"),
                HasSubstr(std::string("jobs.csv:2:1: Submit: '") + wrong + "'"));
  }
  EXPECT_THAT(refusal_of(header + "1,a,2024-03-01T12:00:00,10:00,,1.5,\n"),
              HasSubstr("jobs.csv:2:1: NNodes: '1.5' is none; allowed: a number of nodes"));
  EXPECT_EQ(refusal_of(header + "1,a,2024-03-01T23:59:59,100:59:59,,1,90:59\n"), "");
}

TEST(Sacct, EveryWrongRowIsNamedByItsLine) {
  const std::string what = refusal_of(header +
                                      "1,a,yesterday,10:00,gres/gpu=1,1,\n"
                                      "2,a,2024-03-01T12:00:00,-5,gres/gpu=1,1,\n"
                                      "3,a,2024-03-01T12:00:00,10:00,gres/gpu=many,1,\n"
                                      "4,a,2024-03-01T12:00:00,10:00\n"
                                      "5,a,2024-03-01T12:00:00,10:00,gres/gpu=1,1,soon\n"
                                      "6,a,2024-03-01T12:00:00,10:00,cpu=1,,\n"
                                      "7,a,2024-02-31T12:00:00,10:00,gres/gpu=1,1,\n"
                                      "8,a,21e9-02-03T12:00:00,10:00,gres/gpu=1,1,\n");
  for (const char* part :
       {"jobs.csv:2:1: Submit: 'yesterday'", "jobs.csv:3:1: Elapsed: '-5'",
        "jobs.csv:4:1: AllocTRES: 'gres/gpu=many'", "jobs.csv:5:1: has 4 cells",
        "jobs.csv:6:1: Timelimit: 'soon'", "jobs.csv:7:1: AllocTRES: names neither",
        "jobs.csv:8:1: Submit: '2024-02-31", "jobs.csv:9:1: Submit: '21e9-"}) {
    EXPECT_THAT(what, HasSubstr(part));
  }
}

TEST(Sacct, MissingColumnsAndEmptyFilesAreRefused) {
  EXPECT_THAT(refusal_of("JobID,Elapsed\n"), HasSubstr("jobs.csv:1:1: Submit: no such column"));
  EXPECT_THAT(refusal_of(""), HasSubstr("jobs.csv: is empty"));
  EXPECT_THAT(refusal_of(header), HasSubstr("jobs.csv: holds no job that ran"));
}

}  // namespace
}  // namespace lockstep::sacct_test
