// The profile that an importer adds to: FOLDER/profile.yaml (docs/profile-format.md). Every
// importer opens it, merges its measurements, and saves it.
#pragma once

#include <optional>
#include <string>

#include "costs/profile.hpp"

namespace lockstep {

// The profile in `folder`, or an empty one of `device` if there is none. An empty `device` accepts
// any. `option` is the command-line option that named the device; "" = the device is not checked.
//
// Throws ConfigError if the device file does not exist, if the file is no profile, or if it is a
// profile of another device.
Profile open_profile(const std::string& folder, const std::string& device,
                     const std::string& option = "--as");

// Gives a profile without a device the name `found`, which the imported file has for it, or
// "unknown", and returns a note about it. Scenarios accept "unknown" as their own device, and no
// other name.
std::optional<std::string> take_device(Profile& profile, const std::string& found);

// Writes FOLDER/profile.yaml whole or not at all; returns its path. Throws std::runtime_error.
std::string save_profile(const std::string& folder, const Profile& profile);

// The lines of one top-level key of a profile's text, "collectives" for example.
std::string profile_section(const Profile& profile, const std::string& key);

// Set a version or a setting by name, and replace an earlier one. Empty versions are ignored.
void set_version(Profile& profile, const std::string& name, const std::string& version);
void set_setting(Profile& profile, const std::string& name, const std::string& value);
// The value of a setting; "" if the profile does not have it.
std::string setting_of(const Profile& profile, const std::string& name);

// Replaces curves of the same collective, library, ranks and nodes, and keeps others. If curves are
// not `complete`, only their points of equal size are replaced.
void merge_collectives(Profile& profile, const std::vector<ProfileCollective>& curves,
                       bool complete = true);
// Replaces batches of the same model, precision, input size and samples, and keeps others.
void merge_model(Profile& profile, const ProfileModel& model);
// Replaces an update of the same kind with as many elements, and keeps others.
void merge_optimizer(Profile& profile, const ProfileOptimizer& optimizer);

}  // namespace lockstep
