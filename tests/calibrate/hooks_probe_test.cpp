// Is the work of communication hooks timed stage by stage, on the buckets that DDP forms?
#include <gtest/gtest.h>

#include "probes/hooks.hpp"
#include "workload/model.hpp"

namespace lockstep::hooks_probe_test {
namespace {

std::vector<HookPoint> probed(const HookSettings& settings, std::size_t repetitions) {
  StepOptions one;
  one.samples = 1;
  one.image = {3, 32, 32};
  HookProbeOptions options;
  options.settings = settings;
  options.bucket_bytes = {25e6};
  options.enough = [=](const auto& samples) { return samples.size() >= repetitions; };
  return probe_hook(build_step(*load_model("resnet18"), one), options);
}

TEST(HookProbe, TimesEveryStageOfEveryBucket) {
  for (const HookSettings& settings :
       {HookSettings{.hook = CodedHook::top_k}, HookSettings{.hook = CodedHook::powersgd}}) {
    const std::vector<HookPoint> points = probed(settings, 2);
    ASSERT_GE(points.size(), 2u);
    double bytes = 0;
    for (const HookPoint& point : points) {
      EXPECT_GT(point.bytes, bytes);
      bytes = point.bytes;
      ASSERT_EQ(point.samples.size(), 2u);
      for (const StageSeconds& stages : point.samples) {
        ASSERT_EQ(stages.size(), stages_of(settings.hook));
        for (const double seconds : stages) EXPECT_GT(seconds, 0);
      }
    }
    EXPECT_GT(bytes, 20e6);
    EXPECT_GT(bytes, 2 * points.front().bytes);
    EXPECT_GT(points.back().samples[1][0], 1.3 * points.front().samples[1][0]);
  }
}

}  // namespace
}  // namespace lockstep::hooks_probe_test
