// Cuts a training step into consecutive parts of the model. Each part is a training step of its
// own: the work of one pipeline stage (or of one of its chunks) for one micro-batch.
//
//   layers of the step:   0 1 2 3 | 4 5 6 | 7 8 loss          first_layers = {0, 4, 7}
//   part 0:               0 1 2 3 send
//   part 1:               receive 4 5 6 send
//   part 2:               receive 7 8 loss
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "parallel/options.hpp"
#include "workload/step.hpp"

namespace lockstep {

// One part; a single part is the step itself. All parts but the first begin with a layer of kind
// "receive", which has no forward kernels and whose output is the activation that arrives. All
// parts but the last end with a layer of kind "send", in whose backward the gradient arrives. A
// weight that a later part shares (a tied head) is a parameter of both parts (Megatron-LM,
// core/transformer/module.py: shared_embedding_or_output_weight).
struct ModelPart {
  TrainingStep step;
  std::vector<int> layers;  // index in the whole step, by layer of `step`; -1 = receive, send
};

// Bytes of the activation that a part sends to the next one, and of the gradient that comes back.
// REQUIRES: the part is not the last one.
double sent_bytes(const ModelPart& part);

// An error about `parallel.pipeline.layers`, located at that field in the scenario.
ConfigError partition_misfit(const Location& where, std::string message, std::string hint);

// Layers before which the step can be cut, ascending. At such a place exactly one activation
// crosses, no later layer overwrites it, and the backward of no later layer needs another tensor
// from before the place.
std::vector<int> clean_places(const TrainingStep& step);

// Cuts the step before each of `first_layers`, which must ascend from 0. `keep_outputs`: the output
// of the last part, which the loss reads, lives until its backward has ended (PyTorch 2.15,
// _PipelineStageBase._output_slot_is_releasable). The activation that a part sends is freed at a
// moment that the messages of its rank's schedule determine (with_messages() of
// parallel/schedule.hpp). Throws ConfigError about `parallel.pipeline.layers` if a part has no
// layers, a cut is not at a clean place, or two later parts need the same activation.
std::vector<ModelPart> cut(const TrainingStep& step, std::span<const int> first_layers,
                           bool keep_outputs, const Location& where = {});

// Makes the host hold a reference to the output of layer `output` until the backward of the earlier
// layer `first` has ended.
void keep_until_backward_of(std::vector<Layer>& layers, int first, int output);

// First layers of `parts` parts, for cut(). If `options.layers` is given, it lists the number of
// repeated blocks of each part. Otherwise a model with one list of blocks is cut between blocks:
// the numbers are equal if the parts divide the blocks; if not, they are torchtitan's, which counts
// the embedding and the head as one block each (generate_llm_fqn_per_model_part; fact H60). Layers
// before the blocks belong to the first part, layers after them to the last one. Other models (VGG,
// ResNet) are cut at clean places such that the largest part has the fewest FLOPs. Throws
// ConfigError about `parallel.pipeline.layers`.
std::vector<int> even_cuts(const TrainingStep& step, const PipelineOptions& options, int parts,
                           const Location& where = {});

}  // namespace lockstep
