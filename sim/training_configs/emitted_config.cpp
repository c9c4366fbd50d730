// Contains the table of emitted formats, and the checks that several formats share. A format either
// describes the whole training (trainer, torchtitan, megatron) or leaves a part to the program that
// it starts; features of that part give a note instead of an error.
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
  // No format has an all-reduce together with optimizer state that is split by whole tensors.
  const ZeroOptions* options = zero();
  if (options != nullptr && options->reduction == GradientReduction::all_reduce &&
      options->partition != StatePartition::elements) {
    refuse(format, "whole tensors (reduction: all-reduce without partition: elements)");
  }
}

void EmitPlan::must_be_eager(const std::string& format, Compile but, bool fused_too) const {
  const StepOptions& options = point.step_options;
  if (options.compile != Compile::none && options.compile != but)
    refuse(format, "compile: " + enum_name(options.compile));
  if (options.fused_kernels && !fused_too) refuse(format, "fused_kernels");
  if (options.cuda_graphs) refuse(format, "cuda_graphs");
  const LowPrecisionRecipe recipe = options.low_precision.recipe;
  // Formats with compiled blocks (torchtitan) also have torchao's float8.
  const bool torchao =
      recipe == LowPrecisionRecipe::fp8_tensorwise || recipe == LowPrecisionRecipe::fp8_rowwise;
  if (options.low_precision.is_used() && !(but == Compile::blocks && torchao))
    refuse(format, "low_precision: " + enum_name(recipe));
}

namespace {

// A format: its name, its writer, and whether the file determines which parameters are trained and
// how the model is computed (otherwise the program that it starts does).
struct Emitter {
  const char* name;
  EmittedFile (*write)(EmitPlan& plan);
  bool states_trained;
};
constexpr std::array emitters{
    Emitter{"deepspeed", deepspeed_file, false}, Emitter{"accelerate", accelerate_file, false},
    Emitter{"trainer", trainer_file, true},      Emitter{"torchtitan", torchtitan_file, true},
    Emitter{"megatron", megatron_file, true},    Emitter{"sbatch", sbatch_file, false},
    Emitter{"skypilot", skypilot_file, false}};

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
    if (plan.scenario.fine_tuning.is_used()) {
      if (emitter.states_trained) plan.refuse(format, "adapters and frozen parameters");
      plan.notes.emplace_back("adapters and frozen parameters are the program's own");
    }
    const StepOptions& step = plan.point.step_options;
    if (!emitter.states_trained && (step.compile != Compile::none || step.fused_kernels ||
                                    step.cuda_graphs || step.low_precision.is_used())) {
      plan.notes.emplace_back(
          "compile, fused_kernels, cuda_graphs and low_precision are the program's own");
    }
    return emitter.write(plan);
  }
  throw file_error("", "--emit", in_quotes(format) + " is no format",
                   allowed_hint(format, emit_formats()));
}

}  // namespace lockstep
