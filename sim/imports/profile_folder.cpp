// Adds imported measurements to a profile on disk. A measurement replaces an earlier one of the
// same key; for example, the key of a curve is collective, library, ranks and nodes. A profile's
// text is parsed before it is written, and written as a whole, so that a failed import leaves the
// old file.
#include "imports/profile_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "core/errors.hpp"
#include "core/output.hpp"
#include "hardware/device.hpp"

namespace lockstep {
namespace {

std::filesystem::path profile_path(const std::string& folder) {
  return std::filesystem::path(folder) / "profile.yaml";
}

// Replaces the first element that `same` accepts, or appends the item.
template <class Item, class Same>
void replace_or_add(std::vector<Item>& items, const Item& item, Same same) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  if (found == items.end())
    items.push_back(item);
  else
    *found = item;
}

// The device name that a profile must have for the device file `name` (a name or a path). Errors
// about `name` itself refer to the user's option, errors inside the device file to their place
// there.
std::string device_named(const std::string& name, const std::string& option) {
  try {
    return load_device(name).name;
  } catch (const ConfigError& error) {
    std::vector<Diagnostic> diagnostics = error.diagnostics();
    for (Diagnostic& diagnostic : diagnostics) {
      if (diagnostic.where.line > 0) continue;  // in the file itself
      const std::string quoted = in_quotes(name);
      if (diagnostic.message.find(quoted) == std::string::npos)
        diagnostic.message = fmt::format("{} {}", quoted, diagnostic.message);
      diagnostic.where = {};
      diagnostic.field = option;
    }
    throw ConfigError(diagnostics);
  }
}

}  // namespace

Profile open_profile(const std::string& folder, const std::string& device,
                     const std::string& option) {
  const auto path = profile_path(folder);
  // A function, so that the device file is loaded only if its name is needed.
  const auto wanted = [&] { return option.empty() ? device : device_named(device, option); };
  if (!folder.empty() && std::filesystem::exists(path)) {
    Profile profile = load_profile(path.string());
    if (device.empty() || profile.device == device) return profile;
    if (const std::string other = wanted(); profile.device != other)
      throw file_error(path.string(), "device",
                       fmt::format("the profile there is of {}, not of {}",
                                   in_quotes(profile.device), in_quotes(other)),
                       fmt::format("another folder, or {} {}", option.empty() ? "device" : option,
                                   profile.device));
    return profile;
  }
  Profile profile;
  if (!device.empty()) profile.device = wanted();
  return profile;
}

std::optional<std::string> take_device(Profile& profile, const std::string& found) {
  if (!profile.device.empty()) return std::nullopt;
  profile.device = found.empty() ? "unknown" : found;
  return fmt::format("of {}; --as says which device file that is", in_quotes(profile.device));
}

std::string save_profile(const std::string& folder, const Profile& profile) {
  const auto path = profile_path(folder);
  const std::string text = profile_text(profile);
  // Never writes a text that cannot be read back.
  parse_profile(Node::parse_text(text, path.string()));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  write_text(path.string(), text);
  return path.string();
}

// A top-level key stands at the beginning of a line; its content is indented or begins with `-`.
std::string profile_section(const Profile& profile, const std::string& key) {
  std::istringstream text(profile_text(profile));
  std::string section, line;
  bool inside = false;
  while (std::getline(text, line)) {
    if (!line.empty() && line.front() != ' ' && line.front() != '-')
      inside = line.starts_with(key + ":");
    if (inside) section += line + "\n";
  }
  return section;
}

void set_version(Profile& profile, const std::string& name, const std::string& version) {
  if (version.empty()) return;
  replace_or_add(profile.versions, ProfileVersion{name, version},
                 [&](const ProfileVersion& v) { return v.name == name; });
}

void set_setting(Profile& profile, const std::string& name, const std::string& value) {
  replace_or_add(profile.settings, ProfileSetting{name, value},
                 [&](const ProfileSetting& s) { return s.name == name; });
}

std::string setting_of(const Profile& profile, const std::string& name) {
  for (const ProfileSetting& setting : profile.settings) {
    if (setting.name == name) return setting.value;
  }
  return "";
}

void merge_collectives(Profile& profile, const std::vector<ProfileCollective>& curves,
                       bool complete) {
  for (const ProfileCollective& curve : curves) {
    const auto found = std::find_if(profile.collectives.begin(), profile.collectives.end(),
                                    [&](const ProfileCollective& other) {
                                      return other.collective == curve.collective &&
                                             other.backend == curve.backend &&
                                             other.ranks == curve.ranks &&
                                             other.nodes == curve.nodes;
                                    });
    if (found == profile.collectives.end()) {
      profile.collectives.push_back(curve);
    } else if (complete) {
      *found = curve;
    } else {
      for (const ProfileCurvePoint& point : curve.points) {
        replace_or_add(found->points, point,
                       [&](const ProfileCurvePoint& other) { return other.bytes == point.bytes; });
      }
      std::sort(found->points.begin(), found->points.end(),
                [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    }
  }
}

// A model may have been measured at several input sizes, which differ in the bytes of a sample.
void merge_model(Profile& profile, const ProfileModel& model) {
  const auto same = [&](const ProfileModel& other) {
    return other.model == model.model && other.precision == model.precision &&
           other.input_bytes_per_sample == model.input_bytes_per_sample;
  };
  const auto found = std::find_if(profile.models.begin(), profile.models.end(), same);
  if (found == profile.models.end()) {
    profile.models.push_back(model);
    return;
  }
  for (const ProfileBatch& batch : model.batches)
    replace_or_add(found->batches, batch,
                   [&](const ProfileBatch& other) { return other.samples == batch.samples; });
  std::sort(found->batches.begin(), found->batches.end(),
            [](const ProfileBatch& a, const ProfileBatch& b) { return a.samples < b.samples; });
}

void merge_optimizer(Profile& profile, const ProfileOptimizer& optimizer) {
  replace_or_add(profile.optimizers, optimizer, [&](const ProfileOptimizer& other) {
    return other.name == optimizer.name && other.implementation == optimizer.implementation &&
           other.momentum == optimizer.momentum && other.precision == optimizer.precision &&
           other.elements == optimizer.elements;
  });
}

}  // namespace lockstep
