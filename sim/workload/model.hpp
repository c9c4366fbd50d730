// Model descriptions (models/*.yaml, docs/model-format.md) and their lowering to a TrainingStep.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data.hpp"
#include "core/errors.hpp"
#include "workload/compile.hpp"
#include "workload/fine_tuning.hpp"
#include "workload/framework.hpp"
#include "workload/low_precision.hpp"
#include "workload/recompute.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct ModelFile;  // parsed YAML (workload/model_file.hpp); its layers still hold expressions

// Options that turn a model description into one concrete training step.
struct StepOptions {
  std::int64_t samples = 1;  // local micro-batch
  Precision precision = Precision::fp32;
  bool autocast = false;            // around a pure half precision (FSDP's mixed precision)
  bool wide_batch_norm = false;     // batch norms are fp32 in a half precision, between casts
  std::vector<std::int64_t> image;  // {channels, height, width}; empty = the model's default
  std::int64_t sequence = 0;        // tokens per sample; 0 = the model's default
  std::int64_t tokens_before = 0;   // of the same sequence, whose keys and values are kept
  std::int64_t classes = 0;         // output classes; 0 = the model's default
  std::map<std::string, std::int64_t> parameters;  // overrides of the model's own ("layers", ...)
  bool fused_attention = true;                     // flash attention instead of materialised scores
  bool channels_last = false;                      // NHWC convolutions
  bool activation_checkpointing = false;
  Recompute recompute = Recompute::blocks;  // what of it is computed again
  ParallelOptions
      parallel;  // one rank's share of a replica: tensor, context and expert parallelism
  FineTuning fine_tuning;
  Compile compile = Compile::none;
  bool fused_kernels = false;
  bool cuda_graphs = false;
  LowPrecision low_precision;
  std::int64_t micro_batches = 1;                    // of a step: they share what is quantised once
  FrameworkKind framework = FrameworkKind::pytorch;  // whose layers keep more, if nanotron's
};

// Finds `name` (or a path ending in .yaml) in the models folders. Throws ConfigError with the known
// names when there is none.
std::shared_ptr<const ModelFile> load_model(const std::string& name_or_path);
std::vector<std::string> known_models();  // names of all shipped models, sorted

// Throws ConfigError located in the model's file when the options do not fit (an image too small
// for the network, a sequence given to a CNN, an unknown parameter).
TrainingStep build_step(const ModelFile& model, const StepOptions& options);
// The step of tensor-parallel ranks with TensorOverlap::pieces.
TrainingStep exchanged_in_pieces(TrainingStep step, std::int64_t ranks);

// What `list models` and the tests compare with published figures.
struct ModelSummary {
  std::int64_t parameters = 0;      // trainable
  double multiply_accumulates = 0;  // forward, one sample, at the default input
  std::optional<std::int64_t> published_parameters;
  std::optional<double> published_multiply_accumulates;  // at the published resolution
  std::string source;
};
ModelSummary summarise(const ModelFile& model);

}  // namespace lockstep
