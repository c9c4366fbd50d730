// How do measured kernels correct the law for a size between them? The expected ratios are worked
// out by hand.
#include "hardware/measured_kernels.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/errors.hpp"
#include "test_folder.hpp"

namespace lockstep {
namespace {

// The corrected ratio is a weighted mean: the law (ratio 1) weighs 0.3, a measured kernel at a
// distance of d octaves exp(-d).
TEST(MeasuredKernels, NearAMeasuredKernelItsRatioCountsAndFarAwayTheLaw) {
  const std::vector<MeasuredKernel> one{{{0, 10, 11, 12}, 0.2}};
  const double e = std::exp(-1.0);
  EXPECT_NEAR(log_ratio_at(one, {0, 10, 11, 12}), 0.2 / 1.3, 1e-12);
  EXPECT_NEAR(log_ratio_at(one, {0, 11, 11, 12}), 0.2 * e / (e + 0.3), 1e-12);
  EXPECT_EQ(log_ratio_at(one, {0, 10, 15, 12}), 0);
  EXPECT_EQ(log_ratio_at({}, {0, 10, 11, 12}), 0);
  const std::vector<MeasuredKernel> two{{{0, 10, 11, 12}, 0.2}, {{0, 10, 11, 13}, -0.1}};
  EXPECT_NEAR(log_ratio_at(two, {0, 10, 11, 12}), (0.2 - 0.1 * e) / (1.3 + e), 1e-12);
  // With growing distance the correction only decays.
  double last = 1;
  for (double away = 0; away < 4; away += 0.25) {
    const double ratio = log_ratio_at(one, {0, 10 + away, 11, 12});
    EXPECT_LT(ratio, last + 1e-15);
    EXPECT_GE(ratio, 0);
    last = ratio;
  }
}

TEST(MeasuredKernels, AFileHasThreeKindsOfKernels) {
  const MeasuredKernels kernels = read_measured_kernels(
      test_folder().write("good_kernels.csv",
                          "# "
                          "note\nhalf_product,1,8,1024,4096,-0.05\nplain_product,16,64,"
                          "64,64,0.1\nconvolution,32,64,128,56,0\n"));
  ASSERT_EQ(kernels.half_products.size(), 1u);
  ASSERT_EQ(kernels.plain_products.size(), 1u);
  ASSERT_EQ(kernels.convolutions.size(), 1u);
  EXPECT_THAT(kernels.half_products[0].log2_size, testing::ElementsAre(0, 3, 10, 12));
  EXPECT_EQ(kernels.half_products[0].log_ratio, -0.05);
}

TEST(MeasuredKernels, AMistakeIsLocated) {
  for (const char* line : {"product,1,2,3,4,0", "half_product,1,2,3,0", "half_product,1,2,3,4,x",
                           "half_product,1,2,0,4,0", "half_product,1,2,3,4,0,5"}) {
    const std::string path =
        test_folder().write("bad_kernels.csv", std::string("# note\n") + line + "\n");
    try {
      read_measured_kernels(path);
      ADD_FAILURE() << line;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::StartsWith(path + ":2:1: '" + line + "' is no measured"));
    }
  }
  EXPECT_THROW(read_measured_kernels("/nowhere.csv"), ConfigError);
}

}  // namespace
}  // namespace lockstep
