// The profile that an importer adds to: FOLDER/profile.yaml, made if it is not there yet.
#pragma once

#include <optional>
#include <string>

#include "costs/profile.hpp"

namespace lockstep {

// The profile in `folder`; an empty one of `device` when there is none. Throws ConfigError when
// there is no such device file (it names `option`, which said so; "" = not looked at), when the
// file is no profile, or is one of another device (an empty `device` takes the one that is there).
Profile open_profile(const std::string& folder, const std::string& device,
                     const std::string& option = "--as");

// Where the profile does not say its device: `found`, what the imported file calls it, or
// "unknown", which the answer then says. Scenarios take "unknown" for their own device, and no other
// name.
std::optional<std::string> take_device(Profile& profile, const std::string& found);

// Writes FOLDER/profile.yaml whole or not at all; returns its path. Throws std::runtime_error.
std::string save_profile(const std::string& folder, const Profile& profile);

// The lines of one top-level key of a profile's text, "collectives" for example.
std::string profile_section(const Profile& profile, const std::string& key);

// Notes `version` of `name`, in place of what the profile said before. Empty versions are ignored.
void set_version(Profile& profile, const std::string& name, const std::string& version);
void set_setting(Profile& profile, const std::string& name, const std::string& value);
// Its value; "" when the profile does not say.
std::string setting_of(const Profile& profile, const std::string& name);

// Curves of the same collective, library, ranks and nodes are replaced, others kept. When they are
// not `complete`, only their points of the same size are.
void merge_collectives(Profile& profile, const std::vector<ProfileCollective>& curves,
                       bool complete = true);
// Batches of the same model, precision, input size and samples are replaced, others kept.
void merge_model(Profile& profile, const ProfileModel& model);
// The same update of as many elements is replaced.
void merge_optimizer(Profile& profile, const ProfileOptimizer& optimizer);

}  // namespace lockstep
