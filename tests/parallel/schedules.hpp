// Shapes of pipelines. Used by the tests of this room.
#pragma once

#include <array>

#include "parallel/schedule.hpp"

namespace lockstep {

inline constexpr std::array pipeline_schedules{
    PipelineSchedule::gpipe,      PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved,
    PipelineSchedule::looped_bfs, PipelineSchedule::zb1p,        PipelineSchedule::zb_h2,
    PipelineSchedule::zbv,        PipelineSchedule::dualpipe_v};

// The times of equal parts, which add up to `stage` on each rank.
inline std::vector<PartTimes> equal_parts(const PipelineShape& shape, PartTimes stage = {}) {
  const PartTimes part{stage.forward / shape.chunks, stage.backward_input / shape.chunks,
                       stage.backward_weight / shape.chunks};
  return std::vector<PartTimes>(static_cast<std::size_t>(shape.parts()), part);
}

inline PipelineTimes times_of(PipelineSchedule schedule, const PipelineShape& shape,
                              PartTimes stage = {}, double transfer = 0) {
  return pipeline_times(schedule, shape, programs_of(schedule, shape), equal_parts(shape, stage),
                        transfer);
}

}  // namespace lockstep
