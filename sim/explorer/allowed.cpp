// The settings that a question of the explorer's page may make. A list of allowed fields, and a
// check of model and platform names against the offered ones, prevent a question from reading other
// files.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "explorer/routes.hpp"
#include "hardware/machine.hpp"
#include "sweep/setting.hpp"
#include "workload/model.hpp"

namespace lockstep {

namespace {

// Settings that the page's controls make. `profile` and `anchor` can only be left out.
constexpr std::array allowed{"model",
                             "model_parameters",
                             "input",
                             "input.image",
                             "input.sequence",
                             "dataset",
                             "price_per_gpu_hour",
                             "batch",
                             "precision",
                             "optimizer.name",
                             "activation_checkpointing",
                             "platform",
                             "fabric",
                             "fabric.nic_rate",
                             "fabric.nics_per_node",
                             "gpus",
                             "strategies",
                             "stragglers.slow_ranks",
                             "stragglers.per_step.lognormal.sigma",
                             "profile",
                             "anchor"};

// Throws ConfigError if a value is neither offered by the page nor used by the scenario itself.
void check_name(const Setting& setting, const std::vector<std::string>& known,
                const std::string& own) {
  for (const Node& value : setting.values) {
    const std::string& name = value.scalar();
    if (name == own || std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw setting_error(setting, 1, fmt::format("{} is not offered", in_quotes(name)),
                        allowed_hint(name, known));
  }
}

// Whether a setting's value is empty, so that the setting leaves the field out.
bool is_nothing(const Node& value) {
  return value.scalar().empty() && value.elements().empty() && value.entries().empty();
}

}  // namespace

void check_allowed(const std::vector<std::string>& settings, const OwnFiles& own) {
  for (const std::string& text : settings) {
    const Setting setting = parse_setting(text);
    if (std::find(allowed.begin(), allowed.end(), setting.path) == allowed.end()) {
      throw setting_error(setting, 1, fmt::format("{} is no field of the explorer", setting.path),
                          "change it in the file");
    }
    if (setting.path == "model") check_name(setting, known_models(), own.model);
    if (setting.path == "platform") check_name(setting, known_machines(), own.platform);
    const bool can_only_go = setting.path == "profile" || setting.path == "anchor";
    if (can_only_go && !std::all_of(setting.values.begin(), setting.values.end(), is_nothing)) {
      throw setting_error(setting, 1, fmt::format("{} can only be left out here", setting.path),
                          "give it in the file");
    }
  }
}

}  // namespace lockstep
