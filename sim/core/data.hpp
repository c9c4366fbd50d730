// Finds the files that ship with Lockstep by their names: models, platforms, devices, recipes.
// Readers of user-given names call locate_file(), which accepts a name (`a100-sxm4-80gb-x4`) or a
// path.
//
// Shipped files are in $LOCKSTEP_DATA/<kind> if that variable is set and not empty, else in the
// installation's share/lockstep/<kind> if the program was installed, else in the source tree's
// <kind>.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Full path of the folder for one kind of file: "models", "platforms", "platforms/devices", ... The
// folder may not exist.
std::string data_folder(const std::string& kind);

// Full paths of the regular files in `folder` ending in `extension` (".yaml"), sorted; empty if the
// folder does not exist.
std::vector<std::string> files_in(const std::string& folder, const std::string& extension);

// Names of the files that files_in() would return, without folder and extension, sorted.
std::vector<std::string> stems_in(const std::string& folder, const std::string& extension);

// The path of the file that a user names. A value with a slash or with the ending .yaml is a path
// and is returned unchanged. Any other value is a name: the result is `folder`/<name>.yaml, where
// `folder` is a kind for data_folder(). `kind_name` is the word for messages ("platform"). Throws
// ConfigError with the nearest known names if no file has this name.
std::string locate_file(const std::string& name_or_path, const std::string& folder,
                        const char* kind_name);

// Resolves a path that is written in `file`: the result is `name_or_path` relative to that file's
// folder if such a file exists, else `name_or_path` unchanged. A name without a slash and without
// the ending .yaml is always returned unchanged.
std::string seen_from(const std::string& file, const std::string& name_or_path);

// File name without folder and last extension: "a100" for "some/folder/a100.yaml".
std::string stem_of(const std::string& path);

}  // namespace lockstep
