// Model descriptions (models/*.yaml, docs/model-format.md) and their translation to a TrainingStep.
// A caller loads a description once and builds one step from it for each micro-batch size,
// precision and mesh:
//
//   const auto model = load_model("resnet50");
//   const TrainingStep step = build_step(*model, {.samples = 32});
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

// Options that turn a model description into one concrete training step. The defaults are eager
// fp32 PyTorch on one device with one sample.
struct StepOptions {
  std::int64_t samples = 1;  // local micro-batch
  Precision precision = Precision::fp32;
  bool autocast = false;         // a pure half precision inside autocast (FSDP's mixed precision)
  bool wide_batch_norm = false;  // half precision, but batch norms in fp32 between two casts
  std::vector<std::int64_t> image;  // {channels, height, width}; empty = the model's default
  std::int64_t sequence = 0;        // tokens per sample; 0 = the model's default
  // Earlier tokens of the sequence, whose keys and values are stored
  std::int64_t tokens_before = 0;
  std::int64_t classes = 0;                        // output classes; 0 = the model's default
  std::map<std::string, std::int64_t> parameters;  // overrides of the model's own ("layers", ...)
  bool fused_attention = true;                     // flash attention instead of materialised scores
  bool channels_last = false;                      // NHWC convolutions
  bool activation_checkpointing = false;
  Recompute recompute = Recompute::blocks;  // the operators that checkpointing runs a second time
  // Tensor, context and expert parallelism: the step is that of one rank of the mesh. The pipeline
  // options are not read here; cut() of partition.hpp applies them.
  ParallelOptions parallel;
  FineTuning fine_tuning;
  Compile compile = Compile::none;
  bool fused_kernels = false;  // hand-written fused kernels in an eager step (with_fused_kernels)
  bool cuda_graphs = false;    // one CUDA graph launches each micro-batch
  LowPrecision low_precision;
  // Micro-batches of one step, for which Transformer Engine quantises weights once.
  std::int64_t micro_batches = 1;
  // Training code; nanotron's layers keep more tensors than PyTorch's.
  FrameworkKind framework = FrameworkKind::pytorch;
};

// Reads a model file: the shipped model of that name, or the file at a path (a value that contains
// a slash or ends in .yaml). Throws ConfigError with the known names if there is no such model, and
// with all located mistakes if the file is wrong.
std::shared_ptr<const ModelFile> load_model(const std::string& name_or_path);
std::vector<std::string> known_models();  // names of all shipped models, sorted

// The training step of one rank: expands the model, and then applies low precision, overlapped
// exchanges and compilation, in this order. Throws ConfigError, located in the model's file, if the
// options do not fit (an image too small for the network, a sequence given to a CNN, an unknown
// parameter), and located at `parallel` if the ranks of the mesh cannot divide the model.
TrainingStep build_step(const ModelFile& model, const StepOptions& options);
// The step for TensorOverlap::pieces: tensor-parallel all-gathers and reduce-scatters are divided
// into `ranks` pieces, which overlap with the products that read or write them (pieces.cpp).
TrainingStep exchanged_in_pieces(TrainingStep step, std::int64_t ranks);

// Size and work of a model at its defaults, and the published values. `list models` prints them,
// and the tests compare them.
struct ModelSummary {
  std::int64_t parameters = 0;      // trainable
  double multiply_accumulates = 0;  // forward, one sample, at the default input
  std::optional<std::int64_t> published_parameters;
  std::optional<double> published_multiply_accumulates;  // at the published resolution
  std::string source;                                    // of the published values
};
ModelSummary summarise(const ModelFile& model);

}  // namespace lockstep
