// Pipeline schedules as data: for each rank the list of its actions (forward or backward of a
// micro-batch in a chunk), in program order. The simulation of time (strategies/common) and the
// simulation of memory (memory/step_player.hpp) both execute these lists. Memory takes shorter ones
// (settled_shape(), no token slices), messages by PipelineOptions::keep_outputs, and never
// endless_program(); time takes PyTorch's messages.
// Words: a stage is one rank of the pipeline; a chunk is one of the parts of the model on a rank; a
// part p is a chunk numbered across all ranks, in the model's order. Example: 1F1B with 3 stages
// and 4 micro-batches:
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
  backward,         // the whole backward: gradients of inputs and of weights
  backward_input,   // only the gradients of inputs
  backward_weight,  // only the gradients of weights, after backward_input
  // Messages; only programs of with_messages() and endless_program() have them. A receive is posted
  // without waiting; the compute action that needs the message waits for it. `..._sent` waits until
  // a message is sent; after it the host no longer holds the sent tensor for the message.
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
// gives_inputs(): whether the action computes the gradient of the chunk's input. gives_weights():
// whether it computes the gradients of the chunk's weights.
constexpr bool gives_inputs(Deed deed) {
  return deed == Deed::backward || deed == Deed::backward_input;
}
constexpr bool gives_weights(Deed deed) {
  return deed == Deed::backward || deed == Deed::backward_weight;
}

// One action of a rank. `chunk` numbers the parts of the model on this rank, beginning with the
// part that has the earliest layers; `micro` numbers the micro-batches of the step.
struct Action {
  Deed deed = Deed::forward;
  int chunk = 0;
  int micro = 0;
  // Whether this action runs together with the next one, as DualPipe's forward and backward do:
  // both begin when both can, and their messages leave when both have ended.
  bool with_next = false;
  bool operator==(const Action&) const = default;
};
using RankProgram = std::vector<Action>;

// The size of a pipeline and of its step.
struct PipelineShape {
  int stages = 1;  // ranks in a row
  int chunks = 1;  // parts of the model on each rank
  int micro_batches = 1;
  // Number of micro-batches that an interleaved schedule takes through one chunk before it begins
  // the next chunk. 0 = PyTorch's default, m / max(1, m / p) for m micro-batches and p stages.
  // Megatron-LM's default is `stages`, which is the same number if `stages` divides the
  // micro-batches.
  int group = 0;
  // Number of token slices of each micro-batch. Each slice counts as a micro-batch here, and the
  // slices of one micro-batch have consecutive numbers.
  int slices = 1;

  int parts() const { return stages * chunks; }
};

// The rank of part `part` of the model (0 = the part with the input), and the part's number among
// the rank's chunks. In interleaved schedules consecutive parts go round the ranks; in V-shaped
// schedules they go there and back:
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

// Chunks per rank if the scenario does not set them: 2 for V-shaped, interleaved and looped-bfs
// schedules, else 1.
int usual_chunks(PipelineSchedule schedule);
inline int chunks_of(const PipelineOptions& options) {
  return options.chunks > 0 ? static_cast<int>(options.chunks) : usual_chunks(options.schedule);
}
// A reason why a schedule cannot have a shape, with a hint at shapes that it can have.
struct ScheduleMisfit {
  std::string field;  // "pipeline.chunks", "pipeline.slices", "batch"
  std::string message, hint;
};
// All reasons why the schedule cannot have the shape; empty = it can.
std::vector<ScheduleMisfit> misfits_of(PipelineSchedule schedule, const PipelineShape& shape);

// The program of every rank, in the order of ranks, without messages. For schedules that PyTorch
// has, and with PipelineShape::group = 0, the programs equal PyTorch's lists action by action
// (torch/distributed/pipelining/schedules.py, 2.15).
// REQUIRES: misfits_of(schedule, shape) is empty.
std::vector<RankProgram> programs_of(PipelineSchedule schedule, const PipelineShape& shape);

// The program of one stage of a schedule that never drains (PipeDream: Narayanan et al. 2019), with
// its messages: an opening of forwards, then the program that every step repeats. Forwards run
// ahead of backwards by the number of forwards in the opening, so some forwards of a step's program
// belong to the next step. Micro-batch numbers are modulo the micro-batches of a step.
struct EndlessProgram {
  RankProgram opening, step;
};
EndlessProgram endless_program(const PipelineShape& shape, int rank);

// Number of old versions of the weights that a stage stores besides the newest one, because
// micro-batches in flight were computed with them. 0 for schedules that drain.
int stashed_weights(PipelineSchedule schedule, const PipelineShape& shape, int rank);
// Number of updates that a stage makes between a micro-batch's forward and the update that applies
// the micro-batch's gradient, once the pipeline is full; 0 for schedules that drain. For pipedream
// the number holds for steps of one micro-batch.
int stage_staleness(PipelineSchedule schedule, const PipelineShape& shape, int rank);

// The programs with the messages that the ranks' hosts issue between the actions.
// keep_outputs = true follows PyTorch. GPipe and 1F1B have loops of their own. Other schedules use
// PyTorch's _PipelineScheduleRuntime, which posts a receive when the sender's program reaches the
// send (_add_send_recv), and which holds a sent activation until its backward and a sent gradient
// until the step ends (_add_wait_send).
// keep_outputs = false follows Megatron-LM: a message is received just before its use, and a tensor
// is freed as soon as it is sent.
std::vector<RankProgram> with_messages(PipelineSchedule schedule, const PipelineShape& shape,
                                       std::span<const RankProgram> programs, bool keep_outputs);

// A shape with fewer micro-batches that has the same memory peak: its programs have the same peak
// number of micro-batches in flight on each rank, reached by the same sequence of actions, and
// contain the steady state. It saves time when memory is simulated. The result is the shape itself
// if it is short already, and for gpipe and looped_bfs, which have all micro-batches in flight. A
// schedule that never drains has micro-batches of several steps in flight, so its result may have
// more micro-batches than a step.
PipelineShape settled_shape(PipelineSchedule schedule, const PipelineShape& shape);

// The program of a rank without a pipeline: for one micro-batch after the other, its forward and
// its backward.
RankProgram without_pipeline(int micro_batches);

// The reason why programs without messages cannot run: their number is not that of the stages; an
// action does not exist in the shape, is missing or repeated, or comes before another one that it
// needs on its own rank; or ranks wait for each other. "" = the programs run to their end.
std::string fault_of(PipelineSchedule schedule, const PipelineShape& shape,
                     std::span<const RankProgram> programs);

// Seconds of one micro-batch in one part of the model.
struct PartTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
};
// Times of an ideal pipeline, in seconds, in which only programs and messages determine when work
// runs.
struct PipelineTimes {
  std::vector<double> busy, begin, end;   // by rank
  std::vector<std::vector<double>> ends;  // by rank, by action
  double makespan = 0;                    // the latest end
  // Mean idle share of the ranks: 1 - (mean of busy) / makespan; 0 if the makespan is 0.
  double bubble() const;
};
// Executes the programs with the times of each part of the model, in the model's order. `transfer`:
// seconds from the end of an action to the earliest start of the action on another rank that needs
// its message. A transfer occupies no rank.
// REQUIRES: fault_of(schedule, shape, programs) is "".
PipelineTimes pipeline_times(PipelineSchedule schedule, const PipelineShape& shape,
                             std::span<const RankProgram> programs,
                             std::span<const PartTimes> parts, double transfer);

// The most micro-batches in flight at one moment on a rank: micro-batches whose forward has run,
// but not yet their input gradient (until_input) or their weight gradient (until_weight). A
// micro-batch in flight in two chunks counts twice.
struct InFlight {
  int until_input = 0, until_weight = 0;
  bool operator==(const InFlight&) const = default;
};
InFlight in_flight(const RankProgram& program);

// Seconds that a stage needs for a token slice of `length` units of tokens that follows `before`
// units of the same sequence.
using SliceSeconds = std::function<double(std::size_t length, std::size_t before)>;
// The lengths of slices, which add up to `units`, that give the shortest step. A step takes
// micro_batches x the sum of all slices' seconds + (stages - 1) x the seconds of the longest slice
// (TeraPipe: Li et al. 2021, section 3.3).
std::vector<std::size_t> slice_lengths(std::size_t units, int stages, int micro_batches,
                                       const SliceSeconds& seconds);

}  // namespace lockstep
