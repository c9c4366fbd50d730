// Does every shipped device and platform load, and does it say where its figures come from?
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/errors.hpp"
#include "hardware/machine.hpp"

namespace lockstep::platform_files_test {
namespace {

using ::testing::Contains;

TEST(PlatformFiles, EveryDeviceLoads) {
  const auto names = known_devices();
  EXPECT_GE(names.size(), 17u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const Device device = load_device(name);
    EXPECT_EQ(device.name, name);
    EXPECT_TRUE(device.sources.contains("peak"));
    EXPECT_TRUE(device.sources.contains("memory.usable"));
    EXPECT_GE(device.fp16_flops, 0);
    EXPECT_LE(device.context_bytes, device.memory_bytes);
    if (device.bf16_flops > 0) {
      EXPECT_EQ(device.bf16_flops, device.fp16_flops);
    }
    if (!device.derived_from.empty()) {
      EXPECT_THAT(names, Contains(device.derived_from));
    }
  }
}

TEST(PlatformFiles, EveryMachineLoads) {
  const auto names = known_machines();
  EXPECT_GE(names.size(), 35u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    Machine machine;
    ASSERT_NO_THROW(machine = load_machine(name));
    EXPECT_EQ(machine.name, name);
    EXPECT_FALSE(machine.sources.empty());
    if (machine.price_per_gpu_hour > 0) {
      EXPECT_FALSE(machine.price_date.empty());
    }
    if (machine.gpus_per_node > 1) {
      EXPECT_NE(machine.intra, IntraLink::none);
    }
    if (machine.max_nodes > 1) {
      // A mix-up of bits and bytes is a factor of eight; the bounds catch it.
      const double node_bits =
          8 * machine.fabric.nics_per_node * machine.fabric.nic_bytes_per_second;
      EXPECT_GE(node_bits, name == "clients-8mbit" ? 8e6 : 250e6);
      EXPECT_LE(node_bits / machine.gpus_per_node, 0.8e12);
    }
  }
}

TEST(PlatformFiles, TheIssuesMachinesAreThere) {
  const auto names = known_machines();
  for (const char* name :
       {"a100-sxm4-80gb-x4", "g5.12xlarge", "g5.48xlarge", "p4d.24xlarge", "p4de.24xlarge",
        "dgx-a100-40gb", "dgx-a100-80gb", "dgx-h100", "dgx-h200", "a100-pcie-40gb-x4",
        "a100-pcie-80gb-x8", "h100-pcie-x8", "rtx3090-x8", "dgx1-v100-16gb", "cpu-loopback-x2"})
    EXPECT_THAT(names, Contains(name));
}

}  // namespace
}  // namespace lockstep::platform_files_test
