// The files that a scenario names, read once however many points are made from them.
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

struct Inputs {
  std::shared_ptr<const ModelFile> model;
  std::shared_ptr<const Machine> machine;  // with what the profile measured of it
  std::shared_ptr<const Profile> profile;  // null = none: all costs are modelled
  // Of stragglers.other_devices, by the names there.
  std::map<std::string, std::shared_ptr<const Device>> devices;
};

class InputFiles {
 public:
  // Throws one ConfigError with all that is wrong with the files, located at their names in
  // the scenario where it has no line of its own. The same names give the same objects.
  Inputs of(const Scenario& scenario);

 private:
  std::map<std::string, std::shared_ptr<const ModelFile>> models_;
  std::map<std::string, std::shared_ptr<const Profile>> profiles_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const Machine>> machines_;
  std::map<std::string, std::shared_ptr<const Device>> devices_;
};

}  // namespace lockstep
