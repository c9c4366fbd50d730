// The profile FOLDER/profile.yaml (docs/profile-format.md), to which importers add measurements.
// Each importer opens the profile, merges its measurements into it, and saves it.
#pragma once

#include <optional>
#include <string>

#include "costs/profile.hpp"

namespace lockstep {

// Returns the profile in `folder`, or an empty profile of `device` if there is none. If `device` is
// empty, the profile may be of any device. `option` is the command-line option in which the user
// named a device file; if `option` is "", `device` is the profile's own name of the device.
//
// Throws ConfigError if the device file does not exist, if the file is no profile, or if it is a
// profile of another device.
Profile open_profile(const std::string& folder, const std::string& device,
                     const std::string& option = "--as");

// Gives a profile without a device the device name `found` of the imported file ("unknown" if that
// is empty), and returns a note about it. Returns nothing if the profile has a device. A profile of
// "unknown" fits a scenario with any device; all other profiles fit only their own device.
std::optional<std::string> take_device(Profile& profile, const std::string& found);

// Writes FOLDER/profile.yaml completely or not at all, and returns its path. Throws
// std::runtime_error.
std::string save_profile(const std::string& folder, const Profile& profile);

// The lines of a profile's text that belong to one top-level key, for example "collectives".
std::string profile_section(const Profile& profile, const std::string& key);

// Set a version or a setting, and replace an earlier one of the same name. Empty versions are
// ignored.
void set_version(Profile& profile, const std::string& name, const std::string& version);
void set_setting(Profile& profile, const std::string& name, const std::string& value);
// The value of a setting; "" if the profile does not have it.
std::string setting_of(const Profile& profile, const std::string& name);

// Adds curves. A curve of the same collective, library, ranks and nodes is replaced; if `complete`
// is false, only its points of equal size are replaced, and new points are added.
void merge_collectives(Profile& profile, const std::vector<ProfileCollective>& curves,
                       bool complete = true);
// Adds batches, and replaces batches of the same model, precision, input size and samples.
void merge_model(Profile& profile, const ProfileModel& model);
// Adds an optimizer's time, and replaces a time of the same optimizer, implementation, momentum,
// precision and number of elements.
void merge_optimizer(Profile& profile, const ProfileOptimizer& optimizer);

}  // namespace lockstep
