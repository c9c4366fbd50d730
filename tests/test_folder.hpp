// Files of a test, in a folder of its own that goes with it. A test that leaves anything else in
// the temporary folder fails (test_main.cpp).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep {

class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path() const { return path_; }
  std::string file(const std::string& name) const { return path_ / name; }
  // Writes the file, and the folder named before it; returns its path.
  std::string write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  bool has(const std::string& name) const { return std::filesystem::exists(file(name)); }

 private:
  std::filesystem::path path_;
};

// The running test's: made when first asked for, removed at the test's end.
TestFolder& test_folder();

// Removes what lies in the temporary folder of this process; returns its names, sorted.
std::vector<std::string> remove_leftovers();

}  // namespace lockstep
