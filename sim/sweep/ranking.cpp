// Sorts candidates by one criterion, prefers simple ones if the difference is insignificant, and
// finds the Pareto front. Equal candidates stay in the order of the search.
#include "sweep/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "points/interval.hpp"

namespace lockstep {

namespace {

// Whether `a` is at least as good as `b` in everything that is known of both, and better in
// something.
bool dominates(const Verdict& a, const Verdict& b) {
  bool as_good = true, better_in_one = false;
  const auto compare = [&](double of_a, double of_b) {
    as_good = as_good && of_a <= of_b;
    better_in_one = better_in_one || of_a < of_b;
  };
  compare(a.total, b.total);
  compare(a.dollars, b.dollars);
  compare(a.device, b.device);
  if (a.energy && b.energy) compare(most_energy(a), most_energy(b));
  if (a.accuracy && b.accuracy) compare(-a.accuracy->mean, -b.accuracy->mean);
  return as_good && better_in_one;
}

}  // namespace

double measure(const Candidate& c, RankBy by) {
  const Verdict& v = c.verdict;
  switch (by) {
    case RankBy::cost:
      return v.dollars;
    case RankBy::time:
      return v.total;
    case RankBy::memory:
      return v.device;
    case RankBy::energy:
      break;
  }
  return most_energy(v);
}

bool better(const Candidate& a, const Candidate& b, RankBy by) {
  for (const RankBy next : {by, RankBy::cost, RankBy::time, RankBy::memory}) {
    if (measure(a, next) != measure(b, next)) return measure(a, next) < measure(b, next);
  }
  return false;
}

void rank(std::vector<Candidate>& list, RankBy by) {
  const auto sort = [](auto begin, auto end, RankBy key) {
    std::stable_sort(begin, end, [&](const auto& a, const auto& b) { return better(a, b, key); });
  };
  sort(list.begin(), list.end(), by);
  if (by != RankBy::cost) return;
  // Sort each run of candidates with nearly equal prices by time.
  for (auto begin = list.begin(); begin != list.end();) {
    const double most = 1.001 * begin->verdict.dollars;
    const auto end = std::find_if(begin, list.end(),
                                  [&](const Candidate& c) { return c.verdict.dollars > most; });
    sort(begin, end, RankBy::time);
    begin = end;
  }
}

void put_simple_first(std::vector<Candidate>& ranked) {
  // Candidates by platform and GPU count, each list in ranked order.
  std::map<std::pair<std::string, int>, std::vector<std::size_t>> on_same_gpus;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    on_same_gpus[{ranked[i].platform, ranked[i].gpus}].push_back(i);
  }
  // Sort keys of the new order. A candidate that is passed over gets the key (place of the simpler
  // one, its own order), so it follows the simpler one directly.
  std::vector<std::pair<std::size_t, std::size_t>> places(ranked.size());
  for (std::size_t i = 0; i < ranked.size(); ++i) places[i] = {i, 0};
  for (const auto& [gpus, members] : on_same_gpus) {
    const Candidate& best = ranked[members.front()];
    // The largest ratio of times that cannot be distinguished from 1. Both candidates have the same
    // model and platform, so their common errors cancel.
    const auto indistinct_ratio = [&](const Candidate& c) {
      return interval_around(1, sigma_of_ratio(c.verdict.error, best.verdict.error, true, true))
          .high;
    };
    std::size_t simplest = members.front();
    for (const std::size_t i : members) {
      const Candidate& c = ranked[i];
      if (c.complexity < ranked[simplest].complexity &&
          c.verdict.total <= indistinct_ratio(c) * best.verdict.total) {
        simplest = i;
      }
    }
    if (simplest == members.front()) continue;
    Candidate& chosen = ranked[simplest];
    chosen.passed_over =
        PassedOver{best.strategy, 1 - best.verdict.total / chosen.verdict.total,
                   1 - 1 / indistinct_ratio(chosen), best.verdict.without_autocast};
    for (const std::size_t i : members) {
      if (i < simplest) places[i] = {simplest, 1 + i};
    }
  }
  std::vector<std::size_t> order(ranked.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
  std::vector<Candidate> sorted;
  for (const std::size_t i : order) sorted.push_back(std::move(ranked[i]));
  ranked = std::move(sorted);
}

std::vector<std::size_t> pareto_front(const std::vector<Candidate>& list) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (std::none_of(list.begin(), list.end(), [&](const Candidate& other) {
          return dominates(other.verdict, list[i].verdict);
        })) {
      front.push_back(i);
    }
  }
  std::stable_sort(front.begin(), front.end(), [&](std::size_t a, std::size_t b) {
    return list[a].verdict.total < list[b].verdict.total;
  });
  return front;
}

}  // namespace lockstep
