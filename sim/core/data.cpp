// See data.hpp.
#include "core/data.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "source_dir.hpp"

namespace lockstep {

namespace {

// Where `cmake --install` puts the files, seen from the program, wherever that was moved to; "" where
// the program was not installed.
std::string installed_data() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto data = program.parent_path().parent_path() / "share" / "lockstep";
  return std::filesystem::is_directory(data / "models", error) ? data.string() : "";
}

}  // namespace

std::string data_folder(const std::string& kind) {
  const char* chosen = std::getenv("LOCKSTEP_DATA");
  if (chosen != nullptr && *chosen != '\0') return std::string(chosen) + "/" + kind;
  static const std::string installed = installed_data();
  return (installed.empty() ? LOCKSTEP_SOURCE_DIR : installed) + "/" + kind;
}

std::vector<std::string> files_in(const std::string& folder, const std::string& extension) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file() && entry.path().extension() == extension) {
      files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> stems_in(const std::string& folder, const std::string& extension) {
  std::vector<std::string> stems;
  for (const auto& file : files_in(folder, extension)) {
    stems.push_back(std::filesystem::path(file).stem().string());
  }
  return stems;
}

}  // namespace lockstep
