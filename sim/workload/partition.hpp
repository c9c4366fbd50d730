// Cuts a training step into parts of the model, each a training step of its own: what a stage of a pipeline
// computes for one micro-batch.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "parallel/options.hpp"
#include "workload/step.hpp"

namespace lockstep {

// A part but the first begins with a layer of kind "receive", without kernels, whose output is the
// activation that arrives; a part but the last ends with one of kind "send", whose backward is where the
// gradient arrives. A weight that a later part shares (a tied head) is a parameter of both (Megatron-LM,
// core/transformer/module.py: shared_embedding_or_output_weight).
struct ModelPart {
  TrainingStep step;
  std::vector<int> layers;  // of the whole step, by layer of `step`; -1 = receive, send
};

// Bytes that a part sends to the next one, and gets back the gradient of. Not of the last part.
double sent_bytes(const ModelPart& part);

// An error about `parallel.pipeline.layers`.
ConfigError partition_misfit(const Location& where, std::string message, std::string hint);

// Layers before which the step can be cut: a single activation crosses there, and no layer writes over it.
std::vector<int> clean_places(const TrainingStep& step);

// Cuts before each of `first_layers`, which ascend from 0. `keep_outputs`: the last part's output, which the
// loss reads, stays until its backward has ended (PyTorch 2.15, _PipelineStageBase._output_slot_is_releasable);
// when a part lets go of what it sends is said by its rank's messages (with_messages of
// parallel/schedule.hpp). Throws ConfigError about `parallel.pipeline.layers` where more than one activation
// crosses.
std::vector<ModelPart> cut(const TrainingStep& step, std::span<const int> first_layers,
                           bool keep_outputs, const Location& where = {});

// The host holds the output of layer `output` until the backward of layer `first`, an earlier one, is done.
void keep_until_backward_of(std::vector<Layer>& layers, int first, int output);

// First layers of so many parts. A model of one list of repeated blocks is cut between blocks: as many as
// `layers` says for each part; else equally many; else as torchtitan does, whose first and last part have
// one block less (generate_llm_fqn_per_model_part; fact H60). What stands before the blocks is the first
// part's, what stands after them the last one's. Other models (VGG, ResNet) are cut at clean places so that
// the largest part has as few FLOPs as can be. Throws ConfigError about `parallel.pipeline.layers`.
std::vector<int> even_cuts(const TrainingStep& step, const PipelineOptions& options, int parts,
                           const Location& where = {});

}  // namespace lockstep
