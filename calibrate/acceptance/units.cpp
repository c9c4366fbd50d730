// Runs units as processes of the measuring programs (`lockstep-calibrate`,
// `lockstep-calibrate-cuda`), each with a time limit and a log. A unit that is cut off because the
// call's time is over is recorded as `cut`, and runs in a later call.
#include "acceptance/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "closed_loop/cases.hpp"
#include "closed_loop/estimate.hpp"
#include "core/errors.hpp"
#include "core/output.hpp"
#include "core/statistics.hpp"
#include "imports/profile_folder.hpp"
#include "launch/interrupts.hpp"
#include "launch/machine_state.hpp"
#include "launch/measuring.hpp"
#include "launch/processes.hpp"

namespace lockstep {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Call {
  std::string program;
  Words words;
  double limit = 0;
};

Call probes_call(const AcceptanceOptions& options, const AcceptanceScope& scope) {
  const std::string folder = profile_folder(options.folder);
  const double limit = 2 * scope.unit_limit;  // hundreds of values
  if (!options.on_gpu()) {
    return {measuring_program("acceptance"),
            {"calibrate", "collectives", "--ranks", "2", "--sizes", scope.curve_sizes, "--seconds",
             fmt::format("{:g}", scope.curve_seconds), "-o", folder},
            limit};
  }
  Call call{device_probe_program(), {"--device", options.device, "-o", folder}, limit};
  if (options.quick) call.words.push_back("--quick");
  return call;
}

// Whether copies and updates by size have been measured for the model, in whichever precision.
bool streams_measured(const std::string& model, const Progress& progress) {
  return std::any_of(progress.units.begin(), progress.units.end(), [&](const UnitProgress& unit) {
    return unit.state == UnitState::done && unit.name.starts_with("calibrate-" + model + "-");
  });
}

Call calibration_call(const Unit& unit, const AcceptanceOptions& options,
                      const AcceptanceScope& scope, const Progress& progress) {
  const std::string own = profile_folder(options.folder, unit.ranks);
  Call call{measuring_program("acceptance"),
            {"calibrate", "--device", options.device, "--ranks", std::to_string(unit.ranks),
             "--models", unit.model, "--batches", fmt::format("{}", fmt::join(unit.batches, ",")),
             "--precisions", enum_name(unit.precision), "--most-time",
             fmt::format("{:g} s", scope.layers_seconds), "-o", own},
            scope.unit_limit};
  if (unit.ranks == 1 && streams_measured(unit.model, progress)) {
    call.words.push_back("--layers-only");
  }
  // With several ranks at the same time, only layers are measured anew; other values come from the
  // known profile.
  const std::string known = profile_folder(options.folder) + "/profile.yaml";
  if (unit.ranks > 1 && fs::exists(known) && !fs::exists(own + "/profile.yaml")) {
    fs::create_directories(own);
    fs::copy_file(known, own + "/profile.yaml");
  }
  return call;
}

Call training_call(const Unit& unit, const AcceptanceOptions& options,
                   const AcceptanceScope& scope) {
  const Training training = training_of(unit, unit.batches.front());
  Call call{measuring_program("acceptance"), train_words(training, scope.steps), scope.unit_limit};
  const Words strategy = chosen_cases(training, {unit.strategy}).front().real;
  call.words.insert(call.words.end(), strategy.begin(), strategy.end());
  call.words.insert(call.words.end(), {"--device", options.device});
  return call;
}

Call call_of(const Unit& unit, const AcceptanceOptions& options, const AcceptanceScope& scope,
             const Progress& progress) {
  if (unit.stage == Stage::probes) return probes_call(options, scope);
  if (unit.trains()) return training_call(unit, options, scope);
  return calibration_call(unit, options, scope, progress);
}

// Runs one unit, until its own limit or the end of the budget.
UnitState run_unit(const Unit& unit, const Call& call, const std::string& folder,
                   const Budget& budget, bool failed_before, double& seconds) {
  const std::string log = log_of_unit(folder, unit.name),
                    record = record_of_unit(folder, unit.name);
  RankProcess process;
  process.program = call.program;
  process.arguments = call.words;
  process.errors = log;
  if (unit.trains()) process.output = record + ".part";
  constexpr double grace = 10;
  const auto start = Clock::now();
  const double left = budget.left();
  const LaunchEnd end = run_processes({process}, grace, std::min(call.limit, left));
  seconds = seconds_since(start);
  if (end.how == LaunchEnd::How::finished) {
    if (unit.trains()) fs::rename(record + ".part", record);
    print_error("acceptance: {}: {:.0f} s\n", unit.name, seconds);
    return UnitState::done;
  }
  if (unit.trains()) fs::remove(record + ".part");
  const bool interrupted = end.how == LaunchEnd::How::interrupted;
  if (interrupted || (end.how == LaunchEnd::How::too_long && left < call.limit)) {
    print_error("acceptance: {}: cut off after {:.0f} s\n", unit.name, seconds);
    // A unit that failed before counts as failed, so that repeated calls come to an end.
    if (failed_before) return UnitState::failed;
    if (interrupted || !budget.nearly_all(seconds)) return UnitState::cut;
    std::ofstream(log, std::ios::app) << "stopped: nearly all of a call was not enough\n";
  } else if (end.how == LaunchEnd::How::too_long) {
    std::ofstream(log, std::ios::app)
        << fmt::format("stopped: it took longer than {:g} s\n", call.limit);
  }
  print_error("acceptance: {} FAILED after {:.0f} s, the end of its log:\n{}", unit.name, seconds,
              end_of_log(folder, unit.name, 5));
  return UnitState::failed;
}

// The factor by which finished units of a stage took longer than estimated; 1 if none is finished.
double slowness(Stage stage, const std::vector<Unit>& units, const std::vector<double>& estimates,
                const Progress& progress) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i].stage != stage || !progress.is(units[i].name, UnitState::done)) continue;
    ratios.push_back(progress.of(units[i].name)->seconds / estimates[i]);
  }
  return ratios.empty() ? 1 : median(ratios);
}

}  // namespace

Budget::Budget(double limit)
    : usable_(limit > 0 ? limit - std::min(20.0, limit / 6)
                        : std::numeric_limits<double>::infinity()) {}

double Budget::left() const {
  return usable_ - seconds_since(start_);
}

bool Budget::nearly_all(double seconds) const {
  return seconds >= 0.75 * usable_;
}

std::string device_probe_program() {
  if (const char* given = std::getenv("LOCKSTEP_CALIBRATE_CUDA")) return given;
  const fs::path program = fs::path(measuring_program("acceptance")).parent_path().parent_path() /
                           "cuda" / "lockstep-calibrate-cuda";
  if (fs::exists(program)) return program.string();
  throw file_error("", "acceptance", "lockstep-calibrate-cuda is not built",
                   "`calibrate/acceptance/bare_machine.sh build` builds the programs for a GPU");
}

std::string name_of_machine(const AcceptanceOptions& options) {
  if (!options.on_gpu()) {
    const MachineDescription machine = describe_machine();
    return fmt::format("{}, {} cores", machine.cpu, machine.cores);
  }
  const ProgramEnd end = run_program(device_probe_program(),
                                     {"--device", options.device, "--probes", "memory", "--json"});
  if (end.exit_code == exit_no_device)
    throw ExitError(end.exit_code, options.device + " is absent");
  if (end.exit_code != 0) throw std::runtime_error("the device does not answer");
  return nlohmann::json::parse(end.output).at("title");
}

void run_units(const std::vector<Unit>& units, const AcceptanceOptions& options,
               const AcceptanceScope& scope, const Budget& budget, Progress& progress) {
  std::vector<std::size_t> queue;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!progress.is(units[i].name, UnitState::done)) queue.push_back(i);
  }
  // Units that failed or were cut off in earlier calls come last. Probes come first if there is no
  // profile, because all other units need one.
  const bool has_profile = fs::exists(profile_folder(options.folder) + "/profile.yaml");
  const auto needed = [&](const Unit& unit) { return unit.stage == Stage::probes && !has_profile; };
  std::stable_partition(queue.begin(), queue.end(), [&](std::size_t i) {
    return progress.of(units[i].name) == nullptr || needed(units[i]);
  });
  const std::vector<double> estimates = estimated_seconds(units, scope, options.on_gpu());
  const auto expected = [&](std::size_t i) {
    return estimates[i] * slowness(units[i].stage, units, estimates, progress);
  };
  double total = 0;
  for (const std::size_t i : queue) total += expected(i);
  print_error("acceptance: {} of {} units are there already; the others take about {}\n",
              units.size() - queue.size(), units.size(), about(total));
  const auto run = [&](std::size_t i) {
    const Unit& unit = units[i];
    UnitProgress end{unit.name, UnitState::failed, 0};
    end.state = run_unit(unit, call_of(unit, options, scope, progress), options.folder, budget,
                         progress.is(unit.name, UnitState::failed), end.seconds);
    end.seconds = std::max(0.1, std::round(10 * end.seconds) / 10);  // rounded for reading
    progress.note(end);
    save_progress(options.folder, progress);
  };
  bool begun = false;
  const auto over = [&] { return InterruptGuard::interrupted() || budget.left() <= 0; };
  for (const std::size_t i : queue) {
    if (over()) return;
    // If a unit is too long for the rest of the budget, a later, shorter one may still fit.
    if (!needed(units[i]) && expected(i) > budget.left()) continue;
    run(i);
    begun = true;
  }
  // Estimates may be wrong, so every call runs at least one unit.
  if (!begun && !queue.empty() && !over()) run(queue.front());
}

}  // namespace lockstep
