// Executes the programs of a pipeline's ranks in an ideal model: an action begins when its rank is
// free and its message has arrived. The results are faults (missing actions, deadlocks), times,
// bubbles, and numbers of micro-batches in flight. The full simulation with hosts, streams and
// links is in strategies/common.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "parallel/schedule.hpp"

namespace lockstep {
namespace {

constexpr double undone = -1;

// The times, in seconds, at which the passes of a micro-batch through a part of the model end;
// `undone` = not yet.
struct Progress {
  double forward = undone;
  double gradient = undone;  // of the part's input: after backward or backward_input
  double end = undone;       // after backward or backward_weight
};

// Seconds of an action. A whole backward takes the sum of its two halves.
double seconds_of(Deed deed, const PartTimes& part) {
  if (deed == Deed::forward) return part.forward;
  return (gives_inputs(deed) ? part.backward_input : 0) +
         (gives_weights(deed) ? part.backward_weight : 0);
}

std::string text_of(const Action& action, int rank) {
  constexpr std::array deeds{"forward", "backward", "input gradient", "weight gradient"};
  return fmt::format("rank {}: {} of micro-batch {} in chunk {}", rank,
                     deeds[static_cast<std::size_t>(action.deed)], action.micro, action.chunk);
}

// Executes the ranks' programs in turns. In its turn a rank advances as far as the messages that
// have arrived allow. If no rank advances, all programs have ended, or the ranks wait for each
// other.
class PipelinePlayer {
 public:
  PipelinePlayer(PipelineSchedule schedule, const PipelineShape& shape,
                 std::span<const RankProgram> programs, std::span<const PartTimes> parts,
                 double transfer)
      : schedule_(schedule),
        shape_(shape),
        programs_(programs),
        parts_(parts),
        transfer_(transfer),
        next_(programs.size()),
        progress_(static_cast<std::size_t>(shape.parts()) *
                  static_cast<std::size_t>(shape.micro_batches)) {
    times_.busy.assign(programs.size(), 0);
    times_.begin.assign(programs.size(), 0);
    times_.end.assign(programs.size(), 0);
    times_.ends.resize(programs.size());
  }

  // Executes all programs. Returns the fault that stops them; "" = they run to their end.
  std::string play() {
    for (bool moves = true; moves;) {
      moves = false;
      for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
        while (next_[rank] < programs_[rank].size()) {
          const std::span<const Action> actions = next_actions(rank);
          for (const Action& action : actions) {
            const std::string fault = fault_on(action, static_cast<int>(rank));
            if (!fault.empty()) return fault;
          }
          if (!step(actions, rank)) break;
          next_[rank] += actions.size();
          moves = true;
        }
      }
    }
    return fault_at_end();
  }
  PipelineTimes times() && {
    for (const double end : times_.end) times_.makespan = std::max(times_.makespan, end);
    return std::move(times_);
  }

 private:
  Progress& of(std::size_t part, int micro) {
    return progress_[part * static_cast<std::size_t>(shape_.micro_batches) +
                     static_cast<std::size_t>(micro)];
  }
  std::size_t part_of(const Action& action, int rank) const {
    return static_cast<std::size_t>(part_at(schedule_, shape_, {rank, action.chunk}));
  }

  // The fault of an action that does not fit the earlier actions of its own rank; "" = none.
  std::string fault_on(const Action& action, int rank) {
    if (action.chunk < 0 || action.chunk >= shape_.chunks || action.micro < 0 ||
        action.micro >= shape_.micro_batches) {
      return text_of(action, rank) + " does not exist";
    }
    const Progress& done = of(part_of(action, rank), action.micro);
    const bool forward = action.deed == Deed::forward;
    const bool weight = action.deed == Deed::backward_weight;
    if (forward ? done.forward >= 0 : (weight ? done.end : done.gradient) >= 0) {
      return text_of(action, rank) + " comes twice";
    }
    if (!forward && done.forward < 0) return text_of(action, rank) + " comes before its forward";
    if (weight && done.gradient < 0) {
      return text_of(action, rank) + " comes before its input gradient";
    }
    return "";
  }

  // The time at which the message that the action needs from a neighbouring part arrives; 0 = it
  // needs none, `undone` = not sent yet. A part on the same rank passes its result on without a
  // transfer.
  double arrival(const Action& action, int rank) {
    const auto part = static_cast<int>(part_of(action, rank));
    const bool forward = action.deed == Deed::forward;
    const int from = forward ? part - 1 : part + 1;
    if (action.deed == Deed::backward_weight || from < 0 || from >= shape_.parts()) return 0;
    const Progress& source = of(static_cast<std::size_t>(from), action.micro);
    const double end = forward ? source.forward : source.gradient;
    if (end < 0) return undone;
    return place_of(schedule_, shape_, from).rank == rank ? end : end + transfer_;
  }

  // The next action of a rank, together with the action that runs with it.
  std::span<const Action> next_actions(std::size_t rank) const {
    const std::span<const Action> left = std::span(programs_[rank]).subspan(next_[rank]);
    return left.first(left.front().with_next && left.size() > 1 ? 2 : 1);
  }

  // Executes one action, or two that run together, whose seconds add up because they share the
  // device. Returns false if a message has not been sent yet.
  bool step(std::span<const Action> actions, std::size_t rank) {
    double begin = times_.end[rank];
    double seconds = 0;
    for (const Action& action : actions) {
      const double ready = arrival(action, static_cast<int>(rank));
      if (ready < 0) return false;
      begin = std::max(begin, ready);
      seconds += seconds_of(action.deed, parts_[part_of(action, static_cast<int>(rank))]);
    }
    const double end = begin + seconds;
    if (next_[rank] == 0) times_.begin[rank] = begin;
    times_.end[rank] = end;
    times_.ends[rank].insert(times_.ends[rank].end(), actions.size(), end);
    times_.busy[rank] += seconds;
    for (const Action& action : actions) {
      Progress& progress = of(part_of(action, static_cast<int>(rank)), action.micro);
      if (action.deed == Deed::forward) progress.forward = end;
      if (gives_inputs(action.deed)) progress.gradient = end;
      if (gives_weights(action.deed)) progress.end = end;
    }
    return true;
  }

  // The fault of programs that have stopped: a rank that waits forever, or an action that is in no
  // program. "" = none.
  std::string fault_at_end() {
    for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
      if (next_[rank] < programs_[rank].size()) {
        return text_of(programs_[rank][next_[rank]], static_cast<int>(rank)) + " waits for ever";
      }
    }
    for (int part = 0; part < shape_.parts(); ++part) {
      for (int micro = 0; micro < shape_.micro_batches; ++micro) {
        const Progress& progress = of(static_cast<std::size_t>(part), micro);
        if (progress.end >= 0) continue;
        const PartPlace place = place_of(schedule_, shape_, part);
        const Deed deed = progress.gradient >= 0 ? Deed::backward_weight : Deed::backward;
        return text_of({deed, place.chunk, micro}, place.rank) + " is missing";
      }
    }
    return "";
  }

  PipelineSchedule schedule_;
  const PipelineShape& shape_;
  std::span<const RankProgram> programs_;
  std::span<const PartTimes> parts_;
  double transfer_;
  std::vector<std::size_t> next_;  // by rank: index of the next action
  std::vector<Progress> progress_;
  PipelineTimes times_;
};

}  // namespace

std::string fault_of(PipelineSchedule schedule, const PipelineShape& shape,
                     std::span<const RankProgram> programs) {
  if (static_cast<int>(programs.size()) != shape.stages) {
    return fmt::format("{} programs of {} ranks", programs.size(), shape.stages);
  }
  const std::vector<PartTimes> parts(static_cast<std::size_t>(shape.parts()));
  return PipelinePlayer(schedule, shape, programs, parts, 0).play();
}

double PipelineTimes::bubble() const {
  if (makespan <= 0) return 0;
  const double mean =
      std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size());
  return 1 - mean / makespan;
}

PipelineTimes pipeline_times(PipelineSchedule schedule, const PipelineShape& shape,
                             std::span<const RankProgram> programs,
                             std::span<const PartTimes> parts, double transfer) {
  PipelinePlayer player(schedule, shape, programs, parts, transfer);
  player.play();
  return std::move(player).times();
}

InFlight in_flight(const RankProgram& program) {
  InFlight most;
  int inputs = 0, weights = 0;
  for (const Action& action : program) {
    if (action.deed == Deed::forward) {
      ++inputs;
      ++weights;
    }
    most.until_input = std::max(most.until_input, inputs);
    most.until_weight = std::max(most.until_weight, weights);
    if (gives_inputs(action.deed)) --inputs;
    if (gives_weights(action.deed)) --weights;
  }
  return most;
}

}  // namespace lockstep
