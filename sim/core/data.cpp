// See data.hpp.
#include "core/data.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "source_dir.hpp"

namespace lockstep {

std::string data_folder(const std::string& kind) {
  const char* chosen = std::getenv("LOCKSTEP_DATA");
  return std::string(chosen != nullptr && *chosen != '\0' ? chosen : LOCKSTEP_SOURCE_DIR) + "/" +
         kind;
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
