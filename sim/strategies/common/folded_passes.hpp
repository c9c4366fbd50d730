// Passes whose exchanges are simulated together. Use it for a micro-batch that sends nothing else:
// it may have thousands of exchanges, each of which only joins the lanes of its group.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "strategies/common/training_loop.hpp"

namespace lockstep {

class FoldedPasses {
 public:
  struct Item {
    std::span<const PassItem> items;           // as in the pass, and then
    const ExchangedWork* exchanged = nullptr;  // a run; null = none
    const Communicator* communicator = nullptr;
  };
  explicit FoldedPasses(TrainingContext& context) : context_(context) {}

  // The items of a pass; consecutive exchanges of one communicator are one item. Lanes of a group
  // begin such an item together, after an exchange that stays by itself. `pass` must keep its
  // address.
  const std::vector<Item>& of(const std::vector<PassItem>& pass);
  // Adds the item's transfers to the context's work.
  void tally(const ExchangedWork& work);

 private:
  std::vector<Item> folded(const std::vector<PassItem>& pass);
  std::size_t add_beat(const std::vector<PassItem>& pass, std::size_t at, const Communicator*& of,
                       ExchangedWork& work) const;

  TrainingContext& context_;
  std::map<const std::vector<PassItem>*, std::vector<Item>> known_;
  std::deque<ExchangedWork> works_;
  // How often each transfer happens in a run.
  std::map<const ExchangedWork*, std::map<const PricedTransfer*, int>> transfers_;
};

}  // namespace lockstep
