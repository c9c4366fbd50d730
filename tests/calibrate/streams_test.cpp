// Are copies and updates timed, as often as requested, and in cold memory?
#include "probes/streams.hpp"

#include <gtest/gtest.h>

#include "core/statistics.hpp"
#include "probes/layers.hpp"

namespace lockstep::streams_test {
namespace {

StreamProbeOptions options_for(const std::vector<std::int64_t>& elements, std::size_t repetitions) {
  StreamProbeOptions options;
  options.elements = elements;
  options.enough = [=](const std::vector<double>& seconds) {
    return seconds.size() >= repetitions;
  };
  return options;
}

TEST(Streams, EverySizeHasItsCopiesAndUpdatesAsOftenAsAsked) {
  const StreamProbeResult result = probe_streams(options_for({4096, 1 << 20}, 3));
  for (const auto* points : {&result.copies, &result.updates}) {
    ASSERT_EQ(points->size(), 2u);
    EXPECT_EQ(points->at(0).elements, 4096);
    EXPECT_EQ(points->at(1).elements, 1 << 20);
    for (const StreamPoint& point : *points) {
      ASSERT_EQ(point.seconds.size(), 3u);
      for (const double seconds : point.seconds) EXPECT_GT(seconds, 0);
    }
  }
}

// 64 times the size takes at least ten times as long, for any cost of a call. A copy of 16 MiB at
// more than 200 GB/s would come from a cache, or not happen.
TEST(Streams, TakeAsLongAsTheirSize) {
  const StreamProbeResult result = probe_streams(options_for({1 << 16, 1 << 22}, 9));
  for (const auto* points : {&result.copies, &result.updates}) {
    EXPECT_GT(median(points->at(1).seconds), 10 * median(points->at(0).seconds));
  }
  EXPECT_LT(2 * 4.0 * (1 << 22) / median(result.copies.at(1).seconds), 200e9);
}

// SGD without momentum reads and writes the parameter; Adam also reads and writes two moments.
TEST(Streams, UpdatesAreThoseOfTheOptimizer) {
  StreamProbeOptions options = options_for({1 << 22}, 9);
  options.optimizer.name = OptimizerKind::sgd;
  options.optimizer.momentum = 0;
  const double plain = median(probe_streams(options).updates.front().seconds);
  options.optimizer.name = OptimizerKind::adam;
  EXPECT_GT(median(probe_streams(options).updates.front().seconds), 1.5 * plain);
}

TEST(Streams, ThatDoNotFitSayIt) {
  EXPECT_THROW(probe_streams(options_for({std::int64_t{1} << 50}, 1)), OutOfDeviceMemory);
}

}  // namespace
}  // namespace lockstep::streams_test
