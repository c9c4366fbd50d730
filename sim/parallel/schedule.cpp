// Implements the common part of all pipeline schedules: the places of the model's parts, the shapes
// that a schedule can have, and the choice of a generator. The conditions on rounds and groups of
// micro-batches come from PyTorch 2.15 and Megatron-LM.
#include "parallel/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/schedules/schedules.hpp"

namespace lockstep {
namespace {

bool is_v_shaped(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::zbv || schedule == PipelineSchedule::dualpipe_v;
}

bool takes_several_chunks(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::looped_bfs ||
         schedule == PipelineSchedule::zb1p;
}

// Whether micro-batches go through the chunks in groups.
bool has_groups(PipelineSchedule schedule, const PipelineShape& shape) {
  return shape.chunks > 1 &&
         (schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::zb1p);
}

// V-shaped schedules must have two chunks; interleaved, looped-bfs and zb1p may have any number;
// all others have one.
void check_chunks(PipelineSchedule schedule, const PipelineShape& shape,
                  std::vector<ScheduleMisfit>& misfits) {
  const std::string name = enum_name(schedule);
  const std::string message =
      fmt::format("{} cannot have {} parts of the model on each GPU", name, shape.chunks);
  if (is_v_shaped(schedule)) {
    if (shape.chunks != 2) {
      misfits.push_back({"pipeline.chunks", message, fmt::format("{} has 2", name)});
    }
  } else if (!takes_several_chunks(schedule) && shape.chunks != 1) {
    misfits.push_back({"pipeline.chunks", message,
                       fmt::format("{} has 1; interleaved, looped-bfs and zb1p take more", name)});
  }
}

// PyTorch 2.15 processes micro-batches in equal rounds of at least `stages` micro-batches.
void check_rounds(const PipelineShape& shape, std::vector<ScheduleMisfit>& misfits) {
  const int rounds = std::max(1, shape.micro_batches / shape.stages);
  if (shape.micro_batches % rounds == 0) return;
  const int below = shape.micro_batches / shape.stages * shape.stages;
  misfits.push_back(
      {"batch",
       fmt::format("{} micro-batches cannot go through {} stages with {} chunks in {} equal rounds",
                   shape.micro_batches, shape.stages, shape.chunks, rounds),
       fmt::format("{} or {} micro-batches can", below, below + shape.stages)});
}

// Megatron-LM, core/pipeline_parallel/schedules.py: a group has at least `stages` micro-batches and
// at most all of a step. The last group may be smaller than the others, but not smaller than
// `stages`.
void check_group(const PipelineShape& shape, std::vector<ScheduleMisfit>& misfits) {
  const int rest = shape.micro_batches % shape.group;
  if (shape.group < shape.stages || shape.group > shape.micro_batches) {
    misfits.push_back(
        {"batch",
         fmt::format("{} micro-batches of {} stages cannot go in groups of {}", shape.micro_batches,
                     shape.stages, shape.group),
         fmt::format("a group has {} micro-batches or more, up to all of a step", shape.stages)});
  } else if (rest > 0 && rest < shape.stages) {
    const int below = shape.micro_batches - rest;
    misfits.push_back(
        {"batch",
         fmt::format("{} micro-batches in groups of {} leave {}, fewer than the {} stages",
                     shape.micro_batches, shape.group, rest, shape.stages),
         fmt::format("{} or {} micro-batches do not", below, below + shape.group)});
  }
}

}  // namespace

PartPlace place_of(PipelineSchedule schedule, const PipelineShape& shape, int part) {
  const int chunk = part / shape.stages;
  const int along = part % shape.stages;
  const bool back = is_v_shaped(schedule) && chunk % 2 == 1;
  return {back ? shape.stages - 1 - along : along, chunk};
}

int part_at(PipelineSchedule schedule, const PipelineShape& shape, const PartPlace& place) {
  const bool back = is_v_shaped(schedule) && place.chunk % 2 == 1;
  return place.chunk * shape.stages + (back ? shape.stages - 1 - place.rank : place.rank);
}

int usual_chunks(PipelineSchedule schedule) {
  const bool several = is_v_shaped(schedule) || schedule == PipelineSchedule::interleaved ||
                       schedule == PipelineSchedule::looped_bfs;
  return several ? 2 : 1;
}

std::vector<ScheduleMisfit> misfits_of(PipelineSchedule schedule, const PipelineShape& shape) {
  std::vector<ScheduleMisfit> misfits;
  check_chunks(schedule, shape, misfits);
  if (shape.slices > 1 && schedule != PipelineSchedule::gpipe) {
    misfits.push_back(
        {"pipeline.slices",
         fmt::format("{} takes whole sequences through the stages", enum_name(schedule)),
         "schedule: gpipe"});
  }
  if (has_groups(schedule, shape)) {
    if (shape.group == 0) {
      check_rounds(shape, misfits);
    } else {
      check_group(shape, misfits);
    }
  }
  // With fewer micro-batches than stages, micro-batches of three steps would be in flight at the
  // same time.
  if (schedule == PipelineSchedule::pipedream_2bw && shape.micro_batches < shape.stages) {
    misfits.push_back(
        {"batch",
         fmt::format("{} micro-batches in {} stages meet more than two versions of the weights",
                     shape.micro_batches, shape.stages),
         fmt::format("pipedream, or {} micro-batches or more", shape.stages)});
  }
  if (schedule == PipelineSchedule::dualpipe_v && shape.micro_batches < 2 * shape.stages) {
    misfits.push_back({"batch",
                       fmt::format("dualpipe-v cannot take {} micro-batches through {} stages",
                                   shape.micro_batches, shape.stages),
                       fmt::format("{} micro-batches or more can", 2 * shape.stages)});
  }
  return misfits;
}

std::vector<RankProgram> programs_of(PipelineSchedule schedule, const PipelineShape& shape) {
  std::vector<RankProgram> programs;
  for (int rank = 0; rank < shape.stages; ++rank) {
    switch (schedule) {
      case PipelineSchedule::gpipe:
        programs.push_back(schedules::gpipe(shape));
        break;
      case PipelineSchedule::one_f_one_b:
      case PipelineSchedule::pipedream:
      case PipelineSchedule::pipedream_2bw:
        programs.push_back(schedules::one_forward_one_backward(shape, rank));
        break;
      case PipelineSchedule::interleaved:
        programs.push_back(schedules::interleaved(shape, rank));
        break;
      case PipelineSchedule::looped_bfs:
        programs.push_back(schedules::looped_breadth_first(shape));
        break;
      case PipelineSchedule::zb1p:
        programs.push_back(schedules::zero_bubble(shape, rank, 1));
        break;
      case PipelineSchedule::zb_h2:
        programs.push_back(schedules::zero_bubble(shape, rank, 2));
        break;
      case PipelineSchedule::zbv:
        programs.push_back(schedules::zero_bubble_v(shape, rank));
        break;
      case PipelineSchedule::dualpipe_v:
        programs.push_back(schedules::dual_pipe_v(shape, rank));
        break;
    }
  }
  return programs;
}

// Each number below is enough for the warm-up of the first stage, the drain, and a steady state
// between them. GPipe and looped breadth-first have all micro-batches in flight, so they cannot be
// shortened.
PipelineShape settled_shape(PipelineSchedule schedule, const PipelineShape& shape) {
  const int stages = shape.stages;
  const int chunks = shape.chunks;
  PipelineShape settled = shape;
  const auto take = [&](int micro_batches) {
    settled.micro_batches = std::min(shape.micro_batches, micro_batches);
  };
  // Takes enough whole groups for `forwards` passes of micro-batches through chunks, and one more
  // group.
  const auto take_groups = [&](int forwards) {
    const int group = schedules::group_size(shape);
    const int groups = (forwards + chunks * group - 1) / (chunks * group) + 1;
    if (groups * group >= shape.micro_batches) return;
    settled.micro_batches = groups * group;
    settled.group = group;
  };
  switch (schedule) {
    case PipelineSchedule::gpipe:
    case PipelineSchedule::looped_bfs:
      break;
    case PipelineSchedule::one_f_one_b:
      take(stages + 2);
      break;
    case PipelineSchedule::pipedream:
    case PipelineSchedule::pipedream_2bw:
      settled.micro_batches = stages + 2;  // steps overlap, so this may exceed a step
      break;
    case PipelineSchedule::interleaved:
    case PipelineSchedule::zb1p:
      take_groups(2 * stages + (chunks - 1) * schedules::group_size(shape));
      break;
    case PipelineSchedule::zb_h2:
      take(4 * stages);
      break;
    case PipelineSchedule::zbv:
    case PipelineSchedule::dualpipe_v:
      take(3 * stages + 2);
      break;
  }
  return settled;
}

RankProgram without_pipeline(int micro_batches) {
  RankProgram program;
  for (int micro = 0; micro < micro_batches; ++micro) {
    program.push_back({Deed::forward, 0, micro});
    program.push_back({Deed::backward, 0, micro});
  }
  return program;
}

}  // namespace lockstep
