// See profile_folder.hpp.
#include "profile_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/errors.hpp"

namespace lockstep {
namespace {

std::filesystem::path profile_path(const std::string& folder) {
  return std::filesystem::path(folder) / "profile.yaml";
}

// Replaces the element that `same` accepts, or appends.
template <class Item, class Same>
void replace_or_add(std::vector<Item>& items, const Item& item, Same same) {
  const auto found = std::find_if(items.begin(), items.end(), same);
  if (found == items.end())
    items.push_back(item);
  else
    *found = item;
}

}  // namespace

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (std::filesystem::is_directory(path)) throw file_error(path, "", "is a folder, not a file");
  if (!file || !(text << file.rdbuf())) throw file_error(path, "", "cannot be read, or is empty");
  return text.str();
}

Profile open_profile(const std::string& folder, const std::string& device) {
  const auto path = profile_path(folder);
  if (!folder.empty() && std::filesystem::exists(path)) {
    Profile profile = load_profile(path.string());
    if (!device.empty() && profile.device != device)
      throw file_error(path.string(), "device",
                       fmt::format("the profile there is of {}, not of {}",
                                   in_quotes(profile.device), in_quotes(device)),
                       "another folder, or --device " + profile.device);
    return profile;
  }
  Profile profile;
  profile.device = device;
  return profile;
}

std::string save_profile(const std::string& folder, const Profile& profile) {
  const auto path = profile_path(folder);
  const std::string text = profile_text(profile);
  parse_profile(Node::parse_text(text, path.string()));  // never write what cannot be read back
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto draft = path.string() + ".new";
  {
    std::ofstream file(draft, std::ios::binary);
    file << text << std::flush;
    if (!file) {
      throw std::runtime_error(fmt::format("cannot write {}: {}", draft, std::strerror(errno)));
    }
  }
  std::filesystem::rename(draft, path, error);
  if (error) throw std::runtime_error(fmt::format("cannot write {}", path.string()));
  return path.string();
}

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

void merge_collectives(Profile& profile, const std::vector<ProfileCollective>& curves) {
  for (const ProfileCollective& curve : curves) {
    replace_or_add(profile.collectives, curve, [&](const ProfileCollective& other) {
      return other.collective == curve.collective && other.backend == curve.backend &&
             other.ranks == curve.ranks && other.nodes == curve.nodes;
    });
  }
}

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
