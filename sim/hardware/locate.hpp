// From a name or path to a file of platforms/ or platforms/devices/.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// A value with a slash or ending in .yaml is a path and comes back unchanged; otherwise the file of
// that name in `folder`. Throws ConfigError with the known names.
std::string locate_file(const std::string& name_or_path, const std::string& folder,
                        const char* what);

// A path in `file`, relative to that file's folder when it exists there; anything else unchanged.
std::string seen_from(const std::string& file, const std::string& name_or_path);

// "a100" of "some/folder/a100.yaml".
std::string stem_of(const std::string& path);

}  // namespace lockstep
