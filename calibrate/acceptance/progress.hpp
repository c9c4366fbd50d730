// A folder of results: profiles, real/, predicted/, scenarios/, logs/, and progress.yaml with the
// outcome of each unit. A later call reads it to continue an acceptance, perhaps on another machine
// of the same kind.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/fields.hpp"
#include "results/real_run.hpp"

namespace lockstep {

enum class UnitState { done, failed, cut };
template <>
struct EnumNames<UnitState> {
  static constexpr std::array names{"done", "failed", "cut"};
};

struct UnitProgress {
  std::string name;
  UnitState state = UnitState::done;
  double seconds = 0;
};
template <class Visitor>
void describe(Visitor& v, UnitProgress& u) {
  v.field("name", u.name, "Of the unit.", {.required = true});
  v.field("state", u.state, "cut: stopped by the end of the time.", {.required = true});
  v.field("seconds", u.seconds, "That it ran.", {.unit = Dimension::seconds, .min = 0});
}

struct Progress {
  std::string device;  // value of --device
  bool quick = false;
  std::string machine;  // machine whose results these are; "" = none yet
  std::vector<UnitProgress> units;

  const UnitProgress* of(const std::string& name) const;  // null if it has not run
  bool is(const std::string& name, UnitState state) const;
  void note(const UnitProgress& unit);
  void forget(const std::string& name);
};
template <class Visitor>
void describe(Visitor& v, Progress& p) {
  v.field("device", p.device, "As --device.", {.required = true});
  v.field("quick", p.quick, "As --quick.");
  v.field("machine", p.machine, "Whose results these are.");
  v.field("units", p.units, "What has run.");
}

// Empty progress if there is none. Throws ConfigError.
Progress load_progress(const std::string& folder);
void save_progress(const std::string& folder, const Progress& progress);  // throws OutputError

// The folder of the profile; for `ranks` > 1, of the profile that was measured with several ranks
// at the same time.
std::string profile_folder(const std::string& folder, int ranks = 1);
std::string record_of_unit(const std::string& folder,
                           const std::string& name);  // the record of a real run
std::string log_of_unit(const std::string& folder, const std::string& name);
// The last lines of a unit's log that are not blank, each with its newline; "" if there is no log.
std::string end_of_log(const std::string& folder, const std::string& name, std::size_t lines);

// The completed runs by name. Removes runs whose record cannot be read from `progress`.
std::map<std::string, RealRun> read_real_runs(const std::string& folder, Progress& progress);

}  // namespace lockstep
