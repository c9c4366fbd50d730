// Do the shipped device models still reproduce the public single-GPU measurements they were fitted
// to?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "costs/kernel_model.hpp"
#include "fit/kernel_rows.hpp"
#include "fit/reference_rows.hpp"
#include "source_dir.hpp"

namespace lockstep::kernel_calibration_test {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.at(values.size() / 2);
}

// By the source of the rows: the largest error, and the median one.
struct Bar {
  double worst, median;
};
// Runs of networks on known machines are held closely, batches of 12 on unknown hosts loosely (the
// host is not known, so only what the device bounds is compared).
const std::map<std::string, Bar> step_bars{{"timm", {0.10, 0.05}},
                                           {"lambda", {0.10, 0.05}},
                                           {"llm-foundry", {0.08, 0.05}},
                                           {"vtrain", {0.13, 0.05}},
                                           {"pycls", {0.16, 0.06}},
                                           {"nvidia", {0.10, 0.08}},
                                           {"paddle", {0.05, 0.05}},
                                           {"pytorch-ddp", {0.06, 0.04}},
                                           {"torchvision-batch-12", {0.70, 0.25}}};

TEST(KernelCalibration, ShippedModelsMeetTheBarOnTheirCalibrationRows) {
  const ReferenceSet set =
      load_reference(LOCKSTEP_SOURCE_DIR "/calibrate/reference/single_gpu.yaml");
  ASSERT_EQ(set.rows.size(), 141u);
  std::map<std::string, std::vector<double>> errors;
  for (const ReferenceRow& row : set.rows) {
    ASSERT_EQ(set.sources.count(row.source), 1u) << row.source;
    ASSERT_EQ(step_bars.count(row.source), 1u) << row.source;
    const ReferenceCase c = prepare(row);
    const double seconds = predict(c, c.machine, row.framework);
    errors[row.source].push_back(std::abs(seconds / row.step_seconds - 1));
    EXPECT_LT(errors[row.source].back(), step_bars.at(row.source).worst)
        << row.source << " " << row.label() << ": " << seconds << " s";
  }
  for (const auto& [source, list] : errors)
    EXPECT_LT(median_of(list), step_bars.at(source).median) << source;
}

// "product alone" of lockstep-fit.
const std::map<std::string, double> alone_over_training{{"a100-sxm4-80gb", 0.95},
                                                        {"h100-sxm5-80gb", 1.18}};

// A fifth of the shapes was held out of the fit; these are what counts.
TEST(KernelCalibration, HeldOutKernelsMeetTheBarByKindAndDevice) {
  std::map<std::string, std::vector<double>> errors, products;
  for (const KernelRow& row :
       load_kernel_rows(LOCKSTEP_SOURCE_DIR "/calibrate/reference/kernels")) {
    if (!row.held_out || row.kind.find("product") != 0) continue;
    Device device = load_device(row.device);
    device.measured = nullptr;  // the law alone
    // What a product alone on small numbers gains over training is no part of the device.
    const auto alone = alone_over_training.find(row.device);
    if (row.kind == "product fp16" && alone != alone_over_training.end())
      device.efficiency.matmul *= alone->second;
    double seconds = kernel_time(row.kernel, device, {}, row.element_bytes).total;
    if (row.with_gap) seconds += 12e-6;  // one launch between two events
    const double error = std::abs(std::log(seconds / row.seconds));
    errors[row.kind + " " + row.device].push_back(error);
    products[row.kind].push_back(error);
  }
  ASSERT_EQ(errors.size(), 9u);
  for (const auto& [group, list] : errors) EXPECT_LT(median_of(list), 0.12) << group;
  EXPECT_LT(median_of(products["product fp16"]), 0.08);
  EXPECT_LT(median_of(products["product fp32"]), 0.10);
}

// The shipped ratios are those of the shipped law: with them measured shapes come out closer.
TEST(KernelCalibration, MeasuredKernelsAreMetByTheShippedDevices) {
  std::map<std::string, std::vector<double>> by_law, corrected;
  std::map<std::string, Device> devices;
  for (const KernelRow& row :
       load_kernel_rows(LOCKSTEP_SOURCE_DIR "/calibrate/reference/kernels")) {
    if (row.kind.find("product") != 0) continue;
    if (devices.count(row.device) == 0) devices[row.device] = load_device(row.device);
    Device device = devices[row.device];
    if (!device.measured) continue;
    const auto alone = alone_over_training.find(row.device);
    if (row.kind == "product fp16" && alone != alone_over_training.end())
      device.efficiency.matmul *= alone->second;
    const auto error = [&] {
      const double gap = row.with_gap ? 12e-6 : 0;
      return std::abs(std::log(
          (kernel_time(row.kernel, device, {}, row.element_bytes).total + gap) / row.seconds));
    };
    corrected[row.kind].push_back(error());
    device.measured = nullptr;
    by_law[row.kind].push_back(error());
  }
  for (const auto& [kind, errors] : by_law)
    EXPECT_LT(median_of(corrected.at(kind)), 0.75 * median_of(errors)) << kind;
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
}  // namespace lockstep::kernel_calibration_test
