// Is a file whole, or what it was before?
#include "core/output.hpp"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace lockstep::output_test {
namespace {

namespace fs = std::filesystem;

class WholeFile : public testing::Test {
 protected:
  WholeFile() : folder_(testing::TempDir() + "/lockstep_whole_file") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WholeFile() override { fs::remove_all(folder_); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  static std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_)) count += entry.exists() ? 1 : 0;
    return count;
  }
  fs::path folder_;
};

TEST_F(WholeFile, StaysWhatItWasWhenItsDraftFails) {
  const auto half = [](const std::string& draft) {
    std::ofstream(draft) << "half";
    throw OutputError("the disk is full");
  };
  EXPECT_THROW(write_whole(file("new"), half), OutputError);
  EXPECT_EQ(files(), 0u);
  write_text(file("old"), "whole");
  EXPECT_THROW(write_whole(file("old"), half), OutputError);
  EXPECT_EQ(contents(file("old")), "whole");
  EXPECT_EQ(files(), 1u);
}

TEST_F(WholeFile, TakesThePlaceOfTheOldOneWithItsPermissions) {
  write_text(file("a"), "first, and longer");
  fs::permissions(file("a"), fs::perms::owner_read | fs::perms::owner_write);
  write_text(file("a"), "second");
  EXPECT_EQ(contents(file("a")), "second");
  EXPECT_EQ(fs::status(file("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("a", file("link"));
  write_text(file("link"), "third");
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(contents(file("a")), "third");
}

TEST_F(WholeFile, SaysWhatKeepsItFromBeingWritten) {
  const auto refusal = [](const std::string& path) -> std::string {
    try {
      write_text(path, "text");
    } catch (const OutputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("/dev/full"), "cannot write /dev/full: No space left on device");
  EXPECT_EQ(refusal("/nowhere/at/all"), "cannot write /nowhere/at/all: No such file or directory");
  EXPECT_EQ(refusal(folder_), "cannot write " + folder_.string() + ": Is a directory");
  write_text("/dev/null", "text");  // no plain file has a draft
}

}  // namespace
}  // namespace lockstep::output_test
