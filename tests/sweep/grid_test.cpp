// Has a grid the right points in the right order, and are mistakes found before any simulation?
#include "sweep/grid.hpp"

#include <gmock/gmock.h>

#include <set>

#include "sweep_files.hpp"

namespace lockstep::grid_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class GridOf : public testing::Test {
 protected:
  Grid grid(const std::vector<std::string>& settings, const std::string& text = small_scenario) {
    return Grid(folder_.write("s.yaml", text), settings, files_);
  }
  std::string wrong(const std::vector<std::string>& settings,
                    const std::string& text = small_scenario) {
    return refusal([&] { grid(settings, text); });
  }
  // Each point as "label on GPUs, per-GPU batch".
  static std::vector<std::string> points(const Grid& grid) {
    std::vector<std::string> list;
    for (PointIndex i = 0; i < grid.size(); ++i) {
      const Scenario s = grid.scenario(i);
      EXPECT_EQ(s.strategies.size(), 1U);
      EXPECT_EQ(s.gpus.size(), 1U);
      list.push_back(s.strategies[0].label + " " + std::to_string(s.gpus[0]) + " " +
                     std::to_string(s.batch.per_gpu));
    }
    return list;
  }

  TestFolder folder_;
  InputFiles files_;
};

TEST_F(GridOf, EntriesAreOutermostAndGpuCountsInnermost) {
  EXPECT_THAT(points(grid({"batch.per_gpu=8,16"})),
              ElementsAre("ddp 1 8", "ddp 2 8", "ddp 1 16", "ddp 2 16", "sharded 1 8",
                          "sharded 2 8", "sharded 1 16", "sharded 2 16"));
  EXPECT_THAT(points(grid({"gpus=4,8", "batch.per_gpu=8,16", "strategies=ddp"})),
              ElementsAre("ddp 4 8", "ddp 4 16", "ddp 8 8", "ddp 8 16"));
  EXPECT_THAT(points(grid({})),
              ElementsAre("ddp 1 16", "ddp 2 16", "sharded 1 16", "sharded 2 16"));
}

TEST_F(GridOf, ASettingInsideAnEntryIsAnAxisOfThatEntryOnly) {
  const Grid by_name = grid({"gpus=2", "strategies.ddp.bucket_size=1MiB,2MiB,4MiB"});
  EXPECT_EQ(by_name.size(), 4U);
  const auto size_at = [&](PointIndex i) {
    return std::get<DdpOptions>(by_name.scenario(i).strategies[0].options).bucket_bytes;
  };
  EXPECT_EQ(size_at(0), 1 << 20);
  EXPECT_EQ(size_at(2), 4 << 20);
  EXPECT_EQ(by_name.set(2)[1].first, "strategies.ddp.bucket_size");
  EXPECT_EQ(*by_name.set(2)[1].second, "4MiB");
  EXPECT_EQ(by_name.set(3)[1].second, nullptr);  // FSDP's entry does not have the setting
  const Grid by_place = grid({"gpus=2", "strategies[1].precision=amp-bf16"});
  EXPECT_EQ(by_place.size(), 2U);
  EXPECT_EQ(by_place.scenario(1).strategies[0].precision, Precision::amp_bf16);
}

TEST_F(GridOf, StrategiesOfTheSettingTakeThePlaceOfTheFiles) {
  const Grid both =
      grid({"strategies=ddp,{fsdp: {sharding: no_shard}, label: replicas}", "gpus=1"});
  EXPECT_EQ(both.size(), 2U);
  EXPECT_EQ(both.scenario(1).strategies[0].label, "replicas");
  EXPECT_EQ(*both.set(1)[0].second, "{fsdp: {sharding: no_shard}, label: replicas}");
}

// The slow rank 3 of a scenario is ignored, not refused, at the point with one GPU.
TEST_F(GridOf, SlowRanksBeyondACountAreLeftOutAsInARun) {
  const std::string text =
      std::string(small_scenario) + "stragglers: {slow_ranks: [{rank: 3, factor: 2}]}\n";
  EXPECT_EQ(grid({"gpus=1,4"}, text).size(), 4U);
  EXPECT_THAT(wrong({"gpus=1,2"}, text), HasSubstr("there is no rank 3"));
}

TEST_F(GridOf, TheScenarioNeedNotSayWhatIsSet) {
  const std::string text = "name: x\nmodel: resnet18\nplatform: dgx-a100-80gb\n";
  EXPECT_EQ(points(grid({"batch.per_gpu=4", "strategies=ddp"}, text)),
            std::vector<std::string>{"ddp 1 4"});
  EXPECT_THAT(wrong({"batch.per_gpu=4"}, text), HasSubstr("strategies: missing"));
}

TEST_F(GridOf, WrongPathsAndValuesAreToldInTheSettingsText) {
  EXPECT_THAT(wrong({"gpus=1,x"}), HasSubstr("--set gpus=1,x:1:8: gpus[0]: 'x' is not a number"));
  EXPECT_THAT(wrong({"gups=1"}), AllOf(HasSubstr("--set gups=1:1:1: gups: unknown key"),
                                       HasSubstr("did you mean 'gpus'?")));
  EXPECT_THAT(wrong({"batch.per_gpu=8", "batch.globl=3"}),
              AllOf(HasSubstr("--set batch.globl=3:1:7: batch.globl: unknown key"),
                    HasSubstr("did you mean 'global'?")));
  EXPECT_THAT(wrong({"batch.global=3"}), HasSubstr("contradicts global"));
  EXPECT_THAT(wrong({"strategies.ddp.bucket_size=3"}), HasSubstr("'3' needs a unit"));
  EXPECT_THAT(wrong({"strategies.dp.bucket_size=3MiB"}),
              HasSubstr("no strategy is 'dp'; allowed: ddp, fsdp; did you mean 'ddp'?"));
  EXPECT_THAT(wrong({"strategies[2].ddp=3"}), HasSubstr("there is no strategy [2]; [0] to [1]"));
  EXPECT_THAT(wrong({"model=resnet18,resnet5O"}), HasSubstr("did you mean 'resnet50'?"));
  EXPECT_THAT(wrong({"platform=dgx"}), HasSubstr("unknown platform 'dgx'"));
  EXPECT_THAT(wrong({"gpus=[1,2],[3]"}), HasSubstr("not a list; write gpus=A,B"));
  EXPECT_THAT(wrong({"gpus=1", "gpus=2"}), HasSubstr("is set twice"));
  EXPECT_THAT(wrong({"measured=[]"}), HasSubstr("does not take part in the prediction"));
  const auto both = wrong({"precision=fp23", "batch.per_gpu=8,1.5"});  // both mistakes at once
  EXPECT_THAT(both, AllOf(HasSubstr("fp23"), HasSubstr("1.5")));
}

TEST_F(GridOf, MistakesOfTheFileAreToldInTheFile) {
  EXPECT_THAT(wrong({"gpus=1"}, std::string(small_scenario) + "sede: 5\n"),
              HasSubstr("s.yaml:11:1: sede: unknown key"));
}

TEST_F(GridOf, AGridOfManyFieldsIsNotWrittenOut) {
  const Grid many = grid({"simulation.seed=1..100000", "batch.per_gpu=1..1000", "gpus=1,2"});
  EXPECT_EQ(many.size(), 400'000'000U);
  const Scenario last = many.scenario(many.size() - 1);
  EXPECT_EQ(last.simulation.seed, 100000);
  EXPECT_EQ(last.batch.per_gpu, 1000);
  EXPECT_EQ(last.gpus[0], 2);
  EXPECT_THAT(wrong({"simulation.seed=1..1000000", "batch.per_gpu=1..1000000",
                     "simulation.steps=2..10000"}),
              HasSubstr("more points than can be numbered"));
}

TEST_F(GridOf, TheDigestTellsSweepsApart) {
  const std::string one = grid({"gpus=1"}).digest();
  EXPECT_EQ(one, grid({"gpus=1"}).digest());
  EXPECT_NE(one, grid({"gpus=2"}).digest());
  EXPECT_NE(one, grid({"gpus=1"}, std::string(small_scenario) + "precision: tf32\n").digest());
}

TEST(Sample, HasDifferentPointsInOrder) {
  const auto points = sample(1'000'000, 1000, 7);
  EXPECT_EQ(points.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end()));
  EXPECT_EQ(std::set<PointIndex>(points.begin(), points.end()).size(), 1000U);
  EXPECT_EQ(points, sample(1'000'000, 1000, 7));
  EXPECT_NE(points, sample(1'000'000, 1000, 8));
  EXPECT_NEAR(static_cast<double>(points[500]), 5e5, 5e4);  // three standard errors of the median
  EXPECT_THAT(sample(3, 10, 1), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace lockstep::grid_test
