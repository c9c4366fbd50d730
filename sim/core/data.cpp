// Finds the folders of shipped files and looks up names in them. The data folder is that of the
// environment variable LOCKSTEP_DATA if it is set, else the installed share/lockstep, else the
// source tree. An unknown name is reported with the nearest known names (core/errors.hpp).
#include "core/data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/errors.hpp"
#include "source_dir.hpp"

namespace lockstep {

namespace {

// The folder to which `cmake --install` copies the files, relative to the program's own location,
// so that an installation may be moved. "" if the program was not installed.
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

std::string locate_file(const std::string& name_or_path, const std::string& folder,
                        const char* kind_name) {
  // A path is returned even if no such file exists, because the reader of the file reports that.
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml"))
    return name_or_path;
  const std::vector<std::string> known = stems_in(data_folder(folder), ".yaml");
  if (std::find(known.begin(), known.end(), name_or_path) == known.end()) {
    Diagnostic diagnostic;
    diagnostic.where.file = name_or_path;
    diagnostic.message = fmt::format("unknown {} {}", kind_name, in_quotes(name_or_path));
    diagnostic.hint = allowed_hint(name_or_path, known);
    throw ConfigError(diagnostic);
  }
  return data_folder(folder) + "/" + name_or_path + ".yaml";
}

std::string seen_from(const std::string& file, const std::string& name_or_path) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml");
  const auto beside = std::filesystem::path(file).parent_path() / name_or_path;
  std::error_code none;  // not reported: a name that is too long does not exist
  return is_path && std::filesystem::exists(beside, none) ? beside.string() : name_or_path;
}

std::string stem_of(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

}  // namespace lockstep
