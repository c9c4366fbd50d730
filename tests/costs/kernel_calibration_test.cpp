// Do the shipped device models still reproduce the public single-GPU measurements they were fitted
// to?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "fit/reference_rows.hpp"
#include "source_dir.hpp"

namespace lockstep {
namespace {

TEST(KernelCalibration, ShippedModelsMeetTheBarOnTheirCalibrationRows) {
  const ReferenceSet set =
      load_reference(LOCKSTEP_SOURCE_DIR "/calibrate/reference/single_gpu.yaml");
  ASSERT_EQ(set.rows.size(), 41u);
  std::vector<double> errors;
  for (const ReferenceRow& row : set.rows) {
    EXPECT_EQ(set.sources.count(row.source), 1u) << row.source;
    const ReferenceCase c = prepare(row);
    const double seconds = predict(c, c.machine, row.framework);
    errors.push_back(std::abs(seconds / row.step_seconds - 1));
    EXPECT_LT(errors.back(), 0.13) << row.label() << ": " << seconds << " s";
  }
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], 0.05);
}

TEST(KernelCalibration, DevicesSayWhetherTheyWereFittedOrDerived) {
  for (const std::string& name : known_devices()) {
    const Device device = load_device(name);
    if (device.architecture == Architecture::cpu) continue;
    EXPECT_EQ(device.sources.count("efficiency"), 1u) << name;
    EXPECT_GE(device.efficiency.relative_error, device.derived_from.empty() ? 0.05 : 0.10) << name;
  }
}

}  // namespace
}  // namespace lockstep
