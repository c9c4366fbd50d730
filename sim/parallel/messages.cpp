// Inserts sends, receives and waits between the actions of a pipeline's ranks, in the order in
// which training frameworks issue them. The order determines which messages overlap with compute,
// and how long a sent tensor stays in memory. Four functions follow four implementations:
// Megatron-LM's loops, PyTorch's ScheduleGPipe and Schedule1F1B, and PyTorch's
// _PipelineScheduleRuntime.
#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "parallel/schedule.hpp"

namespace lockstep {
namespace {

// Answers from which part an action receives and to which part it sends, and whether that part is
// on another rank.
class Wiring {
 public:
  Wiring(PipelineSchedule schedule, const PipelineShape& shape)
      : schedule_(schedule), shape_(shape) {}

  int part_of(const Action& action, int rank) const {
    return part_at(schedule_, shape_, {rank, action.chunk});
  }
  // The neighbouring part from which the action's input comes (source) or to which its result goes
  // (target); -1 = none. Activations go from a part to the next one, gradients of inputs to the
  // previous one.
  int source(const Action& action, int rank) const {
    const int part = part_of(action, rank);
    if (action.deed == Deed::forward) return part - 1;
    return gives_inputs(action.deed) && part + 1 < shape_.parts() ? part + 1 : -1;
  }
  int target(const Action& action, int rank) const {
    const int part = part_of(action, rank);
    if (gives_inputs(action.deed)) return part - 1;
    return action.deed == Deed::forward && part + 1 < shape_.parts() ? part + 1 : -1;
  }
  bool sends(const Action& action, int rank) const { return is_far(target(action, rank), rank); }
  bool receives(const Action& action, int rank) const { return is_far(source(action, rank), rank); }
  PartPlace place(int part) const { return place_of(schedule_, shape_, part); }

 private:
  bool is_far(int part, int rank) const { return part >= 0 && place(part).rank != rank; }

  PipelineSchedule schedule_;
  const PipelineShape& shape_;
};

// The message action that belongs to a compute action: `activation` for a forward, `gradient` for a
// backward.
Action message(const Action& action, Deed activation, Deed gradient) {
  return {action.deed == Deed::forward ? activation : gradient, action.chunk, action.micro};
}
Action receive_for(const Action& action) {
  return message(action, Deed::receive_activation, Deed::receive_gradient);
}
Action send_of(const Action& action) {
  return message(action, Deed::send_activation, Deed::send_gradient);
}
Action sent_of(const Action& action) {
  return message(action, Deed::activation_sent, Deed::gradient_sent);
}

// Megatron-LM's loops: receive just before the use, send just after the action, and wait at once
// until the message is sent.
RankProgram at_once(const Wiring& wiring, const RankProgram& program, int rank) {
  RankProgram result;
  for (const Action& action : program) {
    if (wiring.receives(action, rank)) result.push_back(receive_for(action));
    result.push_back(action);
    if (!wiring.sends(action, rank)) continue;
    result.push_back(send_of(action));
    result.push_back(sent_of(action));
  }
  return result;
}

// PyTorch's ScheduleGPipe: waits for all sends of forward before the first backward, and for all
// sends of backward at the end.
RankProgram gpipe_loop(const Wiring& wiring, const RankProgram& program, int rank) {
  RankProgram result, waits;
  for (const Action& action : program) {
    if (gives_inputs(action.deed) && !waits.empty() &&
        waits.front().deed == Deed::activation_sent) {
      result.insert(result.end(), waits.begin(), waits.end());
      waits.clear();
    }
    if (wiring.receives(action, rank)) result.push_back(receive_for(action));
    result.push_back(action);
    if (!wiring.sends(action, rank)) continue;
    result.push_back(send_of(action));
    waits.push_back(sent_of(action));
  }
  result.insert(result.end(), waits.begin(), waits.end());
  return result;
}

// PyTorch's Schedule1F1B. While forward and backward alternate, the send of one and the receive for
// the other are one exchange (a batch of both), for which the host waits: an activation is sent
// with the receive of the gradient that the next backward needs, and a gradient with the receive of
// the activation that the next forward needs. In the warm-up and the drain, the host waits for a
// send after the next action.
RankProgram one_forward_one_backward_loop(const Wiring& wiring, const RankProgram& program,
                                          int rank) {
  RankProgram result;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Action& action = program[i];
    const bool sent_before = i > 0 && wiring.sends(program[i - 1], rank);
    const bool exchange =
        i > 0 && (program[i - 1].deed == Deed::forward) != (action.deed == Deed::forward);
    if (exchange && sent_before) result.push_back(send_of(program[i - 1]));
    if (wiring.receives(action, rank)) result.push_back(receive_for(action));
    if (exchange && sent_before) result.push_back(sent_of(program[i - 1]));
    result.push_back(action);
    if (!exchange && sent_before) result.push_back(sent_of(program[i - 1]));
    if (!wiring.sends(action, rank)) continue;
    const bool last = i + 1 == program.size();
    const bool with_next =
        !last && (program[i + 1].deed == Deed::forward) != (action.deed == Deed::forward);
    if (!with_next) result.push_back(send_of(action));
    if (last) result.push_back(sent_of(action));
  }
  return result;
}

// PyTorch's _PipelineScheduleRuntime. Its compiler simulates the ranks in turns of one action each.
// When an action of a rank sends, the receive is appended to the program that the receiver has at
// that moment (_add_send_recv).
class RuntimeWriter {
 public:
  RuntimeWriter(const Wiring& wiring, const PipelineShape& shape,
                std::span<const RankProgram> programs)
      : wiring_(wiring), programs_(programs), next_(programs.size()), result_(programs.size()) {
    pauses_.resize(programs.size());
    left_.assign(programs.size(),
                 std::vector<int>(static_cast<std::size_t>(shape.chunks), shape.micro_batches));
  }

  // Takes turns until no rank can advance. Then appends the waits for sent gradients, with which
  // the step ends.
  std::vector<RankProgram> write() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < programs_.size(); ++rank) moves |= turn(rank);
    }
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      const RankProgram held = result_[rank];
      for (const Action& action : held) {
        if (action.deed == Deed::send_gradient) {
          result_[rank].push_back({Deed::gradient_sent, action.chunk, action.micro});
        }
      }
    }
    return std::move(result_);
  }

 private:
  // After a chunk's last backward a rank spends this many turns on actions of the runtime: reduce
  // the gradients, wait for the reduction, free the parameters (_add_reduce_grad,
  // _add_unshard_reshard). The actions exist also without FSDP and delay the rank's next action.
  static constexpr int turns_of_reduction = 3;

  // Whether the action's input is available: its receive is posted, or the neighbouring part on the
  // same rank is done.
  bool is_ready(const Action& action, int rank) const {
    if (wiring_.source(action, rank) < 0) return true;
    const Action needed = receive_for(action);
    const int part = wiring_.source(action, rank);
    return wiring_.receives(action, rank)
               ? has_.contains({rank, needed.deed, needed.chunk, needed.micro})
               : done_.contains({part, action.deed == Deed::forward, action.micro});
  }

  // Takes one turn of a rank; returns false if the rank waits or has ended. An activation that was
  // sent is freed after the backward of its chunk.
  bool turn(std::size_t number) {
    const auto rank = static_cast<int>(number);
    if (pauses_[number] > 0) {
      --pauses_[number];
      return true;
    }
    const std::span<const Action> left = std::span(programs_[number]).subspan(next_[number]);
    if (left.empty()) return false;
    const std::span<const Action> actions = left.first(left.front().with_next ? 2 : 1);
    for (const Action& action : actions) {
      if (!is_ready(action, rank)) return false;
    }
    RankProgram& program = result_[number];
    program.insert(program.end(), actions.begin(), actions.end());
    for (const Action& action : actions) {
      if (gives_inputs(action.deed) &&
          wiring_.sends({Deed::forward, action.chunk, action.micro}, rank)) {
        program.push_back({Deed::activation_sent, action.chunk, action.micro});
      }
    }
    for (const Action& action : actions) finish(action, rank);
    next_[number] += actions.size();
    return true;
  }

  // Records a completed action, and appends its send and the receiver's receive.
  void finish(const Action& action, int rank) {
    const auto number = static_cast<std::size_t>(rank);
    if (action.deed != Deed::backward_weight) {
      done_.insert({wiring_.part_of(action, rank), action.deed == Deed::forward, action.micro});
    }
    if (gives_weights(action.deed) &&
        --left_[number][static_cast<std::size_t>(action.chunk)] == 0) {
      pauses_[number] += turns_of_reduction;
    }
    if (!wiring_.sends(action, rank)) return;
    result_[number].push_back(send_of(action));
    const PartPlace to = wiring_.place(wiring_.target(action, rank));
    const Action arrival{receive_for(action).deed, to.chunk, action.micro};
    result_[static_cast<std::size_t>(to.rank)].push_back(arrival);
    has_.insert({to.rank, arrival.deed, arrival.chunk, arrival.micro});
  }

  const Wiring& wiring_;
  std::span<const RankProgram> programs_;
  std::vector<std::size_t> next_;
  std::vector<int> pauses_;                        // by rank: number of turns to skip
  std::vector<std::vector<int>> left_;             // by rank and chunk: number of backwards left
  std::set<std::tuple<int, Deed, int, int>> has_;  // posted receives: rank, deed, chunk, micro
  std::set<std::tuple<int, bool, int>> done_;      // part, forward, micro-batch
  std::vector<RankProgram> result_;
};

}  // namespace

std::vector<RankProgram> with_messages(PipelineSchedule schedule, const PipelineShape& shape,
                                       std::span<const RankProgram> programs, bool keep_outputs) {
  const Wiring wiring(schedule, shape);
  const bool loop =
      schedule == PipelineSchedule::gpipe || schedule == PipelineSchedule::one_f_one_b;
  if (keep_outputs && !loop) return RuntimeWriter(wiring, shape, programs).write();
  std::vector<RankProgram> result;
  for (int rank = 0; rank < shape.stages; ++rank) {
    const RankProgram& program = programs[static_cast<std::size_t>(rank)];
    if (!keep_outputs) {
      result.push_back(at_once(wiring, program, rank));
    } else if (schedule == PipelineSchedule::gpipe) {
      result.push_back(gpipe_loop(wiring, program, rank));
    } else {
      result.push_back(one_forward_one_backward_loop(wiring, program, rank));
    }
  }
  return result;
}

}  // namespace lockstep
