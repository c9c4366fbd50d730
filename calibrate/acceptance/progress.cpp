// Reads and writes progress.yaml, and locates the files of a folder of results. A real run whose
// record cannot be read counts as not done, because the copy of a folder may be incomplete.
#include "acceptance/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/describe.hpp"
#include "core/file_text.hpp"
#include "core/output.hpp"
#include "results/render.hpp"

namespace lockstep {

const UnitProgress* Progress::of(const std::string& name) const {
  const auto found = std::find_if(units.begin(), units.end(),
                                  [&](const UnitProgress& unit) { return unit.name == name; });
  return found == units.end() ? nullptr : &*found;
}

bool Progress::is(const std::string& name, UnitState state) const {
  const UnitProgress* unit = of(name);
  return unit != nullptr && unit->state == state;
}

void Progress::note(const UnitProgress& unit) {
  forget(unit.name);
  units.push_back(unit);
}

void Progress::forget(const std::string& name) {
  std::erase_if(units, [&](const UnitProgress& unit) { return unit.name == name; });
}

Progress load_progress(const std::string& folder) {
  const std::string path = folder + "/progress.yaml";
  if (folder.empty() || !std::filesystem::exists(path)) return {};
  return read_file<Progress>(path);
}

void save_progress(const std::string& folder, const Progress& progress) {
  write_text(folder + "/progress.yaml", emit_yaml(progress));
}

std::string profile_folder(const std::string& folder, int ranks) {
  return folder + (ranks > 1 ? fmt::format("/profile-ranks-{}", ranks) : "/profile");
}

std::string record_of_unit(const std::string& folder, const std::string& name) {
  return folder + "/real/" + name + ".json";
}

std::string log_of_unit(const std::string& folder, const std::string& name) {
  return folder + "/logs/" + name + ".log";
}

std::string end_of_log(const std::string& folder, const std::string& name, std::size_t lines) {
  std::ifstream log(log_of_unit(folder, name));
  std::deque<std::string> last;
  for (std::string line; std::getline(log, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    last.push_back(line + "\n");
    if (last.size() > lines) last.pop_front();
  }
  return fmt::format("{}", fmt::join(last, ""));
}

std::map<std::string, RealRun> read_real_runs(const std::string& folder, Progress& progress) {
  std::map<std::string, RealRun> runs;
  const std::vector<UnitProgress> units = progress.units;
  for (const UnitProgress& unit : units) {
    const bool trained = unit.name.starts_with("step-") || unit.name.starts_with("ranks-");
    if (unit.state != UnitState::done || !trained) continue;
    try {
      runs[unit.name] =
          runs_of_json(file_text(record_of_unit(folder, unit.name), most_of_a_recording)).at(0);
    } catch (const std::exception&) {  // an incomplete copy
      progress.forget(unit.name);
    }
  }
  return runs;
}

}  // namespace lockstep
