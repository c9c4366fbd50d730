// Loads the model, platform, profile and devices of a scenario, each file once. A profile that was
// measured on another device than the platform's is refused.
#include "points/inputs.hpp"

#include "points/misfits.hpp"

namespace lockstep {

namespace {

// Throws ConfigError if the profile was measured on a device other than the machine's, because
// layer times differ between devices. Accepts a profile without a device, and the device "unknown",
// which importers write if their input names none.
void check_device(const Profile& profile, const Machine& machine, const std::string& file) {
  const std::string& here = machine.device.name;
  if (profile.device.empty() || profile.device == "unknown" || profile.device == here) return;
  throw file_error(
      "", "",
      fmt::format("{} was measured on {}, and {} has {}", in_quotes(file),
                  in_quotes(profile.device), machine.name, in_quotes(here)),
      fmt::format("a profile or a platform of the same device; if they are the same under two "
                  "names, `device: {}` in the profile",
                  here));
}

}  // namespace

Inputs InputFiles::of(const Scenario& scenario) {
  Misfits misfits;
  Inputs inputs;
  misfits.attempt(scenario.model_where, "model", [&] {
    auto& model = models_[scenario.model];
    if (!model) model = load_model(scenario.model);
    inputs.model = model;
  });
  misfits.attempt(scenario.platform_where, "platform", [&] {
    auto& machine = machines_[{scenario.platform, ""}];
    if (!machine) machine = std::make_shared<const Machine>(load_machine(scenario.platform));
    inputs.machine = machine;
  });
  if (!scenario.profile.empty()) {
    misfits.attempt(scenario.profile_where, "profile", [&] {
      auto& profile = profiles_[scenario.profile];
      if (!profile) profile = shared_profile(scenario.profile);
      inputs.profile = profile;
      if (!inputs.machine) return;
      check_device(*profile, *inputs.machine, scenario.profile);
      // A profile also holds measurements of the machine itself (collectives, the allocator), so
      // the machine with a profile is a separate object.
      auto& measured = machines_[{scenario.platform, scenario.profile}];
      if (!measured) {
        Machine machine = *inputs.machine;
        apply_profile(*profile, machine);
        measured = std::make_shared<const Machine>(std::move(machine));
      }
      inputs.machine = measured;
    });
  }
  for (const OtherDevice& other : scenario.stragglers.other_devices) {
    misfits.attempt(other.where, "stragglers.other_devices.device", [&] {
      auto& device = devices_[other.device];
      if (!device) device = std::make_shared<const Device>(load_device(other.device));
      inputs.devices[other.device] = device;
    });
  }
  misfits.throw_if_any();
  return inputs;
}

}  // namespace lockstep
