// Parts of a training step that strategies share: collectives issued by the host, and the input
// pipeline. Contexts and hooks use the first, the training loop the second.
#pragma once

#include <vector>

#include "strategies/common/network.hpp"

namespace lockstep {

// Host seconds of a collective through ProcessGroupNCCL before and after its launch (fact 24).
inline constexpr double issue_before_launch = 70e-6;
inline constexpr double issue_after_launch = host_issue_seconds - issue_before_launch;

// Host time of Python code that makes one parameter a view of a flat tensor: 10.7 us (400
// parameters, pytorch PR 96958). It is given in dispatches of one backward operator (host_dispatch
// seconds on the same host), so that it follows the speed of the simulated host.
inline constexpr double host_dispatch = 12.25e-6;
inline constexpr double view_dispatches = 10.7e-6 / host_dispatch;

// Issues one collective from the host thread; it starts when `after` has happened. Returns its end.
Event issue_collective(RankGroup& ranks, Communicator& communicator, const TransferSpec& spec,
                       const Event& after);

// Batches come from a loader that works ahead, and are copied to the device in the order of the
// compute stream. A batch here is the input of one micro-batch.
class InputPipeline {
 public:
  // `first_rank`: the rank of lane 0, if each lane is one rank.
  InputPipeline(const Job& job, RankGroup& ranks, JobNetwork& network, int first_rank);
  // Waits for the next batch and issues its copy to the device.
  Program next_batch();
  // Moves the loader's clock along with hosts whose clocks are moved (RankGroup::repeat).
  void move(const std::vector<double>& seconds);
  // The copy of one micro-batch to the device.
  const PricedTransfer& copy() const { return transfer_; }

 private:
  std::vector<double> late();  // by lane, extra seconds of the next batch

  const Job& job_;
  RankGroup& ranks_;
  const int first_rank_;
  int batches_ = 0;  // drawn so far
  StreamId loader_, copy_;
  PricedTransfer transfer_;   // no time if the input is on the device already
  std::vector<Event> taken_;  // moments at which the host took the latest batches
};

}  // namespace lockstep
