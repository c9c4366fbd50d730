#include "hardware/locate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/data.hpp"
#include "core/errors.hpp"

namespace lockstep {

std::string locate_file(const std::string& name_or_path, const std::string& folder,
                        const char* what) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml"))
    return name_or_path;
  const std::vector<std::string> known = stems_in(data_folder(folder), ".yaml");
  if (std::find(known.begin(), known.end(), name_or_path) == known.end()) {
    Diagnostic diagnostic;
    diagnostic.where.file = name_or_path;
    diagnostic.message = fmt::format("unknown {} {}", what, in_quotes(name_or_path));
    diagnostic.hint = allowed_hint(name_or_path, known);
    throw ConfigError(diagnostic);
  }
  return data_folder(folder) + "/" + name_or_path + ".yaml";
}

std::string seen_from(const std::string& file, const std::string& name_or_path) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".yaml");
  const auto beside = std::filesystem::path(file).parent_path() / name_or_path;
  std::error_code none;  // a name too long for the system does not exist
  return is_path && std::filesystem::exists(beside, none) ? beside.string() : name_or_path;
}

std::string stem_of(const std::string& path) {
  return std::filesystem::path(path).stem().string();
}

}  // namespace lockstep
