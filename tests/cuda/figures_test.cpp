// Do the parts of the CUDA probes that need no device work: result files, profiles, tables, sizes
// of sweeps?
#include <gmock/gmock.h>

#include <cmath>
#include <iterator>
#include <sstream>

#include "cuda/measurements.hpp"
#include "cuda/sweeps.hpp"

namespace lockstep::cuda::figures_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

CollectiveTiming all_reduce(int ranks, double bytes, double seconds) {
  CollectiveTiming row;
  row.ranks = ranks;
  row.bytes = bytes;
  row.out_of_place = {seconds, seconds / 50, 12};
  row.in_place = {seconds / 2, seconds / 50, 12};
  return row;
}

Measurements example() {
  Measurements m;
  m.device = "h200";
  m.title = "NVIDIA H200";
  m.date = "2026-11-22";
  m.versions = {{"cuda", "13.0"}, {"nccl", "2.28.9"}};
  m.settings = {{"sm_clock", "1980 MHz"}};
  m.gemm = {{MathMode::bf16, 4096, 4096, 4096, {2e-4, 1e-6, 20}, 6.87e14, 0.694}};
  m.convolution = {{MathMode::tf32,
                    ConvolutionPass::backward_weights,
                    32,
                    64,
                    56,
                    64,
                    3,
                    1,
                    {1e-4, 0, 10},
                    7e13,
                    0.14,
                    4096}};
  m.copies = {{CopyKind::stream_copy, 4 << 20, {4e-6, 1e-8, 30}, 2.1e12},
              {CopyKind::stream_copy, 1 << 20, {2e-6, 1e-8, 30}, 1.05e12},
              {CopyKind::d2h_pageable, 1 << 20, {1e-4, 1e-6, 30}, 1e10}};
  m.launch.enqueue = {2.2e-6, 1e-7, 40};
  m.interference = {{"gemm", 16, {1e-4, 0, 9}, {1.2e-4, 0, 9}, {2e-4, 0, 9}, {3e-4, 0, 9}}};
  m.memory.total_bytes = 1.5e11;
  m.memory.context_bytes = 5e8;
  m.memory.source = "NVML: before, after";
  m.collectives = {all_reduce(4, 1 << 20, 1e-4), all_reduce(4, 1 << 10, 2e-5)};
  return m;
}

TEST(Measurements, ReadBackAsTheyWereWritten) {
  const Measurements m = example();
  const std::string text = measurements_text(m);
  const Measurements again = parse_measurements(text, "efficiency.yaml");
  EXPECT_EQ(measurements_text(again), text);
  EXPECT_EQ(again.gemm.at(0).flops_per_second, m.gemm.at(0).flops_per_second);
  EXPECT_EQ(again.convolution.at(0).pass, ConvolutionPass::backward_weights);
  EXPECT_EQ(again.copies.at(2).kind, CopyKind::d2h_pageable);
  EXPECT_EQ(again.versions.at("nccl"), "2.28.9");
  EXPECT_EQ(again.collectives.at(1).in_place.seconds, 1e-5);
}

TEST(Measurements, UnknownFieldsAreLocated) {
  try {
    parse_measurements("format: 1\ngemms: []\n", "efficiency.yaml");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("efficiency.yaml:2:1"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'gemm'"));
  }
}

TEST(Measurements, JsonHoldsBaseUnits) {
  const auto json = measurements_json(example());
  EXPECT_EQ(json.at("gemm").at(0).at("time").at("median"), 2e-4);
  EXPECT_EQ(json.at("gemm").at(0).at("math"), "bf16");
  EXPECT_EQ(json.at("versions").at("cuda"), "13.0");
  EXPECT_EQ(json.at("collectives").at(0).at("collective"), "all_reduce");
}

TEST(ProfileOfMeasurements, HoldsStreamingCopiesLaunchContextAndCurves) {
  const Profile profile = profile_of(example());
  EXPECT_EQ(profile.device, "h200");
  ASSERT_EQ(profile.copies.size(), 2u);  // the pageable copy does not measure the device's memory
  EXPECT_EQ(profile.copies[0].bytes, 2.0 * (1 << 20));  // read + written, ascending
  EXPECT_EQ(profile.copies[1].seconds, 4e-6);
  EXPECT_EQ(profile.host.launch_seconds, 2.2e-6);
  EXPECT_EQ(profile.allocator.context_bytes, 5e8);
  ASSERT_EQ(profile.collectives.size(), 1u);
  EXPECT_EQ(profile.collectives[0].backend, "nccl");
  EXPECT_EQ(profile.collectives[0].points.at(0).bytes, 1 << 10);
  EXPECT_EQ(profile.collectives[0].points.at(1).seconds, 1e-4);
  // The simulator can read the profile.
  EXPECT_NO_THROW(parse_profile(Node::parse_text(profile_text(profile), "profile.yaml")));
}

TEST(ProfileOfMeasurements, LeavesOutSingleRanksAndWrongResults) {
  Measurements m;
  m.collectives = {all_reduce(1, 1 << 20, 1e-5), all_reduce(4, 1 << 20, 1e-4)};
  m.collectives[1].wrong_out_of_place = 3;
  EXPECT_TRUE(profile_of(m).collectives.empty());
}

// The columns are nccl-tests'. Bandwidths have the unit 1e9 bytes/s; the bus bandwidth of an
// all-reduce is 2 (n-1)/n of its algorithm bandwidth.
TEST(CollectiveTable, HasTheColumnsAndBandwidthsOfNcclTests) {
  const std::string table = nccl_tests_table({all_reduce(4, 1e6, 1e-4)}, Collective::all_reduce);
  std::istringstream lines(table);
  std::string line, row;
  while (std::getline(lines, line))
    if (line[0] != '#') row = line;
  std::istringstream words(row);
  const std::vector<std::string> cells{std::istream_iterator<std::string>(words), {}};
  EXPECT_THAT(cells, ElementsAre("1000000", "250000", "float", "sum", "-1", "100.00", "10.00",
                                 "15.00", "0", "50.00", "20.00", "30.00", "0"));
  EXPECT_THAT(table, HasSubstr("algbw"));
  EXPECT_THAT(table, Not(HasSubstr("one rank")));
}

TEST(CollectiveTable, SaysThatOneRankIsNoBandwidth) {
  CollectiveTiming row = all_reduce(1, 1e6, 1e-4);
  row.collective = Collective::send_recv;
  row.in_place = {};
  const std::string table = nccl_tests_table({row}, Collective::send_recv);
  EXPECT_THAT(table, HasSubstr("one rank"));
  EXPECT_THAT(table, HasSubstr("N/A"));
}

TEST(CollectiveTable, CountsOnePartWhereEveryRankHasOne) {
  CollectiveTiming row = all_reduce(4, 1 << 20, 1e-4);
  row.collective = Collective::all_gather;
  const std::string table = nccl_tests_table({row}, Collective::all_gather);
  EXPECT_THAT(table, HasSubstr(" 65536 "));
  EXPECT_THAT(table, HasSubstr(" none "));
}

TEST(Sweeps, SizesReachTheLastOne) {
  EXPECT_THAT(sizes(1024, 65536, 4), ElementsAre(1024, 4096, 16384, 65536));
  EXPECT_EQ(copy_sizes(false).back(), 256.0 * (1 << 20));
  EXPECT_EQ(collective_sizes(false).back(), 256.0 * (1 << 20));
  EXPECT_LT(gemm_shapes(true).size(), gemm_shapes(false).size());
  for (const double size : copy_sizes(false)) EXPECT_EQ(std::fmod(size, 16), 0);
}

TEST(Sweeps, SamplesLastLongEnoughButStayInTheQueue) {
  EXPECT_EQ(launches_per_sample(1e-3, 2e-3, 200), 2);
  EXPECT_EQ(launches_per_sample(1e-6, 2e-3, 200), 200);
  EXPECT_EQ(launches_per_sample(1, 2e-3, 200), 1);
  EXPECT_EQ(launches_per_sample(0, 2e-3, 200), 200);
}

TEST(Sweeps, OperandsLeaveTheCacheBeforeTheirNextTurn) {
  const double l2 = 50 << 20;
  EXPECT_EQ(operand_sets(1 << 30, l2, 64), 2);
  const int sets = operand_sets(4 << 20, l2, 64);
  EXPECT_GE((sets - 1) * (4 << 20), 2 * l2);
  EXPECT_EQ(operand_sets(1, l2, 64), 64);
}

TEST(MatchingDevice, TakesTheShippedFileOfTheGpu) {
  std::vector<Device> known;
  for (const std::string& name : known_devices()) known.push_back(load_device(name));
  // NVIDIA H200: 143771 MiB and 132 multiprocessors; H100 SXM 80 GB: 81559 MiB, the same count.
  const std::string h200 = matching_device(known, 90, 132, 139.8 * (1ull << 30));
  const std::string h100 = matching_device(known, 90, 132, 79.2 * (1ull << 30));
  EXPECT_THAT(h200, HasSubstr("h200"));
  EXPECT_THAT(h100, HasSubstr("h100"));
  EXPECT_EQ(matching_device(known, 90, 7, 1e10), "");
}

TEST(Interference, SlowdownIsBesideOverAlone) {
  const InterferenceRow row = example().interference.at(0);
  EXPECT_NEAR(compute_slowdown(row), 1.2, 1e-12);
  EXPECT_NEAR(standin_slowdown(row), 1.5, 1e-12);
}

TEST(Tables, ShowEveryPartThatWasMeasured) {
  const std::string text = measurements_tables(example());
  for (const char* part : {"NVIDIA H200", "Matrix products", "Convolutions", "Copies", "launches",
                           "stand-in", "Device memory", "# all_reduce"})
    EXPECT_THAT(text, HasSubstr(part));
  Measurements none;
  none.title = "GPU";
  EXPECT_THAT(measurements_tables(none), Not(HasSubstr("Copies")));
}

}  // namespace
}  // namespace lockstep::cuda::figures_test
