// Parts of a training step that strategies share: collectives issued by the host, and input. Use
// them in hooks.
#pragma once

#include <vector>

#include "strategies/common/network.hpp"

namespace lockstep {

// Host time of a collective through ProcessGroupNCCL before and after its launch (fact 24).
inline constexpr double issue_before_launch = 70e-6;
inline constexpr double issue_after_launch = host_issue_seconds - issue_before_launch;

// Host time of Python code that makes one parameter a view of a flat tensor: 10.7 us (400
// parameters, pytorch PR 96958), in units of the dispatch of one backward operator on the same
// host.
inline constexpr double host_dispatch = 12.25e-6;
inline constexpr double view_dispatches = 10.7e-6 / host_dispatch;

// Issues one collective from the host thread.
Event issue_collective(RankGroup& ranks, Communicator& communicator, const TransferSpec& spec,
                       const Event& after);

// Batches come from a loader that works ahead, and are copied to the device in the compute stream.
class InputPipeline {
 public:
  // `first_rank`: the first rank of its lanes, if lanes are ranks.
  InputPipeline(const Job& job, RankGroup& ranks, JobNetwork& network, int first_rank);
  Program next_batch();
  // Follows a host whose clock is moved.
  void move(const std::vector<double>& seconds);
  // The copy of one micro-batch to the device.
  const PricedTransfer& copy() const { return transfer_; }

 private:
  std::vector<double> late();  // how much each lane's next batch is

  const Job& job_;
  RankGroup& ranks_;
  const int first_rank_;
  int batches_ = 0;
  StreamId loader_, copy_;
  PricedTransfer transfer_;
  std::vector<Event> taken_;  // when the host took each of the latest batches
};

}  // namespace lockstep
