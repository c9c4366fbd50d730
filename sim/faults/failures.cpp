#include "faults/failures.hpp"

#include <limits>

#include "core/random.hpp"

namespace lockstep {

Failures::Failures(const FailureSpeeds& speeds, int servers, const std::vector<GivenFailure>& given,
                   std::uint64_t seed, int run)
    : speeds_(speeds), seed_(seed), run_(static_cast<std::uint32_t>(run)) {
  for (const GivenFailure& one : given) {
    const Failing what = one.node ? Failing::node : one.server ? Failing::server : Failing::job;
    coming_.push({{one.seconds, what, one.node.value_or(one.server.value_or(0))}, 0, true});
  }
  for (int server = 0; server < servers; ++server) draw(Failing::server, server, 0);
  draw(Failing::job, 0, 0);
}

void Failures::draw(Failing what, int number, double now) {
  const double speed = what == Failing::node     ? speeds_.node
                       : what == Failing::server ? speeds_.server
                                                 : speeds_.job;
  if (speed <= 0) return;
  // Units share the 32 bits of a key's rank, runs have the event, beyond those of stragglers.
  const auto unit = (static_cast<std::uint32_t>(what) << 30) + static_cast<std::uint32_t>(number);
  const DrawKey key{seed_, unit, drawn_[{what, number}]++, (1U << 16) + run_};
  const int generation = what == Failing::node ? generation_[number] : 0;
  coming_.push({{now + exponential_draw(key) / speed, what, number}, generation, false});
}

// A failure by rate of a node that has left since it was drawn.
bool Failures::outdated(const Coming& coming) const {
  if (coming.what != Failing::node || coming.given) return false;
  return generation_.at(coming.number) != coming.generation;
}

double Failures::next_seconds() {
  while (!coming_.empty() && outdated(coming_.top())) coming_.pop();
  return coming_.empty() ? std::numeric_limits<double>::infinity() : coming_.top().seconds;
}

FailureEvent Failures::take() {
  next_seconds();
  const Coming next = coming_.top();
  coming_.pop();
  if (!next.given && next.what != Failing::node) draw(next.what, next.number, next.seconds);
  return next;
}

}  // namespace lockstep
