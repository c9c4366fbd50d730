// Implements `lockstep acceptance`: opens the folder of results, runs the remaining units
// (plan.hpp) within the time limit, predicts the real runs and writes the report. Every result is
// written to disk immediately, so a call that is cut off loses at most one unit.
#include "acceptance/acceptance.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "acceptance/plan.hpp"
#include "acceptance/predictions.hpp"
#include "acceptance/progress.hpp"
#include "acceptance/report.hpp"
#include "acceptance/units.hpp"
#include "closed_loop/estimate.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "launch/interrupts.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

bool reports(const AcceptanceOptions& options) {
  return options.stages.empty() ||
         std::count(options.stages.begin(), options.stages.end(), enum_name(Stage::report)) > 0;
}

int list_units(const AcceptanceOptions& options, const AcceptanceScope& scope) {
  Progress progress = load_progress(options.folder);
  read_real_runs(options.folder, progress);
  const std::vector<Unit> units = chosen_units(options, scope);
  const std::vector<double> seconds = estimated_seconds(units, scope, options.on_gpu());
  Table table({{"unit", Table::Align::left}, {"about"}, {"state", Table::Align::left}});
  double total = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const UnitProgress* there = progress.of(units[i].name);
    table.add_row(
        {units[i].name, about(seconds[i]), there == nullptr ? "left" : enum_name(there->state)});
    if (there == nullptr || there->state != UnitState::done) total += seconds[i];
  }
  print(table.text() + fmt::format("the rest takes about {}\n", about(total)));
  return 0;
}

void make_folders(const std::string& folder) {
  for (const char* part : {"profile", "real", "predicted", "scenarios", "logs"}) {
    std::error_code error;
    fs::create_directories(fs::path(folder) / part, error);
    if (error) throw OutputError(fmt::format("cannot write {}: {}", folder, error.message()));
  }
}

// Throws ConfigError if the folder has results of another kind of run or another machine, which
// must not be mixed.
void check_same(const std::string& folder, const std::string& there, const std::string& here) {
  if (there == here) return;
  throw file_error(
      folder, "--output",
      fmt::format("holds results of {}, this is {}", in_quotes(there), in_quotes(here)),
      "another folder");
}

std::string kind_of(const Progress& progress) {
  return progress.device + (progress.quick ? " --quick" : "");
}

// Reads the progress of earlier calls, which must have had the same device and machine.
Progress open_progress(const AcceptanceOptions& options, const std::vector<Unit>& units) {
  Progress progress;
  progress.device = options.device;
  progress.quick = options.quick;
  const Progress before = load_progress(options.folder);
  if (!before.device.empty()) {
    check_same(options.folder, kind_of(before), kind_of(progress));
    progress = before;
  }
  read_real_runs(options.folder, progress);
  for (const Unit& unit : units) {
    if (options.again) progress.forget(unit.name);
  }
  if (std::all_of(units.begin(), units.end(),
                  [&](const Unit& unit) { return progress.is(unit.name, UnitState::done); })) {
    return progress;  // nothing will be measured, so the machine does not matter
  }
  const std::string machine = name_of_machine(options);
  if (!progress.machine.empty()) check_same(options.folder, progress.machine, machine);
  progress.machine = machine;
  return progress;
}

Findings find(const AcceptanceOptions& options, const AcceptanceScope& scope,
              const Progress& progress) {
  Findings findings;
  findings.plan = plan_of(scope, options.on_gpu());
  findings.on_gpu = options.on_gpu();
  findings.progress = progress;
  findings.real = read_real_runs(options.folder, findings.progress);
  std::vector<Unit> trained;
  for (const Unit& unit : findings.plan) {
    if (findings.real.count(unit.name)) trained.push_back(unit);
    if (progress.is(unit.name, UnitState::failed)) {
      findings.logs[unit.name] = end_of_log(options.folder, unit.name, 1);
    }
  }
  findings.predicted = predict_units(trained, options.folder, options.on_gpu());
  if (const std::string folder = profile_folder(options.folder);
      fs::exists(folder + "/profile.yaml")) {
    findings.profile = load_profile(folder);
  }
  return findings;
}

}  // namespace

int acceptance_command(const AcceptanceOptions& options) {
  const Budget budget(options.time_limit);
  const AcceptanceScope scope = scope_of(options);
  const std::vector<Unit> units = chosen_units(options, scope);
  if (options.list) return list_units(options, scope);
  ::signal(SIGPIPE,
           SIG_IGN);  // a closed output must be an error, so that the program cleans up first
  const InterruptGuard guard;
  make_folders(options.folder);
  Progress progress = open_progress(options, units);
  save_progress(options.folder, progress);
  run_units(units, options, scope, budget, progress);

  std::vector<std::string> failed;
  std::size_t left = 0;
  for (const Unit& unit : units) {
    if (progress.is(unit.name, UnitState::failed)) failed.push_back(unit.name);
    left += progress.of(unit.name) == nullptr || progress.is(unit.name, UnitState::cut);
  }
  if (reports(options)) {
    const Findings findings = find(options, scope, progress);
    const std::string report = acceptance_report(findings), json = acceptance_json(findings);
    write_text(options.folder + "/report.md", report);
    write_text(options.folder + "/report.json", json);
    print(options.json ? json : report);
    for (const auto& refused : findings.predicted.refused) failed.push_back(refused.first);
  }
  if (InterruptGuard::interrupted()) {
    print_error("interrupted; the results so far are in {}\n", options.folder);
    return 130;
  }
  if (!failed.empty()) print_error("acceptance: failed: {}\n", fmt::join(failed, " "));
  if (left > 0) {
    print_error("acceptance: {} units left; call again\n", left);
    return exit_call_again;
  }
  return failed.empty() ? 0 : 1;
}

}  // namespace lockstep
