// Is a file either complete or unchanged?
#include "core/output.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "test_folder.hpp"

namespace lockstep::output_test {
namespace {

namespace fs = std::filesystem;

class WholeFile : public testing::Test {
 protected:
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
  const fs::path folder_ = test_folder().path();
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

// Three kinds of files must be written in place, because a new file cannot replace them: a file
// with a second hard link, a file of another owner, and a symbolic link to a missing file.
TEST_F(WholeFile, StaysTheSameFileWhereAnotherCannotStandForIt) {
  write_text(file("a"), "first, and longer");
  fs::create_hard_link(file("a"), file("also a"));
  write_text(file("a"), "second");
  EXPECT_EQ(contents(file("also a")), "second");

  fs::create_directory(file("other"));
  fs::create_symlink("other/to come", file("link"));
  write_text(file("link"), "here");
  EXPECT_TRUE(fs::is_symlink(file("link")));
  EXPECT_EQ(contents(file("other/to come")), "here");

  if (::geteuid() != 0) return;
  write_text(file("theirs"), "first");
  ASSERT_EQ(::chown(file("theirs").c_str(), 12345, 12345), 0);
  write_text(file("theirs"), "second");
  struct stat now {};
  ASSERT_EQ(::stat(file("theirs").c_str(), &now), 0);
  EXPECT_EQ(now.st_uid, 12345u);
  EXPECT_EQ(contents(file("theirs")), "second");
}

TEST_F(WholeFile, NeedsNoLongerNameAndNoFolderThatIsOpen) {
  const std::string name(250, 'n');
  write_text(file(name), "text");
  EXPECT_EQ(contents(file(name)), "text");
  write_text(file("a"), "first");
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  write_text(file("a"), "second");
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(contents(file("a")), "second");
  EXPECT_EQ(files(), 2u);
}

TEST_F(WholeFile, IsNotWrittenWhenItIsReadOnly) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everything";
  write_text(file("a"), "first");
  fs::permissions(file("a"), fs::perms::owner_read);
  EXPECT_THROW(write_text(file("a"), "second"), OutputError);
  EXPECT_EQ(contents(file("a")), "first");
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
  write_text("/dev/null", "text");  // a device gets no draft, only a plain file does
}

}  // namespace
}  // namespace lockstep::output_test
