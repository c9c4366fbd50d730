// Predicts the real runs of an acceptance from the folder's profile as a user would: it writes a
// platform file, and for each run a scenario, which it reads and simulates. So the folder can be
// moved, and each prediction can be repeated by hand.
#include "acceptance/predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "acceptance/progress.hpp"
#include "closed_loop/cases.hpp"
#include "closed_loop/platform.hpp"
#include "core/describe.hpp"
#include "core/output.hpp"
#include "hardware/machine_file.hpp"
#include "imports/profile_folder.hpp"
#include "launch/interrupts.hpp"
#include "questions/run.hpp"
#include "results/render.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

// Host times of operators in layers that were not measured. Without measured values, a forward
// operator costs as much as a backward operator does by default, 41 % of 25 us, because the forward
// pass of the real runs is C++ code, as backward passes always are.
Framework framework_of(const Profile& profile) {
  const ProfileHost& host = profile.host;
  Framework framework;
  framework.operator_seconds = 10.25e-6;
  framework.backward_share = 1;
  framework.update_share = 0.75;  // measured on an H100: 7.6 us
  if (host.operator_seconds > 0) {
    framework.operator_seconds = host.operator_seconds;
    if (host.backward_operator_seconds > 0) {
      framework.backward_share = host.backward_operator_seconds / host.operator_seconds;
    }
    if (host.update_operator_seconds > 0) {
      framework.update_share = host.update_operator_seconds / host.operator_seconds;
    }
  }
  return framework;
}

Prediction predict_unit(const Unit& unit, const std::string& folder, bool on_gpu) {
  const std::string own = profile_folder(folder, unit.ranks);
  const bool measured_so = fs::exists(own + "/profile.yaml");
  const auto profile = shared_profile(measured_so ? own : profile_folder(folder));
  Scenario scenario = scenario_of_unit(unit, *profile, on_gpu);
  if (measured_so) scenario.profile = "../" + fs::path(own).filename().string();
  const std::string file = folder + "/scenarios/" + unit.name + ".yaml";
  write_text(file, write_scenario(scenario));
  const ResultRecord record = run_scenario(read_scenario(file));
  if (!record.failures.empty()) throw std::runtime_error(record.failures.front().reason);
  write_text(folder + "/predicted/" + unit.name + ".json", render_json(record));
  return record.predictions.at(0);
}

}  // namespace

std::string acceptance_platform(const Profile& profile, bool on_gpu, int most_ranks) {
  if (!on_gpu) {
    ClosedLoopOptions options;
    options.ranks = most_ranks;
    const int cores =
        std::atoi(setting_of(profile, "cores").c_str());  // of the machine that was measured
    return closed_loop_platform(options, cores > 0 ? cores : most_ranks, false);
  }
  MachineFile file;
  file.title = "one " + profile.device;
  file.device = profile.device;
  file.pcie.emplace().generation = 5;
  HostSpec& host = file.host.emplace();
  host = {.vendor = CpuVendor::intel, .sockets = 1, .cores = 16};
  host.memory_bytes = 128e9;
  host.memory_bandwidth = 200e9;
  file.sources = {{"pcie", "not measured, a single GPU does not use it in a step"},
                  {"host", "not measured, as above"}};
  if (profile.host.launch_seconds > 0) {
    host.launch_seconds = profile.host.launch_seconds;
    file.sources["host.launch"] = "measured by lockstep-calibrate-cuda";
  }
  return emit_yaml(file);
}

Scenario scenario_of_unit(const Unit& unit, const Profile& profile, bool on_gpu) {
  const Training training = training_of(unit, unit.batches.front());
  Scenario scenario = scenario_of(training, chosen_cases(training, {unit.strategy}), profile);
  scenario.name = unit.name;
  scenario.profile = "../profile";  // relative: the folder may be moved
  if (on_gpu) scenario.framework = framework_of(profile);
  return scenario;
}

Predictions predict_units(const std::vector<Unit>& trained, const std::string& folder,
                          bool on_gpu) {
  Predictions predictions;
  const std::string measured = profile_folder(folder);
  if (trained.empty()) return predictions;
  if (!fs::exists(measured + "/profile.yaml")) {
    print_error("acceptance: no profile in {}: no predictions\n", measured);
    return predictions;
  }
  int most_ranks = 2;
  for (const Unit& unit : trained) most_ranks = std::max(most_ranks, unit.ranks);
  write_text(folder + "/scenarios/platform.yaml",
             acceptance_platform(*shared_profile(measured), on_gpu, most_ranks));
  for (const Unit& unit : trained) {
    if (on_gpu && unit.ranks > 1) continue;
    if (InterruptGuard::interrupted()) break;
    try {
      predictions.made[unit.name] = predict_unit(unit, folder, on_gpu);
    } catch (const OutputError&) {
      throw;
    } catch (const std::exception& error) {
      predictions.refused[unit.name] = error.what();
      print_error("acceptance: no prediction of {}: {}\n", unit.name, error.what());
    }
  }
  return predictions;
}

}  // namespace lockstep
