// Draws exponential times to the next failure of each unit, and merges them with the given events
// in one priority queue. Invalid draws stay in the queue and are dropped when they reach its top.
#include "faults/failures.hpp"

#include <algorithm>
#include <limits>

#include "core/random.hpp"

namespace lockstep {

namespace {

// The event that an entry of `at` describes. Workers are numbered over the whole job.
FailureEvent event_of(const ScheduledFailure& given, int workers_per_node) {
  if (given.node) return {given.seconds, Failing::node, *given.node};
  if (given.server) return {given.seconds, Failing::server, *given.server};
  if (given.worker) return {given.seconds, Failing::worker, *given.worker / workers_per_node};
  if (given.link) return {given.seconds, Failing::link, *given.link};
  if (given.leaves) return {given.seconds, Failing::leaves, *given.leaves};
  if (given.joins) return {given.seconds, Failing::joins, *given.joins};
  if (given.slows) return {given.seconds, Failing::slows, *given.slows};
  return {given.seconds, Failing::job, 0};
}

// Whether failures of this kind by rate happen only while their node is in use.
bool of_a_node(Failing component) {
  return component == Failing::node || component == Failing::worker || component == Failing::link ||
         component == Failing::slows;
}

// The rate of a kind of failure, per second and unit.
double speed_of(Failing component, const FailureSpeeds& speeds) {
  switch (component) {
    case Failing::node:
      return speeds.node;
    case Failing::server:
      return speeds.server;
    case Failing::job:
      return speeds.job;
    case Failing::worker:
      return speeds.workers;
    case Failing::link:
      return speeds.link;
    case Failing::slows:
      return speeds.slows;
    case Failing::leaves:
    case Failing::joins:
      break;
  }
  return 0;
}

}  // namespace

std::vector<ScheduledFailure> in_time(std::vector<ScheduledFailure> given) {
  std::stable_sort(given.begin(), given.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  return given;
}

Failures::Failures(const FailureSpeeds& speeds, int servers,
                   const std::vector<ScheduledFailure>& given, int workers_per_node,
                   std::uint64_t seed, int run)
    : speeds_(speeds), seed_(seed), run_(static_cast<std::uint32_t>(run)) {
  for (const ScheduledFailure& one : given)
    coming_.push({event_of(one, workers_per_node), 0, true});
  for (int server = 0; server < servers; ++server) draw(Failing::server, server, 0);
  draw(Failing::job, 0, 0);
}

void Failures::enters(int node, double now) {
  for (const Failing component : {Failing::node, Failing::worker, Failing::link, Failing::slows})
    draw(component, node, now);
}

void Failures::draw(Failing component, int number, double now) {
  const double speed = speed_of(component, speeds_);
  if (speed <= 0) return;
  // The key of a draw (core/random.hpp). In the key's rank, the top two bits are the kind modulo 4,
  // and the other bits are the unit's number. The key's event is the run's number plus (1 + kind /
  // 4) * 2^16; events of stragglers are below 2^16.
  const auto kind = static_cast<std::uint32_t>(component);
  const auto unit = ((kind & 3U) << 30) + static_cast<std::uint32_t>(number);
  const DrawKey key{seed_, unit, drawn_[{component, number}]++, ((1 + kind / 4) << 16) + run_};
  const int generation = of_a_node(component) ? generation_[number] : 0;
  coming_.push({{now + exponential_draw(key) / speed, component, number}, generation, false});
}

// Whether the event was drawn for a node, its link or its workers, and the node has left since the
// draw.
bool Failures::outdated(const Coming& coming) const {
  if (!of_a_node(coming.what) || coming.given) return false;
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
  const bool taken_out = next.what == Failing::node || next.what == Failing::link;
  if (!next.given && !taken_out) draw(next.what, next.number, next.seconds);
  return next;
}

}  // namespace lockstep
