// main() of all test programs. Each program has a temporary folder of its own, which the programs
// that it starts inherit; a test that leaves a file there fails.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>

#include "test_folder.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<TestFolder> running;

fs::path new_folder(const std::string& name) {
  std::string path = fs::temp_directory_path() / (name + "-XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder: " + path);
  return path;
}

class LeavesNothing : public testing::EmptyTestEventListener {
  void OnTestProgramStart(const testing::UnitTest&) override {
    folder_ = new_folder("lockstep-tests");
    ::setenv("TMPDIR", folder_.c_str(), 1);
  }
  void OnTestEnd(const testing::TestInfo&) override {
    running.reset();
    for (const std::string& name : remove_leftovers())
      ADD_FAILURE() << "the test leaves " << name << " in the temporary folder";
  }
  void OnTestProgramEnd(const testing::UnitTest&) override { fs::remove_all(folder_); }

  fs::path folder_;
};

}  // namespace

TestFolder::TestFolder() : path_(new_folder("test")) {}

TestFolder::~TestFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TestFolder::write(const std::string& name, const std::string& text) const {
  fs::create_directories(fs::path(file(name)).parent_path());
  std::ofstream(file(name), std::ios::binary) << text;
  return file(name);
}

std::string TestFolder::read(const std::string& name) const {
  std::ifstream stream(file(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TestFolder& test_folder() {
  if (!running) running = std::make_unique<TestFolder>();
  return *running;
}

std::vector<std::string> remove_leftovers() {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    if (!running || entry.path() != running->path()) left.push_back(entry.path());
  }
  std::vector<std::string> names;
  for (const fs::path& path : left) {
    names.push_back(path.filename());
    fs::remove_all(path);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace lockstep

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new lockstep::LeavesNothing);
  return RUN_ALL_TESTS();
}
