// Parts of a training step that strategies share: issuing a collective from the host, used by
// contexts and hooks, and the input pipeline, used by the training loop.
#pragma once

#include <vector>

#include "strategies/common/network.hpp"

namespace lockstep {

// Host seconds that ProcessGroupNCCL takes for a collective, before and after the launch (fact 24).
inline constexpr double issue_before_launch = 70e-6;
inline constexpr double issue_after_launch = host_issue_seconds - issue_before_launch;

// Host time of the Python code that makes one parameter a view of a flat tensor: 10.7 us (400
// parameters, pytorch PR 96958). It is stated as a multiple of the dispatch of one backward
// operator (host_dispatch seconds on the same host), so that it scales with the simulated host.
inline constexpr double host_dispatch = 12.25e-6;
inline constexpr double view_dispatches = 10.7e-6 / host_dispatch;

// Issues one collective from the host thread. It starts when `after` has happened. Returns its end.
Event issue_collective(RankGroup& ranks, Communicator& communicator, const TransferSpec& spec,
                       const Event& after);

// The input of the ranks. A loader prepares batches ahead of time, and they are copied to the
// device in the order of the compute stream. A batch is the input of one micro-batch.
class InputPipeline {
 public:
  // `first_rank` is the rank of lane 0, if each lane is one rank.
  InputPipeline(const Job& job, RankGroup& ranks, JobNetwork& network, int first_rank);
  // Waits for the next batch and issues its copy to the device.
  Program next_batch();
  // Moves the loader's clock together with the clocks of hosts (RankGroup::repeat()).
  void move(const std::vector<double>& seconds);
  // The copy of a batch to the device.
  const PricedTransfer& copy() const { return transfer_; }

 private:
  std::vector<double> late();  // by lane: additional seconds of the next batch

  const Job& job_;
  RankGroup& ranks_;
  const int first_rank_;
  int batches_ = 0;  // number of batches drawn so far
  StreamId loader_, copy_;
  PricedTransfer transfer_;   // takes no time if the input is already on the device
  std::vector<Event> taken_;  // times at which the host took the latest batches
};

}  // namespace lockstep
