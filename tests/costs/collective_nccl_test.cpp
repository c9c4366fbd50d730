// Does the tuning model give the same numbers as NCCL's own table? Fact 102 lists the table's
// numbers, rounded to a tenth of a microsecond.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "costs/nccl_tuning.hpp"

namespace lockstep::collective_nccl_test {
namespace {

constexpr double KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;
const std::vector<double> sizes{KiB, 64 * KiB, MiB, 4 * MiB, 25 * MiB, 256 * MiB, GiB};

NcclSystem eight_a100() {
  NcclSystem s;
  s.ranks = 8;
  s.ring = s.tree = {.channels = 12, .intra = 20e9, .inter = 20e9};
  return s;
}
NcclSystem eight_h100() {
  NcclSystem s;
  s.compute_capability = 90;
  s.ranks = 8;
  s.ring = s.tree = {.channels = 12, .intra = 30e9, .inter = 30e9};
  s.nvls = {.channels = 8, .intra = 40e9, .inter = 40e9};
  return s;
}
NcclSystem four_a10g() {
  NcclSystem s;
  s.compute_capability = 86;
  s.cpu = CpuVendor::amd;
  s.ranks = 4;
  s.intra_link = NcclLink::pci;
  s.ll128 = false;
  s.ring = s.tree = {.channels = 1, .intra = 20e9, .inter = 20e9};
  return s;
}

std::string label(const NcclEstimate& e) {
  if (e.algorithm == NcclAlgorithm::nvls) return "NVLS";
  const std::string algorithm = e.algorithm == NcclAlgorithm::ring ? "R/" : "T/";
  return algorithm + (e.protocol == NcclProtocol::ll      ? "LL"
                      : e.protocol == NcclProtocol::ll128 ? "LL128"
                                                          : "S");
}

struct Vector {
  double microseconds;
  std::string choice;
};

// NCCL prints one decimal, and whole numbers from 20175 on.
void expect_vectors(const NcclSystem& system, Collective collective,
                    const std::vector<Vector>& expected) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const NcclEstimate chosen = nccl_choice(system, collective, sizes[i]);
    const double digit = expected[i].microseconds > 20000 ? 1 : 0.1;
    const double microseconds = std::round(chosen.seconds * 1e6 / digit) * digit;
    EXPECT_NEAR(microseconds, expected[i].microseconds, 1e-6) << sizes[i] << " bytes";
    EXPECT_EQ(label(chosen), expected[i].choice) << sizes[i] << " bytes";
  }
}

TEST(NcclTuning, EightA100AllReduce) {
  expect_vectors(eight_a100(), Collective::all_reduce,
                 {{15.0, "R/LL"},
                  {16.3, "R/LL"},
                  {35.9, "R/LL"},
                  {73.8, "R/LL128"},
                  {247.1, "R/S"},
                  {2013.3, "R/S"},
                  {7885.4, "R/S"}});
}

TEST(NcclTuning, EightA100GatherAndScatter) {
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter})
    expect_vectors(eight_a100(), c,
                   {{10.8, "R/LL"},
                    {11.5, "R/LL"},
                    {21.3, "R/LL"},
                    {43.9, "R/LL128"},
                    {127.8, "R/S"},
                    {1010.9, "R/S"},
                    {3946.9, "R/S"}});
}

TEST(NcclTuning, EightH100AllReduce) {
  expect_vectors(eight_h100(), Collective::all_reduce,
                 {{15.0, "R/LL"},
                  {15.8, "R/LL"},
                  {28.0, "R/LL"},
                  {40.4, "NVLS"},
                  {121.4, "NVLS"},
                  {1011.9, "NVLS"},
                  {3972.6, "NVLS"}});
}

TEST(NcclTuning, EightH100GatherAndScatter) {
  for (const Collective c : {Collective::all_gather, Collective::reduce_scatter})
    expect_vectors(eight_h100(), c,
                   {{10.8, "R/LL"},
                    {11.2, "R/LL"},
                    {17.3, "R/LL"},
                    {36.8, "R/LL"},
                    {95.9, "R/S"},
                    {684.6, "R/S"},
                    {2642.0, "R/S"}});
}

TEST(NcclTuning, FourA10GAllReduce) {
  expect_vectors(four_a10g(), Collective::all_reduce,
                 {{12.8, "R/LL"},
                  {22.4, "R/LL"},
                  {121.2, "R/S"},
                  {357.2, "R/S"},
                  {2008.7, "R/S"},
                  {20175, "R/S"},
                  {80573, "R/S"}});
}

TEST(NcclTuning, LatencyAndBandwidthOfEveryRow) {
  struct Row {
    NcclAlgorithm algorithm;
    NcclProtocol protocol;
    double latency, bandwidth;  // us, GB/s
  };
  using A = NcclAlgorithm;
  using P = NcclProtocol;
  const std::vector<Row> rows{{A::ring, P::ll, 15.0, 50.1},      {A::ring, P::ll128, 40.6, 126.2},
                              {A::ring, P::simple, 56.0, 137.1}, {A::tree, P::ll, 15.2, 29.1},
                              {A::tree, P::ll128, 31.5, 85.9},   {A::tree, P::simple, 64.4, 110.4}};
  const auto estimates = nccl_estimates(eight_a100(), Collective::all_reduce, 1024 * MiB);
  for (const Row& row : rows) {
    bool found = false;
    for (const NcclEstimate& e : estimates) {
      if (e.algorithm != row.algorithm || e.protocol != row.protocol) continue;
      found = true;
      EXPECT_NEAR(e.latency * 1e6, row.latency, 0.0501);
      EXPECT_NEAR(e.full_bandwidth / 1e9, row.bandwidth, 0.0501);
    }
    EXPECT_TRUE(found);
  }
}

// Fact 92: LL128 reaches 92 % of the links' bandwidth, at most 36.7 GB/s a channel on Hopper.
TEST(NcclTuning, FastLinksLeaveRingsOfLl128WhatTheirChannelsCan) {
  const auto bus = [](double intra) {
    NcclSystem s = eight_h100();
    s.ring.intra = intra;
    for (const NcclEstimate& e : nccl_estimates(s, Collective::all_reduce, GiB)) {
      if (e.algorithm == NcclAlgorithm::ring && e.protocol == NcclProtocol::ll128) {
        return e.full_bandwidth / 1e9 * 2 * 7 / 8 / 12;
      }
    }
    return 0.0;
  };
  EXPECT_NEAR(bus(30e9), 0.92 * 30, 1e-9);
  EXPECT_NEAR(bus(60e9), 36.7, 1e-9);
}

TEST(NcclTuning, OneRankIsNotTuned) {
  EXPECT_TRUE(nccl_estimates(NcclSystem{}, Collective::all_reduce, MiB).empty());
}

TEST(NcclTuning, TreeSizeFactorPassesThroughTheTable) {
  EXPECT_DOUBLE_EQ(tree_size_factor(NcclProtocol::ll, 64), 1);
  EXPECT_DOUBLE_EQ(tree_size_factor(NcclProtocol::ll, 64 * 4096), 0.4);
  EXPECT_DOUBLE_EQ(tree_size_factor(NcclProtocol::simple, 64), 0.9);
  EXPECT_DOUBLE_EQ(tree_size_factor(NcclProtocol::simple, 1024 * MiB), 0.9);
  EXPECT_NEAR(tree_size_factor(NcclProtocol::ll, 64 * 16 * std::sqrt(2)), 0.85, 1e-12);
}

}  // namespace
}  // namespace lockstep::collective_nccl_test
