// Does a test fail that leaves a file in the temporary folder?
#include "test_folder.hpp"

#include <gmock/gmock.h>

#include <fstream>

namespace lockstep::test_folder_test {
namespace {

TEST(TestFolder, WhatLiesBesideItIsLeftOver) {
  test_folder().write("a/file", "of this test");
  EXPECT_THAT(remove_leftovers(), testing::IsEmpty());
  std::ofstream(std::filesystem::temp_directory_path() / "forgotten") << "text";
  std::filesystem::create_directory(std::filesystem::temp_directory_path() / "folder");
  EXPECT_THAT(remove_leftovers(), testing::ElementsAre("folder", "forgotten"));
  EXPECT_EQ(test_folder().read("a/file"), "of this test");
}

TEST(TestFolder, GoesWithItsTest) {
  EXPECT_FALSE(test_folder().has("a/file"));
  std::string path;
  {
    const TestFolder folder;
    path = folder.write("file", "text");
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace lockstep::test_folder_test
