// The files that a scenario names: model, platform, profile, devices. A reader keeps every file
// that it has read, so that a sweep over thousands of scenarios parses each file once.
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

// The parsed files of one scenario. The objects are shared and never change, so that equal pointers
// mean equal contents.
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
  // Returns the files of `scenario`. The same names give the same objects in every call. Throws one
  // ConfigError with the errors of all files; an error without a line of its own is located at the
  // file's name in the scenario.
  Inputs of(const Scenario& scenario);

 private:
  std::map<std::string, std::shared_ptr<const ModelFile>> models_;
  std::map<std::string, std::shared_ptr<const Profile>> profiles_;
  // By platform and profile; the profile is "" for the machine as its file describes it.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Machine>> machines_;
  std::map<std::string, std::shared_ptr<const Device>> devices_;
};

}  // namespace lockstep
