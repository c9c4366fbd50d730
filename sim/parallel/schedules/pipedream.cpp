// PipeDream (Narayanan et al. 2019; fact H75): one forward and one backward alternate, and the
// pipeline never drains between steps. A stage runs ahead of its backwards by one forward for each
// stage behind it. PipeDream-2BW (Narayanan et al. 2021, arXiv 2006.09503, section 3.1) computes
// the micro-batches of a step with the weights of the step before. Example: rank 0 of 3, steps of 2
// micro-batches:
//   opening F0 F1 | step F0 B0 F1 B1 | step F0 B0 F1 B1 | ...
#include "parallel/schedule.hpp"

namespace lockstep {

EndlessProgram endless_program(const PipelineShape& shape, int rank) {
  const int ahead = shape.stages - 1 - rank, micro_batches = shape.micro_batches;
  EndlessProgram program;
  // The first stage receives no activation, and the last stage no gradient.
  const auto receive = [&](RankProgram& to, Deed deed, int micro) {
    const bool there_is_one = deed == Deed::receive_activation ? rank > 0 : ahead > 0;
    if (there_is_one) to.push_back({deed, 0, micro % micro_batches});
  };
  // The receive for the next micro-batch is posted before the output of this one is sent, so that
  // messages travel during compute.
  const auto forward = [&](RankProgram& to, int micro) {
    to.push_back({Deed::forward, 0, micro % micro_batches});
    receive(to, Deed::receive_activation, micro + 1);
    if (ahead > 0) to.push_back({Deed::send_activation, 0, micro % micro_batches});
  };
  const auto backward = [&](RankProgram& to, int micro) {
    to.push_back({Deed::backward, 0, micro});
    receive(to, Deed::receive_gradient, micro + 1);
    if (rank > 0) to.push_back({Deed::send_gradient, 0, micro});
  };
  receive(program.opening, Deed::receive_activation, 0);
  receive(program.opening, Deed::receive_gradient, 0);
  for (int micro = 0; micro < ahead; ++micro) forward(program.opening, micro);
  for (int micro = 0; micro < micro_batches; ++micro) {
    forward(program.step, micro + ahead);
    backward(program.step, micro);
  }
  return program;
}

// pipedream: the `ahead` micro-batches in flight belong to ceil(ahead / micro_batches) steps, and
// each step has a version of its own. pipedream_2bw: always the version of the step before.
int stashed_weights(PipelineSchedule schedule, const PipelineShape& shape, int rank) {
  if (drains(schedule)) return 0;
  if (schedule == PipelineSchedule::pipedream_2bw) return 1;
  const int ahead = shape.stages - 1 - rank;
  return (ahead + shape.micro_batches - 1) / shape.micro_batches;
}

int stage_staleness(PipelineSchedule schedule, const PipelineShape& shape, int rank) {
  if (drains(schedule)) return 0;
  return schedule == PipelineSchedule::pipedream_2bw ? 1 : shape.stages - 1 - rank;
}

}  // namespace lockstep
