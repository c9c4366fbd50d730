// Passes in which consecutive exchanges of one communicator are simulated as one piece of work
// (engine/exchanged_work.hpp). The training loop uses it for a micro-batch that sends nothing but
// its layers' exchanges. A micro-batch may have thousands of exchanges, and each one only joins the
// lanes of its group. The step time is that of exchanges one by one.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "strategies/common/training_loop.hpp"

namespace lockstep {

class FoldedPasses {
 public:
  // Items of the pass that are played one by one, and then a run of exchanges.
  struct Item {
    std::span<const PassItem> items;
    const ExchangedWork* exchanged = nullptr;    // the run; null = there is none
    const Communicator* communicator = nullptr;  // of the run
  };
  explicit FoldedPasses(TrainingContext& context) : context_(context) {}

  // The items of a pass, folded at the first call. The exchange before a run stays by itself, so
  // that the lanes of a group begin the run together.
  // REQUIRES: `pass` keeps its address and content as long as this object lives.
  const std::vector<Item>& of(const std::vector<PassItem>& pass);
  // Adds the transfers of a run to the context's provenance.
  void tally(const ExchangedWork& work);

 private:
  std::vector<Item> folded(const std::vector<PassItem>& pass);
  // Appends the beat that begins at pass[at] to `work`. `of`: communicator of the run, set by its
  // first beat. Returns the index after the beat; 0 = no beat of this communicator begins there.
  std::size_t add_beat(const std::vector<PassItem>& pass, std::size_t at, const Communicator*& of,
                       ExchangedWork& work) const;

  TrainingContext& context_;
  std::map<const std::vector<PassItem>*, std::vector<Item>> known_;  // results of of()
  std::deque<ExchangedWork> works_;
  // By run, how often each transfer happens in it.
  std::map<const ExchangedWork*, std::map<const PricedTransfer*, int>> transfers_;
};

}  // namespace lockstep
