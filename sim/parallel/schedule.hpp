// Pipeline schedules as data: for each rank the list of its actions (forward or backward of a
// micro-batch in a chunk), in program order. The simulation of time (strategies/common) and that of
// memory (memory/step_player.hpp) play the same lists, so that the two cannot contradict each
// other.
// Words: a stage is one rank of the pipeline; a chunk is one of its parts of the model; part p
// counts all chunks in the model's order. Example, 1F1B with 3 stages and 4 micro-batches:
//
//   rank 0   F0 F1 F2 B0 F3 B1 B2 B3
//   rank 1   F0 F1 B0 F2 B1 F3 B2 B3
//   rank 2   F0 B0 F1 B1 F2 B2 F3 B3
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "parallel/options.hpp"

namespace lockstep {

// The kind of an action.
enum class Deed : std::uint8_t {
  forward,
  backward,         // whole: gradients of inputs and of weights
  backward_input,   // the gradients of inputs alone
  backward_weight,  // the gradients of weights alone, after backward_input
  // Messages; only programs of with_messages() and endless_program() have them. A receive is posted
  // without waiting: the compute action that needs the message waits for it. `..._sent` waits for a
  // send and frees the tensor that was sent.
  receive_activation,  // the input of this chunk
  receive_gradient,    // the gradient of this chunk's output
  send_activation,
  send_gradient,
  activation_sent,
  gradient_sent,
};
constexpr bool is_message(Deed deed) {
  return deed >= Deed::receive_activation;
}
// Whether the action computes the gradient of the chunk's input; whether it computes its weights'
// gradients.
constexpr bool gives_inputs(Deed deed) {
  return deed == Deed::backward || deed == Deed::backward_input;
}
constexpr bool gives_weights(Deed deed) {
  return deed == Deed::backward || deed == Deed::backward_weight;
}

// One action of a rank. `chunk` numbers the parts of the model on this rank, the one with the
// earliest layers first; `micro` numbers the micro-batches of the step.
struct Action {
  Deed deed = Deed::forward;
  int chunk = 0;
  int micro = 0;
  // Runs together with the next action, as DualPipe's forward and backward do: both begin when both
  // can, and their messages leave when both have ended.
  bool with_next = false;
  bool operator==(const Action&) const = default;
};
using RankProgram = std::vector<Action>;

// The size of a pipeline and of its step.
struct PipelineShape {
  int stages = 1;  // ranks in a row
  int chunks = 1;  // parts of the model on each rank
  int micro_batches = 1;
  // Micro-batches that an interleaved schedule takes through one chunk before the next chunk; 0 =
  // PyTorch's m / max(1, m / p) for m micro-batches and p stages. Megatron-LM's default is
  // `stages`, which is equal if `stages` divides the micro-batches.
  int group = 0;
  // Token slices of each micro-batch. Each slice counts as a micro-batch here; the slices of one
  // micro-batch have consecutive numbers.
  int slices = 1;

  int parts() const { return stages * chunks; }
};

// The rank of part `part` of the model (0 = the part with the input), and its number among the
// rank's chunks. Interleaved schedules go round, V-shaped ones there and back:
//
//   3 stages, 2 chunks     interleaved: parts 0 1 2 3 4 5 on ranks 0 1 2 0 1 2
//                          V-shaped:                      on ranks 0 1 2 2 1 0
struct PartPlace {
  int rank = 0, chunk = 0;
  bool operator==(const PartPlace&) const = default;
};
PartPlace place_of(PipelineSchedule schedule, const PipelineShape& shape, int part);
// The inverse of place_of().
int part_at(PipelineSchedule schedule, const PipelineShape& shape, const PartPlace& place);

// Chunks per rank if the scenario does not say: 2 for V-shaped and looping schedules, else 1.
int usual_chunks(PipelineSchedule schedule);
inline int chunks_of(const PipelineOptions& options) {
  return options.chunks > 0 ? static_cast<int>(options.chunks) : usual_chunks(options.schedule);
}
// A reason why a schedule cannot have a shape, with the shape that it could have.
struct ScheduleMisfit {
  std::string field;  // "pipeline.chunks", "pipeline.slices", "batch"
  std::string message, hint;
};
// All misfits of the shape; empty = the schedule can have it.
std::vector<ScheduleMisfit> misfits_of(PipelineSchedule schedule, const PipelineShape& shape);

// The program of every rank, in the order of ranks, without messages. Schedules that PyTorch has
// are equal to its lists action by action (torch/distributed/pipelining/schedules.py, 2.15).
// REQUIRES: misfits_of(schedule, shape) is empty.
std::vector<RankProgram> programs_of(PipelineSchedule schedule, const PipelineShape& shape);

// The program of one stage of a schedule that never drains (PipeDream: Narayanan et al. 2019), with
// its messages: an opening of forwards, then the program of every step. The forwards of a step run
// ahead of its backwards by the length of the opening, so they belong partly to the next step;
// micro-batch numbers are modulo the micro-batches of a step.
struct EndlessProgram {
  RankProgram opening, step;
};
EndlessProgram endless_program(const PipelineShape& shape, int rank);

// Old versions of the weights that a stage keeps besides the newest one, because micro-batches in
// flight were computed with them. 0 for schedules that drain.
int stashed_weights(PipelineSchedule schedule, const PipelineShape& shape, int rank);
// Updates of a stage between a micro-batch's forward and the update that applies its gradient, in a
// full pipeline. For pipedream: with steps of one micro-batch.
int stage_staleness(PipelineSchedule schedule, const PipelineShape& shape, int rank);

// The programs with the messages of the ranks' hosts between the actions.
// keep_outputs = true follows PyTorch: the loops of GPipe and 1F1B; for other schedules the
// runtime, which posts a receive when the sender's program reaches the send (_add_send_recv), and
// holds an activation until its backward and a gradient until the step ends (_add_wait_send).
// keep_outputs = false follows Megatron-LM: a message is received just before its use, and a tensor
// is freed once it is sent.
std::vector<RankProgram> with_messages(PipelineSchedule schedule, const PipelineShape& shape,
                                       std::span<const RankProgram> programs, bool keep_outputs);

// A shape with fewer micro-batches whose programs have the same peak of micro-batches in flight on
// every rank, in the same order, and reach the steady state; it saves time when memory is played.
// The shape itself if there is no smaller one. For a schedule that never drains, which has
// micro-batches of several steps in flight, the result may have more micro-batches than a step.
PipelineShape settled_shape(PipelineSchedule schedule, const PipelineShape& shape);

// The program of a rank without a pipeline: forward and backward of one micro-batch after the
// other.
RankProgram without_pipeline(int micro_batches);

// The fault of programs that cannot run: an action before an action that it needs on its own rank,
// a missing or repeated action, or ranks that wait for each other. "" = the programs run to their
// end.
std::string fault_of(PipelineSchedule schedule, const PipelineShape& shape,
                     std::span<const RankProgram> programs);

// Seconds of one micro-batch in one part of the model.
struct PartTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
};
// Times of an ideal pipeline, in seconds, in which only programs and messages order the work.
struct PipelineTimes {
  std::vector<double> busy, begin, end;   // by rank
  std::vector<std::vector<double>> ends;  // by rank, by action
  double makespan = 0;                    // the latest end
  // Idle share of the mean rank: 1 - busy / makespan.
  double bubble() const;
};
// Plays the programs with the times of each part of the model, in the model's order. `transfer`:
// seconds from the end of an action to the earliest start of the action on another rank that needs
// its message; it occupies no rank.
// REQUIRES: fault_of(schedule, shape, programs) is "".
PipelineTimes pipeline_times(PipelineSchedule schedule, const PipelineShape& shape,
                             std::span<const RankProgram> programs,
                             std::span<const PartTimes> parts, double transfer);

// The largest number of micro-batches, over all chunks of a rank, whose forward has run and whose
// input gradient (until_input), or weight gradient (until_weight), has not.
struct InFlight {
  int until_input = 0, until_weight = 0;
  bool operator==(const InFlight&) const = default;
};
InFlight in_flight(const RankProgram& program);

// Seconds of a stage for a token slice of `length` units of tokens that follows `before` units of
// the same sequence.
using SliceSeconds = std::function<double(std::size_t length, std::size_t before)>;
// Lengths of slices, which add up to `units`, with the shortest step: micro_batches x the sum of
// all slices' seconds + (stages - 1) x the seconds of the longest slice (TeraPipe: Li et al. 2021,
// section 3.3).
std::vector<std::size_t> slice_lengths(std::size_t units, int stages, int micro_batches,
                                       const SliceSeconds& seconds);

}  // namespace lockstep
