// Programs that PyTorch 2.15 refuses, and one that PyTorch trains differently without a warning.
// All were tried with PyTorch itself; docs/fsdp.md has the table. Lockstep reports such a scenario
// as an error.
#include <fmt/format.h>

#include <algorithm>

#include "strategies/fsdp/fsdp.hpp"

namespace lockstep {

namespace {

// Whether a weight that is stored with its channels last has other strides than a contiguous
// weight.
bool lies_otherwise(const Parameter& weight) {
  const std::vector<std::int64_t>& shape = weight.shape;
  return shape.size() == 4 && shape[1] > 1 && shape[2] * shape[3] > 1;
}

// A parameter that channels_last makes non-contiguous; null = none.
const Parameter* with_channels_last(const TrainingStep& step) {
  for (const Layer& layer : step.layers) {
    for (const Parameter& parameter : layer.parameters) {
      if (lies_otherwise(parameter)) return &parameter;
    }
  }
  return nullptr;
}

// A batch norm with weights in half precision; null = none.
const Layer* half_batch_norm(const TrainingStep& step) {
  const auto found = std::ranges::find_if(step.layers, [](const Layer& layer) {
    return layer.kind == "batch_norm" && !layer.parameters.empty() && !layer.wide;
  });
  return found == step.layers.end() ? nullptr : &*found;
}

// A layer outside a unit's module that reads a weight of the unit (a tied head); null = none.
const Layer* reader_outside(const TrainingStep& step, const std::vector<FsdpUnit>& units) {
  for (const Layer& reader : step.layers) {
    if (reader.tied_layer < 0) continue;
    for (const FsdpUnit& unit : units) {
      const bool owns = std::ranges::binary_search(unit.layers, reader.tied_layer);
      if (owns && !unit.root && !reader.name.starts_with(unit.module + ".")) {
        return &reader;
      }
    }
  }
  return nullptr;
}

bool ties(const TrainingStep& step) {
  return std::ranges::any_of(step.layers, [](const Layer& l) { return l.tied_layer >= 0; });
}

// FSDP1 with a tied weight whose two layers are in different units. With use_orig_params, PyTorch
// refuses it; otherwise PyTorch trains two separate weights.
std::optional<Diagnostic> tied_apart(const Job& job, const FsdpOptions& options) {
  if (options.version == 2 || !ties(*job.step)) return std::nullopt;
  const FsdpLayout layout = fsdp_layout(job, options);
  // Without sharding, use_orig_params leaves the weights as they are, so they remain tied.
  if (options.use_orig_params && !layout.sharded()) return std::nullopt;
  const Layer* found = reader_outside(*job.step, layout.units);
  if (found == nullptr) return std::nullopt;
  const std::string& reader = found->name;
  const std::string& weight = found->tied_to;
  Diagnostic diagnostic;
  diagnostic.field = "fsdp.wrap";
  diagnostic.message =
      options.use_orig_params
          ? fmt::format("PyTorch refuses this: {} shares {}, which is in a unit of its own", reader,
                        weight)
          : fmt::format("PyTorch would untie {} from {} without a word: they are in two units",
                        reader, weight);
  diagnostic.hint = "`policy: block` leaves both to the root unit";
  return diagnostic;
}

}  // namespace

std::optional<Diagnostic> Fsdp::refusal(const Job& job, bool channels_last) const {
  const TrainingStep& step = *job.step;
  const bool version_two = options_.version == 2;
  Diagnostic diagnostic;
  if (version_two && channels_last) {
    if (const Parameter* weight = with_channels_last(step)) {
      diagnostic.field = "fsdp.version";
      diagnostic.message = fmt::format(
          "PyTorch refuses this: fully_shard takes no parameter that is not contiguous, and {} is "
          "not with memory_format: channels_last",
          weight->name);
      diagnostic.hint = "`version: 1` takes it";
      return diagnostic;
    }
  }
  // Weights in half precision beside fp32 statistics. The kernel for channels_last does not check
  // this.
  const bool half = compute_precision(step.precision) != step.precision;
  if (half && !channels_last) {
    if (const Layer* norm = half_batch_norm(step)) {
      diagnostic.field = version_two ? "fsdp.version" : "fsdp.wrap.policy";
      diagnostic.message = fmt::format(
          "PyTorch refuses this: {} would have weights in half precision and running statistics in "
          "fp32 (\"Expected running_mean to have type BFloat16 but got Float\")",
          norm->name);
      diagnostic.hint = version_two ? "`version: 1` keeps batch norms in fp32; `precision: "
                                      "pure-bf16` has every layer in bf16"
                                    : "with units, as by `policy: block`, batch norms stay in fp32";
      return diagnostic;
    }
  }
  return tied_apart(job, options_);
}

}  // namespace lockstep
