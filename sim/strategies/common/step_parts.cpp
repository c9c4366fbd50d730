// Issues collectives with the host's time before and after the launch. Plays the data loader as a
// stream that prepares at most two batches ahead, as PyTorch's DataLoader does.
#include "strategies/common/step_parts.hpp"

#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {
// Number of batches that a DataLoader prepares ahead: the default of its prefetch_factor.
constexpr std::size_t prefetched_batches = 2;
}  // namespace

Event issue_collective(RankGroup& ranks, Communicator& communicator, const TransferSpec& spec,
                       const Event& after) {
  ranks.host(issue_before_launch, spec.name);
  const Event done = ranks.start(communicator, spec, after);
  ranks.host(issue_after_launch, spec.name);
  return done;
}

InputPipeline::InputPipeline(const Job& job, RankGroup& ranks, JobNetwork& network, int first_rank)
    : job_(job),
      ranks_(ranks),
      first_rank_(first_rank),
      loader_(ranks.add_stream("loader", WaitCause::data_loading)),
      copy_(ranks.add_stream("input copy", WaitCause::data_loading)) {
  if (!job.input_on_device && job.step->input_bytes > 0 &&
      job.machine.device.architecture != Architecture::cpu) {
    transfer_ = network.host_device_copy(job.step->input_bytes);
    transfer_.spec.name = "Memcpy HtoD (input)";
  }
}

// Empty without hiccups. With hiccups each lane is one rank, so the lane's number gives the rank of
// a draw.
std::vector<double> InputPipeline::late() {
  std::vector<double> seconds;
  if (!job_.stragglers.loader_hiccups) return seconds;
  for (int lane = 0; lane < ranks_.lanes(); ++lane) {
    seconds.push_back(hiccup(*job_.stragglers.loader_hiccups, job_.simulation.seed,
                             first_rank_ + lane, batches_));
  }
  ++batches_;
  return seconds;
}

void InputPipeline::move(const std::vector<double>& seconds) {
  ranks_.move(loader_, seconds);
  for (Event& taken : taken_) taken = RankGroup::moved(taken, seconds);
}

// The loader begins a batch when it has finished the previous batch and the host has taken the one
// two batches before. Host and compute stream wait for the batch.
Program InputPipeline::next_batch() {
  // Megatron broadcasts the sizes of each micro-batch in the tensor-parallel group and copies them
  // back to the host (mpu/data.py, _build_key_size_numel_dictionaries), which waits there.
  if (job_.framework != FrameworkKind::pytorch) co_await ranks_.host_wait(ranks_.record());
  // First wait until the host has come this far. This wait counts as host-bound; only the remaining
  // idle time counts as data loading.
  ranks_.wait(ranks_.host_position());
  if (job_.data_loading_seconds > 0 || job_.stragglers.loader_hiccups) {
    const Event room = taken_.size() < prefetched_batches ? Event{} : taken_.front();
    const Event batch =
        ranks_.enqueue(loader_, job_.data_loading_seconds, room, false, "next batch", late());
    ranks_.wait(batch);
    co_await ranks_.host_wait(batch);
    taken_.push_back(ranks_.host_position());
    if (taken_.size() > prefetched_batches) taken_.erase(taken_.begin());
  }
  if (transfer_.seconds > 0) {
    ranks_.wait(ranks_.copy(copy_, transfer_.spec, ranks_.record()));
  }
}

}  // namespace lockstep
