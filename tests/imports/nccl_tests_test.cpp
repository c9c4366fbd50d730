// Are nccl-tests' tables and JSON files read as written, in every layout, and is doubtful input
// refused at its place?
#include "imports/nccl_tests.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "core/file_text.hpp"
#include "imports/profile_folder.hpp"
#include "source_dir.hpp"
#include "test_folder.hpp"

namespace lockstep::nccl_tests_test {
namespace {

using testing::HasSubstr;

std::string data(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR "/tests/imports/data/") + name;
}

// The file with the first `from` replaced by `to`.
std::string changed(const std::string& name, const std::string& from, const std::string& to) {
  std::string text = file_text(data(name), most_of_a_recording);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return test_folder().write("changed_" + name, text.replace(at, from.size(), to));
}

std::string error_of(const std::string& file, const NcclTestsOptions& options = {}) {
  try {
    import_nccl_tests({file}, options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(NcclTestsText, OutOfPlaceTimesRanksAndNodesOfATable) {
  const auto imported = import_nccl_tests({data("all_reduce_h100.txt")}, {});
  ASSERT_EQ(imported.curves.size(), 1U);
  const ProfileCollective& curve = imported.curves[0];
  EXPECT_EQ(curve.collective, "all_reduce");
  EXPECT_EQ(curve.backend, "nccl");
  EXPECT_EQ(curve.ranks, 4);
  EXPECT_EQ(curve.nodes, 2);
  // NCCL rounds the smallest size to 0, which is no measurement
  ASSERT_EQ(curve.points.size(), 4U);
  EXPECT_EQ(curve.points[0].bytes, 4096);
  EXPECT_DOUBLE_EQ(curve.points[0].seconds, 30.74e-6);
  EXPECT_DOUBLE_EQ(curve.points[3].seconds, 16059e-6);
  EXPECT_EQ(imported.device, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(imported.nccl_version, "2.22.3");
  EXPECT_THAT(imported.notes, testing::ElementsAre(HasSubstr("out-of-place")));
}

TEST(NcclTestsText, TheOldLayoutNeedsToBeToldTheCollective) {
  EXPECT_THAT(error_of(data("all_gather_old.txt")), HasSubstr("all_gather_old.txt:4:1: "));
  EXPECT_THAT(error_of(data("all_gather_old.txt")), HasSubstr("--collective"));
  const auto imported = import_nccl_tests({data("all_gather_old.txt")}, {"all_gather", 0, 0});
  ASSERT_EQ(imported.curves.size(), 1U);
  EXPECT_EQ(imported.curves[0].ranks, 4);
  EXPECT_EQ(imported.curves[0].nodes, 1);
  EXPECT_DOUBLE_EQ(imported.curves[0].points[1].seconds, 70.74e-6);
  EXPECT_THAT(error_of(data("all_gather_old.txt"), {"all_gathr", 0, 0}),
              HasSubstr("did you mean 'all_gather'"));
}

TEST(NcclTestsText, SeveralRunsInOneFileAndRepeatedSizes) {
  const auto imported = import_nccl_tests({data("two_runs_2_17.txt")}, {});
  ASSERT_EQ(imported.curves.size(), 2U);  // sorted by name
  EXPECT_EQ(imported.curves[0].collective, "all_to_all");
  EXPECT_DOUBLE_EQ(imported.curves[0].points[0].seconds, 20.25e-6);
  EXPECT_EQ(imported.curves[1].collective, "send_recv");
  ASSERT_EQ(imported.curves[1].points.size(), 2U);
  EXPECT_DOUBLE_EQ(imported.curves[1].points[0].seconds, 12e-6);  // the median of float and half
  EXPECT_EQ(imported.nccl_version, "2.28.7");
  // the closing summary is missing
  EXPECT_THAT(imported.notes, testing::Contains(HasSubstr("cut off")));
}

TEST(NcclTestsText, WrongResultsAreRefusedWithTheirLine) {
  const std::string file =
      changed("all_reduce_h100.txt", "4.75      0    82.25", "4.75     12    82.25");
  EXPECT_THAT(error_of(file), HasSubstr("changed_all_reduce_h100.txt:17:83: #wrong: 12 wrong"));
  EXPECT_THAT(error_of(changed("all_reduce_h100.txt", "values : 0 OK", "values : 3 FAILED")),
              HasSubstr(":20:1: the run itself reports wrong results"));
}

TEST(NcclTestsText, WhatDoesNotFitTheTableIsRefused) {
  EXPECT_THAT(error_of(changed("all_reduce_h100.txt", "  8.22   12.33      0", "")),
              HasSubstr(":18:5: 10 values in a table of 13 columns"));
  EXPECT_THAT(error_of(changed("all_reduce_h100.txt", "2044.3", "2O44.3")),
              HasSubstr("'2O44.3' is no number"));
  EXPECT_THAT(error_of(changed("all_reduce_h100.txt", "    time", " cputime")),
              HasSubstr("measure without -C"));
  EXPECT_THAT(error_of(changed("all_reduce_h100.txt", "Rank  1 Group", "Rank  0 Group")),
              HasSubstr(":6:10: rank 0 is listed twice"));
  EXPECT_THAT(error_of(test_folder().write("empty.txt", "")), HasSubstr("empty.txt: "));
  EXPECT_THAT(error_of(test_folder().write("prose.txt", "no table here\n")),
              HasSubstr("no measurements"));
  EXPECT_THAT(error_of(test_folder().file("not_there.txt")), HasSubstr("cannot be read"));
}

TEST(NcclTestsJson, RanksAreProcessesTimesGpus) {
  const auto imported = import_nccl_tests({data("reduce_scatter.json")}, {});
  ASSERT_EQ(imported.curves.size(), 1U);
  EXPECT_EQ(imported.curves[0].collective, "reduce_scatter");
  EXPECT_EQ(imported.curves[0].ranks, 4);
  EXPECT_EQ(imported.curves[0].nodes, 2);
  ASSERT_EQ(imported.curves[0].points.size(), 2U);
  EXPECT_DOUBLE_EQ(imported.curves[0].points[1].seconds, 63.25e-6);
  EXPECT_EQ(imported.nccl_version, "2.28.7");
  EXPECT_EQ(imported.date, "2026-11-21");
}

TEST(NcclTestsJson, MistakesAreNamedByField) {
  EXPECT_THAT(error_of(changed("reduce_scatter.json", "\"nwrong\":0.000000},\"in_place\"",
                               "\"nwrong\":7.0},\"in_place\"")),
              HasSubstr("results[0].out_of_place.nwrong: 7 wrong values"));
  EXPECT_THAT(error_of(changed("reduce_scatter.json", "\"time\":41.500000", "\"time\":\"nan\"")),
              HasSubstr("results[0].out_of_place.time: must be a number"));
  EXPECT_THAT(error_of(changed("reduce_scatter.json", "\"time\":41", "\"cpu_time\":41")),
              HasSubstr("measure without -C"));
  EXPECT_THAT(error_of(changed("reduce_scatter.json", "reduce_scatter_perf", "gather_perf")),
              HasSubstr("'gather_perf' measures nothing the simulator prices"));
  EXPECT_THAT(
      error_of(test_folder().write(
          "half.json", file_text(data("reduce_scatter.json"), most_of_a_recording).substr(0, 900))),
      HasSubstr("half.json:1:900: the JSON text breaks off here"));
  EXPECT_THAT(error_of(test_folder().write("other.json", "{\"a\": 1}")),
              HasSubstr("results: missing"));
}

TEST(NcclTests, AddedToAProfileThatReadsBack) {
  const std::string folder = test_folder().file("profile");
  const auto curves = import_nccl_tests({data("all_reduce_h100.txt")}, {}).curves;
  Profile profile = open_profile(folder, "h100-sxm5-80gb");
  merge_collectives(profile, curves);
  save_profile(folder, profile);
  profile = open_profile(folder, "");
  merge_collectives(profile, curves);  // the same curves replace themselves
  merge_collectives(profile, import_nccl_tests({data("reduce_scatter.json")}, {}).curves);
  const Profile read = load_profile(save_profile(folder, profile));
  EXPECT_EQ(read.device, "h100-sxm5-80gb");
  ASSERT_EQ(read.collectives.size(), 2U);
  EXPECT_EQ(read.collectives[1].collective, "reduce_scatter");
  EXPECT_NEAR(read.collectives[0].points[2].seconds, 2044.3e-6, 1e-9);
  EXPECT_THROW(open_profile(folder, "a100-sxm4-80gb"), ConfigError);
}

}  // namespace
}  // namespace lockstep::nccl_tests_test
