// Does a profile keep its content when measurements are added, and must its device exist?
#include "imports/profile_folder.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/errors.hpp"
#include "source_dir.hpp"
#include "test_folder.hpp"

namespace lockstep::profile_folder_test {
namespace {

using testing::HasSubstr;

ProfileCollective curve(const std::string& collective,
                        const std::vector<std::pair<double, double>>& points) {
  ProfileCollective result{collective, "gloo", 2, 1, {}};
  for (const auto& [bytes, seconds] : points) {
    ProfileCurvePoint& point = result.points.emplace_back();
    point.bytes = bytes;
    point.seconds = seconds;
  }
  return result;
}

std::vector<std::pair<double, double>> points_of(const ProfileCollective& curve) {
  std::vector<std::pair<double, double>> result;
  for (const ProfileCurvePoint& point : curve.points) {
    result.emplace_back(point.bytes, point.seconds);
  }
  return result;
}

TEST(Curves, AreReplacedWholeWhenComplete) {
  Profile profile;
  merge_collectives(profile,
                    {curve("all_reduce", {{1, 10}, {4, 40}}), curve("broadcast", {{1, 5}})});
  merge_collectives(profile, {curve("all_reduce", {{2, 21}})});
  ASSERT_EQ(profile.collectives.size(), 2U);
  EXPECT_THAT(points_of(profile.collectives[0]), testing::ElementsAre(std::pair(2.0, 21.0)));
  EXPECT_EQ(profile.collectives[1].points.size(), 1U);
}

TEST(Curves, AreReplacedByPointsWhenNot) {
  Profile profile;
  merge_collectives(profile, {curve("all_reduce", {{1, 10}, {4, 40}})});
  merge_collectives(profile,
                    {curve("all_reduce", {{2, 21}, {4, 41}}), curve("broadcast", {{1, 5}})}, false);
  ASSERT_EQ(profile.collectives.size(), 2U);
  EXPECT_THAT(
      points_of(profile.collectives[0]),
      testing::ElementsAre(std::pair(1.0, 10.0), std::pair(2.0, 21.0), std::pair(4.0, 41.0)));
}

std::string refusal(const std::string& folder, const std::string& device) {
  try {
    open_profile(folder, device);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Device, MustBeOneThatThereIs) {
  EXPECT_THAT(refusal("", "cpu-cor"), testing::AllOf(HasSubstr("--as: unknown device 'cpu-cor'"),
                                                     HasSubstr("did you mean 'cpu-core'?")));
  EXPECT_THAT(refusal("", "./none.yaml"), HasSubstr("--as: './none.yaml' "));
  EXPECT_EQ(open_profile("", "cpu-core").device, "cpu-core");
  EXPECT_EQ(open_profile("", "").device, "");
}

TEST(Device, MayBeAFileOfTheUsersOwn) {
  const std::string folder = test_folder().path();
  std::filesystem::copy_file(LOCKSTEP_SOURCE_DIR "/platforms/devices/cpu-core.yaml",
                             folder + "/my-cpu.yaml");
  const Profile profile = open_profile(folder, folder + "/my-cpu.yaml");
  EXPECT_EQ(profile.device, "my-cpu");
  save_profile(folder, profile);
  EXPECT_EQ(open_profile(folder, folder + "/my-cpu.yaml").device, "my-cpu");
  EXPECT_EQ(open_profile(folder, "my-cpu").device, "my-cpu");  // as the profile in the folder says
  EXPECT_THAT(refusal(folder, "cpu-core"),
              HasSubstr("the profile there is of 'my-cpu', not of 'cpu-core'; another folder, or "
                        "--as my-cpu"));
}

TEST(Settings, AreTheLatest) {
  Profile profile;
  EXPECT_EQ(setting_of(profile, "network"), "");
  set_setting(profile, "network", "loopback");
  set_setting(profile, "network", "1 Gbit/s");
  EXPECT_EQ(setting_of(profile, "network"), "1 Gbit/s");
  EXPECT_EQ(profile.settings.size(), 1U);
}

}  // namespace
}  // namespace lockstep::profile_folder_test
