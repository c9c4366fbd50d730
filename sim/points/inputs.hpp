// The files that a scenario names: model, platform, profile, devices. InputFiles parses each file
// once, even in a sweep over thousands of scenarios.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "costs/profile.hpp"
#include "hardware/machine.hpp"
#include "scenario/scenario.hpp"
#include "workload/model.hpp"

namespace lockstep {

// The parsed files of one scenario. The objects are shared and never change, so equal pointers mean
// equal contents.
struct Inputs {
  std::shared_ptr<const ModelFile> model;
  std::shared_ptr<const Machine> machine;  // the platform, corrected by the profile's measurements
  std::shared_ptr<const Profile> profile;  // null = none: all costs are modelled
  // The devices of stragglers.other_devices, by the names in the scenario.
  std::map<std::string, std::shared_ptr<const Device>> devices;
};

// A cache of parsed files. Not thread-safe.
class InputFiles {
 public:
  // Returns the files of `scenario`. A file that an earlier scenario has named gives the same
  // object; a platform gives one object for each profile. Throws one ConfigError with the errors of
  // all files, also if the profile was measured on another device than the platform's. An error
  // without a line number gets the line of the scenario that names the file.
  Inputs of(const Scenario& scenario);

 private:
  std::map<std::string, std::shared_ptr<const ModelFile>> models_;
  std::map<std::string, std::shared_ptr<const Profile>> profiles_;
  // Keyed by platform and profile; without a profile the second name is "".
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Machine>> machines_;
  std::map<std::string, std::shared_ptr<const Device>> devices_;
};

}  // namespace lockstep
