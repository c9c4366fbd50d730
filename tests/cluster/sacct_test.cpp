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

const std::string header = "JobID,JobName,Submit,Elapsed,AllocTRES,NNodes,Timelimit\n";

TEST(Sacct, ReadsJobsInTheOrderOfSubmission) {
  const auto jobs = read_sacct_text(
      header +
          "8,b,2024-03-01T12:01:00,1-00:00:10,\"billing=8,gres/gpu:a100=8,node=1\",1,2-00:00:00\n"
          "7,a,2024-03-01T12:00:00,10:30,\"cpu=4,gres/gpu=4,gres/gpu:a100=4\",1,UNLIMITED\n"
          "7.batch,batch,2024-03-01T12:00:00,10:30,,1,\n"
          "9,c,2024-03-01T12:02:00,00:00:00,,0,01:00:00\n"
          "10,d,2024-03-01T12:03:00,01:00:00,cpu=8,2,01:00:00\n",
      "jobs.csv");
  ASSERT_EQ(jobs.size(), 3U);
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
  EXPECT_EQ(jobs[2].gpus, 0);
  EXPECT_EQ(jobs[2].nodes, 2);
}

TEST(Sacct, ReadsParsableOutputAndRawColumns) {
  const auto jobs = read_sacct_text(
      "JobIDRaw|Submit|ElapsedRaw|ReqTRES|TimelimitRaw|\r\n5|1700000000|90|gres/gpu=2|10|\r\n",
      "jobs.csv");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].elapsed, 90);
  EXPECT_EQ(jobs[0].gpus, 2);
  EXPECT_EQ(jobs[0].limit, 600);
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
