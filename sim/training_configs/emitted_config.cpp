// The formats by name.
#include "training_configs/emitted_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/errors.hpp"
#include "strategies/table.hpp"
#include "training_configs/emit_plan.hpp"

namespace lockstep {

void EmitPlan::refuse(const std::string& format, const std::string& what) const {
  throw ConfigError(Diagnostic{entry.where, "strategies",
                               fmt::format("{} cannot say {}", format, what),
                               fmt::format("--emit another: {}", fmt::join(emit_formats(), ", "))});
}

void EmitPlan::must_be_data_parallel(const std::string& format) const {
  if (!ddp() && !fsdp() && !zero()) refuse(format, strategy_name(entry.options));
}

namespace {

struct Emitter {
  const char* name;
  EmittedFile (*write)(EmitPlan& plan);
};
constexpr std::array emitters{
    Emitter{"deepspeed", deepspeed_file}, Emitter{"accelerate", accelerate_file},
    Emitter{"trainer", trainer_file},     Emitter{"torchtitan", torchtitan_file},
    Emitter{"megatron", megatron_file},   Emitter{"sbatch", sbatch_file},
    Emitter{"skypilot", skypilot_file}};

}  // namespace

const std::vector<std::string>& emit_formats() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Emitter& emitter : emitters) list.emplace_back(emitter.name);
    return list;
  }();
  return names;
}

EmittedFile emitted_config(const std::string& format, const EmitQuestion& question) {
  for (const Emitter& emitter : emitters) {
    if (format != emitter.name) continue;
    EmitPlan plan(question);
    return emitter.write(plan);
  }
  throw file_error("", "--emit", in_quotes(format) + " is no format",
                   allowed_hint(format, emit_formats()));
}

}  // namespace lockstep
