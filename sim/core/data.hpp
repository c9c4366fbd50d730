// Finds files by name, for platforms, models and other kinds of shipped files. Shipped files are in
// $LOCKSTEP_DATA/<kind> if it is set, else in the source tree's <kind>.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

std::string data_folder(
    const std::string& kind);  // "models", "platforms", "platforms/devices", ...

// Full paths of the regular files in `folder` ending in `extension` (".yaml"), sorted; empty if the
// folder does not exist.
std::vector<std::string> files_in(const std::string& folder, const std::string& extension);

// Names (file stems) of the same, sorted.
std::vector<std::string> stems_in(const std::string& folder, const std::string& extension);

// A value with a slash or ending in .yaml is a path and comes back unchanged; otherwise the file of
// that name in `folder`. Throws ConfigError with the known names.
std::string locate_file(const std::string& name_or_path, const std::string& folder,
                        const char* kind_name);

// A path in `file`, relative to that file's folder when it exists there; anything else unchanged.
std::string seen_from(const std::string& file, const std::string& name_or_path);

// "a100" of "some/folder/a100.yaml".
std::string stem_of(const std::string& path);

}  // namespace lockstep
