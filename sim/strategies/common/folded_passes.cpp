// Finds runs of exchanges in passes. A run is a sequence of beats. A beat consists of layers, the
// start of an exchange, layers beside the exchange, and the wait for it. A run ends at a hook, at
// an exchange of another communicator, or at an exchange for which the host waits.
#include "strategies/common/folded_passes.hpp"

#include <algorithm>

namespace lockstep {

namespace {

// Whether the item at this index exists and is of this kind.
bool is(const std::vector<PassItem>& pass, std::size_t at, Hook hook) {
  return at < pass.size() && pass[at].hook == hook;
}

}  // namespace

const std::vector<FoldedPasses::Item>& FoldedPasses::of(const std::vector<PassItem>& pass) {
  const auto known = known_.find(&pass);
  if (known != known_.end()) return known->second;
  return known_.emplace(&pass, folded(pass)).first->second;
}

void FoldedPasses::tally(const ExchangedWork& work) {
  for (const auto& [transfer, times] : transfers_.at(&work)) {
    context_.provenance.add(*transfer, times);
  }
}

// Looks for a run after each await_exchange, and takes all beats that follow each other.
std::vector<FoldedPasses::Item> FoldedPasses::folded(const std::vector<PassItem>& pass) {
  std::vector<Item> items;
  std::size_t first = 0;  // index of the first item of the pass that is not in `items` yet
  for (std::size_t at = 1; at < pass.size();) {
    ExchangedWork work;
    const Communicator* communicator = nullptr;
    std::size_t end = at;
    if (pass[at - 1].hook == Hook::await_exchange) {
      while (const std::size_t next = add_beat(pass, end, communicator, work)) end = next;
    }
    if (work.beats.empty()) {
      ++at;
      continue;
    }
    // Counts the transfers of the run for the provenance.
    works_.push_back(std::move(work));
    for (std::size_t i = at; i < end; ++i) {
      if (pass[i].hook != Hook::start_exchange) continue;
      ++transfers_[&works_.back()][&context_.priced(*pass[i].exchange).transfer];
    }
    items.push_back({std::span(pass).subspan(first, at - first), &works_.back(), communicator});
    first = end;
    at = end + 1;
  }
  items.push_back({std::span(pass).subspan(first), nullptr, nullptr});
  return items;
}

// In the issued work of a beat, the exchange counts with its lone time: the device is busy for the
// longer of the exchange and the layers beside it.
std::size_t FoldedPasses::add_beat(const std::vector<PassItem>& pass, std::size_t at,
                                   const Communicator*& of, ExchangedWork& work) const {
  ExchangedWork::Beat beat;
  if (is(pass, at, Hook::layers)) beat.work = pass[at++].work.total;
  if (!is(pass, at, Hook::start_exchange) || pass[at].exchange->host_waits) return 0;
  const TrainingContext::PricedExchange& priced = context_.priced(*pass[at++].exchange);
  if (of != nullptr && of != priced.communicator) return 0;
  if (is(pass, at, Hook::layers)) beat.beside = pass[at++].work.total;
  if (!is(pass, at, Hook::await_exchange)) return 0;
  of = priced.communicator;
  beat.exchange = &priced.transfer.spec;
  const double seconds = priced.transfer.seconds;
  const double ready = issue_before_launch + std::max(seconds, beat.beside.span);
  work.issued =
      append(append(work.issued, beat.work),
             {host_issue_seconds + beat.beside.host, std::max(seconds, beat.beside.busy), ready});
  // Equal transfers share one entry.
  const auto same = std::find_if(work.transfers.begin(), work.transfers.end(),
                                 [&](const auto& known) { return known.first == beat.exchange; });
  if (same != work.transfers.end()) {
    ++same->second;
  } else {
    work.transfers.emplace_back(beat.exchange, 1);
  }
  work.beats.push_back(beat);
  return at + 1;
}

}  // namespace lockstep
