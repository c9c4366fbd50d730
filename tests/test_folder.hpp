// A folder for the files of one test, removed when the test ends. A test that leaves a file
// elsewhere in the temporary folder fails (test_main.cpp).
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

// The folder of the running test: created at the first call, removed at the end of the test.
TestFolder& test_folder();

// Removes all files from the temporary folder of this process; returns their names, sorted.
std::vector<std::string> remove_leftovers();

}  // namespace lockstep
