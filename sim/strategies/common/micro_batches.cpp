// Compares the stretches between marks (RankGroup::mark()) at the ends of micro-batches, and
// repeats a stretch that has become steady (RankGroup::repeat()).
// tests/strategies/micro_batches_test.cpp compares the result with the simulation of every
// micro-batch.
#include "strategies/common/micro_batches.hpp"

#include <cmath>

namespace lockstep {

namespace {

constexpr int agreeing = agreeing_steps;  // number of micro-batches that must agree

// Whether two values agree within `agreement`, relative to `scale`.
bool close(double a, double b, double scale) {
  return std::abs(a - b) <= agreement * scale;
}

// A micro-batch between two marks, as differences of their clocks and sums.
struct Stretch {
  const Mark& from;
  const Mark& to;

  std::size_t lanes() const { return to.device.size(); }
  double device(std::size_t lane) const { return to.device[lane] - from.device[lane]; }
  double host(std::size_t lane) const { return to.host[lane] - from.host[lane]; }
  double part(double StepSplit::*part) const { return to.sums.split.*part - from.sums.split.*part; }
  double of_lane(std::size_t lane, std::vector<double> LaneSteps::*part) const {
    return (to.sums.lanes.*part)[lane] - (from.sums.lanes.*part)[lane];
  }
  double interference() const { return to.sums.interference - from.sums.interference; }
};

// Whether the host of every lane advances equally in `a` and `b`. `device` gives the scale of the
// comparison.
bool same_host(const Stretch& a, const Stretch& b, const Stretch& device) {
  for (std::size_t lane = 0; lane < device.lanes(); ++lane) {
    if (!close(a.host(lane), b.host(lane), device.device(lane))) return false;
  }
  return true;
}

// Whether two micro-batches are equal in the clocks of every lane and in every part of the step.
bool alike(const Stretch& a, const Stretch& b) {
  for (std::size_t lane = 0; lane < b.lanes(); ++lane) {
    const double seconds = b.device(lane);
    if (!close(a.device(lane), seconds, seconds)) return false;
    for (const auto part : {&LaneSteps::communicating, &LaneSteps::waiting}) {
      if (!close(a.of_lane(lane, part), b.of_lane(lane, part), seconds)) return false;
    }
  }
  double all = 0;
  for (const auto part : step_parts) all += b.part(part);
  for (const auto part : step_parts) {
    if (!close(a.part(part), b.part(part), all)) return false;
  }
  return close(a.interference(), b.interference(), all) && same_host(a, b, b);
}

// Whether neither a host nor the loader is slower than the device. A slower host or loader that is
// still ahead delays the device only later, so equal micro-batches would not remain equal.
bool device_sets_the_pace(const Stretch& stretch, const Job& job) {
  for (std::size_t lane = 0; lane < stretch.lanes(); ++lane) {
    const double host = one_thread(job) ? stretch.device(lane) : stretch.host(lane);
    if (host > stretch.device(lane) * (1 + agreement)) return false;
    if (job.data_loading_seconds > host * (1 + agreement)) return false;
  }
  return true;
}

// Whether all lanes advance equally. If lanes share a collective or the loader and do not advance
// equally, the pattern never repeats.
bool lanes_keep_together(const Stretch& stretch, const Job& job) {
  if (stretch.from.collectives == stretch.to.collectives && job.data_loading_seconds <= 0) {
    return true;
  }
  for (std::size_t lane = 1; lane < stretch.lanes(); ++lane) {
    if (!close(stretch.device(lane), stretch.device(0), stretch.device(0))) return false;
  }
  return true;
}

}  // namespace

MiddleMicroBatches::MiddleMicroBatches(const Job& job, RankGroup& ranks, InputPipeline& input,
                                       ProvenanceTally& provenance)
    : job_(job),
      ranks_(ranks),
      input_(input),
      provenance_(provenance),
      // Enough micro-batches are: the first, the ones that must agree, one that is issued ahead, at
      // least one to count, and the last.
      possible_(job.accumulation > agreeing + 3 && job.simulation.observer == nullptr &&
                alike_steps(job.stragglers)) {}

Program MiddleMicroBatches::ended(int micro) {
  counted_ = 0;
  if (!possible_) co_return;
  if (micro == 0) {
    marks_.clear();
    tallies_.clear();
  }
  marks_.push_back(ranks_.mark());
  tallies_.push_back(provenance_);
  if (micro == 0) co_return;
  // Waits until the compute stream has reached the previous mark, so that work is issued one
  // micro-batch ahead of simulated time and never late (run_steps() does so with steps).
  co_await ranks_.await_mark(marks_[static_cast<std::size_t>(micro) - 1]);
  const int rest = job_.accumulation - 2 - micro;
  if (rest <= 0 || !steady(micro)) co_return;
  // Repeats the latest finished micro-batch, with its clocks, its traffic and its provenance.
  counted_ = rest;
  const auto last = static_cast<std::size_t>(micro) - 1;
  input_.move(ranks_.repeat(marks_[last - 1], marks_[last], rest));
  provenance_.add(tallies_[last], rest);
  provenance_.add(tallies_[last - 1], -rest);
}

// The host's clocks are known up to micro-batch `micro`, the device's clocks up to the one before.
bool MiddleMicroBatches::steady(int micro) const {
  const int last = micro - 1;
  if (last < agreeing) return false;
  const Stretch latest{mark(last - 1), mark(last)};
  for (int before = last - agreeing + 1; before < last; ++before) {
    if (!alike({mark(before - 1), mark(before)}, latest)) return false;
  }
  return same_host({mark(last), mark(micro)}, latest, latest) &&
         device_sets_the_pace(latest, job_) && lanes_keep_together(latest, job_);
}

}  // namespace lockstep
