// The profile that an importer adds to: FOLDER/profile.yaml. Every importer opens it, merges its
// measurements, and saves it.
#pragma once

#include <optional>
#include <string>

#include "costs/profile.hpp"

namespace lockstep {

// The profile in `folder`, or an empty one of `device` if there is none. Throws ConfigError if the
// device file does not exist (the error names `option`; "" = not checked), if the file is no
// profile, or if it is a profile of another device. An empty `device` accepts any.
Profile open_profile(const std::string& folder, const std::string& device,
                     const std::string& option = "--as");

// If the profile does not state its device: sets `found`, the imported file's name of it, or
// "unknown", and returns a note about it. Scenarios accept "unknown" as their own device, and no
// other name.
std::optional<std::string> take_device(Profile& profile, const std::string& found);

// Writes FOLDER/profile.yaml whole or not at all; returns its path. Throws std::runtime_error.
std::string save_profile(const std::string& folder, const Profile& profile);

// The lines of one top-level key of a profile's text, "collectives" for example.
std::string profile_section(const Profile& profile, const std::string& key);

// Sets `version` of `name`, replacing an earlier one. Empty versions are ignored.
void set_version(Profile& profile, const std::string& name, const std::string& version);
void set_setting(Profile& profile, const std::string& name, const std::string& value);
// The value of a setting; "" if the profile does not have it.
std::string setting_of(const Profile& profile, const std::string& name);

// Curves of the same collective, library, ranks and nodes are replaced, others kept. If curves are
// not `complete`, only their points of equal size are replaced.
void merge_collectives(Profile& profile, const std::vector<ProfileCollective>& curves,
                       bool complete = true);
// Batches of the same model, precision, input size and samples are replaced, others kept.
void merge_model(Profile& profile, const ProfileModel& model);
// An update of the same kind with as many elements is replaced.
void merge_optimizer(Profile& profile, const ProfileOptimizer& optimizer);

}  // namespace lockstep
