// Where the shipped files live: $LOCKSTEP_DATA/<kind> if set, else the source tree's <kind>.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

std::string data_folder(
    const std::string& kind);  // "models", "platforms", "platforms/devices", ...

// Full paths of the regular files in `folder` ending in `extension` (".yaml"), sorted; empty when
// the folder does not exist.
std::vector<std::string> files_in(const std::string& folder, const std::string& extension);

// Names (file stems) of the same, sorted.
std::vector<std::string> stems_in(const std::string& folder, const std::string& extension);

}  // namespace lockstep
