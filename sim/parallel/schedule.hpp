// Schedules of pipelines as data: what each rank does, in its order. Time (strategies/common) and memory
// (memory/step_player.hpp) play the same lists.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "parallel/options.hpp"

namespace lockstep {

enum class Deed : std::uint8_t {
  forward,
  backward,         // whole: gradients of inputs and of weights
  backward_input,   // the gradients of inputs alone
  backward_weight,  // and what that left
  // Messages, which stand only in what with_messages() gives. A receive is posted, and what it needs waits
  // for it; `..._sent` lets go of what was sent.
  receive_activation,  // the input of this chunk
  receive_gradient,    // of this chunk's output
  send_activation,
  send_gradient,
  activation_sent,
  gradient_sent,
};
constexpr bool is_message(Deed deed) {
  return deed >= Deed::receive_activation;
}
// Backward that gives the gradient of the chunk's input; that ends with the gradients of its weights.
constexpr bool gives_inputs(Deed deed) {
  return deed == Deed::backward || deed == Deed::backward_input;
}
constexpr bool gives_weights(Deed deed) {
  return deed == Deed::backward || deed == Deed::backward_weight;
}

// One piece of work of a rank. `chunk` counts the parts of the model on this rank, from the first layers
// on; `micro` the micro-batches of the step.
struct Action {
  Deed deed = Deed::forward;
  int chunk = 0;
  int micro = 0;
  // Runs beside the action after it, as DualPipe's forward and backward do: both begin when both can, and
  // what they send leaves when both are done.
  bool with_next = false;
  bool operator==(const Action&) const = default;
};
using RankProgram = std::vector<Action>;

struct PipelineShape {
  int stages = 1;  // ranks in a row
  int chunks = 1;  // parts of the model on each
  int micro_batches = 1;
  // Micro-batches that an interleaved schedule takes through a chunk before it turns to the next chunk;
  // 0 = PyTorch's m / max(1, m / p). Megatron-LM's default is `stages`, which is the same where `stages`
  // divides the micro-batches.
  int group = 0;
  // Token slices of each micro-batch, counted as micro-batches here: those of one follow each other.
  int slices = 1;

  int parts() const { return stages * chunks; }
};

// Where part `part` of the model (0 = with the input) lives: the rank, and which of its chunks it is.
// Interleaved schedules go round (part % stages), V-shaped ones there and back.
struct PartPlace {
  int rank = 0, chunk = 0;
  bool operator==(const PartPlace&) const = default;
};
PartPlace place_of(PipelineSchedule schedule, const PipelineShape& shape, int part);
int part_at(PipelineSchedule schedule, const PipelineShape& shape, const PartPlace& place);

// Chunks that the schedule has where nobody says it.
int usual_chunks(PipelineSchedule schedule);
inline int chunks_of(const PipelineOptions& options) {
  return options.chunks > 0 ? static_cast<int>(options.chunks) : usual_chunks(options.schedule);
}
// Why the schedule cannot have this shape, and what it could have; empty = it can.
struct ScheduleMisfit {
  std::string field;  // "pipeline.chunks", "batch"
  std::string message, hint;
};
std::vector<ScheduleMisfit> misfits_of(PipelineSchedule schedule, const PipelineShape& shape);

// The program of every rank, in the ranks' order. `shape` must have no misfits. Programs of PyTorch's
// schedules are PyTorch's (torch/distributed/pipelining/schedules.py, 2.15).
std::vector<RankProgram> programs_of(PipelineSchedule schedule, const PipelineShape& shape);

// A stage of a schedule that never drains (PipeDream: Narayanan et al. 2019), with its messages: forwards of
// the first step, and then every step, which runs ahead of its backwards by as many forwards. Their
// micro-batches are counted within a step.
struct EndlessProgram {
  RankProgram opening, step;
};
EndlessProgram endless_program(const PipelineShape& shape, int rank);

// Copies of a stage's weights besides the newest: those that micro-batches in flight were computed with.
int stashed_weights(PipelineSchedule schedule, const PipelineShape& shape, int rank);
// Updates of a stage between a micro-batch's forward and its own update, in a pipeline that is full.
// pipedream: for steps of one micro-batch.
int stage_staleness(PipelineSchedule schedule, const PipelineShape& shape, int rank);

// The same programs with the messages of the ranks' hosts between the actions. `keep_outputs`: PyTorch's
// loops of GPipe and 1F1B, and for the others its runtime, which posts a receive when the sender's program
// comes to the send (_add_send_recv) and holds an activation until its backward, a gradient until the step
// ends (_add_wait_send). Otherwise as Megatron-LM: received just before use, let go of once sent.
std::vector<RankProgram> with_messages(PipelineSchedule schedule, const PipelineShape& shape,
                                       std::span<const RankProgram> programs, bool keep_outputs);

// A shape of fewer micro-batches, in whose programs every rank has as many in flight, in the same order, and
// comes to its steady state; the same shape where there is no smaller one. A schedule that never drains has
// micro-batches of several steps in flight, and the shape may have more of them than a step.
PipelineShape settled_shape(PipelineSchedule schedule, const PipelineShape& shape);

// Without a pipeline: forward and backward of one micro-batch after the other.
RankProgram without_pipeline(int micro_batches);

// An order that cannot run: an action before what it needs on its own rank, one that is missing or twice,
// or ranks that wait for each other. "" = it runs to its end.
std::string fault_of(PipelineSchedule schedule, const PipelineShape& shape,
                     std::span<const RankProgram> programs);

// Seconds of one micro-batch in one part of the model.
struct PartTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
};
// When each rank has done its program, where nothing but the programs and the messages orders the work.
struct PipelineTimes {
  std::vector<double> busy, begin, end;   // of each rank
  std::vector<std::vector<double>> ends;  // of each action of a rank
  double makespan = 0;                    // the last end
  // 1 - busy / makespan of the mean rank.
  double bubble() const;
};
// `parts`: times of each part of the model, in the model's order. `transfer`: seconds from the end of an
// action to the start of the one on another rank that waits for its message; it occupies no rank. The
// programs must have no fault.
PipelineTimes pipeline_times(PipelineSchedule schedule, const PipelineShape& shape,
                             std::span<const RankProgram> programs,
                             std::span<const PartTimes> parts, double transfer);

// The most micro-batches of all chunks whose forward has run and whose backward, or the weight part of it,
// has not.
struct InFlight {
  int until_input = 0, until_weight = 0;
  bool operator==(const InFlight&) const = default;
};
InFlight in_flight(const RankProgram& program);

// Seconds of a stage for a token slice of so many units of tokens behind so many others.
using SliceSeconds = std::function<double(std::size_t length, std::size_t before)>;
// Lengths of slices, which add up to `units`, for which a step takes least: micro_batches x the sum of all slices
// + (stages - 1) x the longest (TeraPipe: Li et al. 2021, section 3.3).
std::vector<std::size_t> slice_lengths(std::size_t units, int stages, int micro_batches,
                                       const SliceSeconds& seconds);

}  // namespace lockstep
