// Does a platform file become the right machine, does `base` supply missing fields, and are
// mistakes located?
#include "hardware/machine.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/errors.hpp"
#include "test_folder.hpp"

namespace lockstep::machine_test {
namespace {

std::string message_of(const std::string& name_or_path) {
  try {
    load_machine(name_or_path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' not in\n" << message;
}

TEST(Machine, StudyNode) {
  const Machine machine = load_machine("a100-sxm4-80gb-x4");
  EXPECT_EQ(machine.device.name, "a100-sxm4-80gb");
  EXPECT_EQ(machine.gpus_per_node, 4);
  EXPECT_EQ(machine.intra, IntraLink::nvlink);
  EXPECT_EQ(machine.nvlink.layout, NvlinkLayout::mesh);
  EXPECT_EQ(max_gpus(machine), 64);
}

TEST(Machine, BaseSuppliesWhatIsLeftOut) {
  const Machine base = load_machine("dgx-a100-40gb");
  const std::string path =
      test_folder().write("mine.yaml",
                          "base: dgx-a100-40gb\n"
                          "max_nodes: 3\n"
                          "fabric: {kind: ethernet, nic_rate: 25 Gbit/s}\n"
                          "price: {per_gpu_hour: 1.5 USD/h, date: 2026-01, source: me}\n");
  const Machine machine = load_machine(path);
  EXPECT_EQ(machine.name, "mine");
  EXPECT_EQ(machine.title, base.title);
  EXPECT_EQ(machine.nvlink.links_per_gpu, 12);
  EXPECT_EQ(machine.max_nodes, 3);
  EXPECT_EQ(machine.fabric.kind, FabricKind::ethernet);
  EXPECT_EQ(machine.fabric.nics_per_node, 1);  // a block replaces the block of `base` as a whole
  EXPECT_DOUBLE_EQ(machine.price_per_gpu_hour, 1.5);
}

TEST(Machine, CurvesAreRead) {
  const std::string path =
      test_folder().write("curve.yaml",
                          "base: dgx-a100-40gb\n"
                          "collectives:\n"
                          "  - {collective: all_reduce, ranks: 8, bytes: [1 MiB, 1 "
                          "GiB], times: [60 us, 8 ms], source: t}\n");
  const Machine machine = load_machine(path);
  ASSERT_EQ(machine.collectives.size(), 1u);
  EXPECT_DOUBLE_EQ(machine.collectives[0].bytes[1], 1073741824.0);
  EXPECT_DOUBLE_EQ(machine.collectives[0].seconds[0], 60e-6);
}

TEST(Machine, UnknownNamesAreLocatedWithASuggestion) {
  expect_parts(message_of("dgx-a100-80g"), {"unknown platform", "did you mean 'dgx-a100-80gb'"});
  expect_parts(message_of(test_folder().write("device.yaml", "title: X\ndevice: a100-sxm4-81gb\n")),
               {"device.yaml:2:9", "unknown device", "did you mean 'a100-sxm4-80gb'"});
  expect_parts(message_of(test_folder().write("base.yaml", "base: dgx-a101-40gb\n")),
               {"base.yaml:1:7", "unknown platform", "did you mean 'dgx-a100-40gb'"});
}

TEST(Machine, MistakesThatNoSingleFieldShows) {
  expect_parts(message_of(test_folder().write("empty.yaml", "max_nodes: 1\n")),
               {"'title' is missing", "'device' is missing"});
  expect_parts(
      message_of(test_folder().write("link.yaml", "title: X\ndevice: a10g\ngpus_per_node: 4\n")),
      {"link.yaml", "4 GPUs in a node need a link"});
  expect_parts(message_of(test_folder().write("nvlink.yaml",
                                              "title: X\ndevice: a10g\ninterconnect: nvlink\n")),
               {"'nvlink' is missing"});
  expect_parts(
      message_of(test_folder().write("fabric.yaml", "title: X\ndevice: a10g\nmax_nodes: 2\n")),
      {"fabric.yaml:3:12", "need a 'fabric'"});
  expect_parts(message_of(test_folder().write(
                   "curve2.yaml",
                   "base: dgx-a100-40gb\ncollectives:\n"
                   "  - {collective: all_reduce, ranks: 8, bytes: [2 MiB, 1 MiB], "
                   "times: [1 us, 2 us]}\n")),
               {"curve2.yaml", "sizes must ascend"});
  expect_parts(message_of(test_folder().write(
                   "trunk.yaml",
                   "base: dgx-a100-40gb\nmax_nodes: 4\n"
                   "fabric: {kind: infiniband, nic_rate: 200 Gbit/s, latency: 2 us, "
                   "trunks: [{between: [0], and: [1, 4], rate: 10 Gbit/s}]}\n")),
               {"trunk.yaml:3", "a trunk names node 4, and nodes are 0 to 3"});
}

TEST(Machine, CirclesEnd) {
  const std::string path = test_folder().file("circle.yaml");
  test_folder().write("circle.yaml", "base: " + path + "\n");
  expect_parts(message_of(path), {"circle.yaml:1:7", "in a circle"});
}

TEST(Machine, MisspeltKeysAndWrongUnits) {
  const std::string message =
      message_of(test_folder().write("keys.yaml",
                                     "title: X\ndevice: a10g\npcie: {generaton: 4}\nhost: {memory: "
                                     "64}\nfabric: {kind: etherent}\n"));
  expect_parts(message, {"keys.yaml:3", "did you mean 'generation'", "keys.yaml:4", "keys.yaml:5",
                         "did you mean 'ethernet'"});
}

}  // namespace
}  // namespace lockstep::machine_test
