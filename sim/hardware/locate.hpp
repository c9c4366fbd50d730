// From a name or path to a file of platforms/ or platforms/devices/.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// A value with a slash or ending in .yaml is a path and comes back unchanged; otherwise the file of
// that name in `folder`. Throws ConfigError with the known names.
std::string locate_file(const std::string& name_or_path, const std::string& folder,
                        const char* what);

// "a100" of "some/folder/a100.yaml".
std::string stem_of(const std::string& path);

}  // namespace lockstep
