// The order of candidates that meet every limit.
// REQUIRES: all candidates are judged, because every function reads their verdicts.
#pragma once

#include <cstddef>
#include <vector>

#include "sweep/recommend.hpp"

namespace lockstep {

// Whether `a` precedes `b` in the order by `by`. Ties are decided by cost, time and memory; after
// that, sorting keeps the order of the search, so that the answer is reproducible.
bool better(const Candidate& a, const Candidate& b, RankBy by);

// Sorts candidates, best first. With RankBy::cost, prices that differ by less than 0.1 % are a tie,
// which the faster candidate wins. The reason: if a data loader limits many candidates, their
// prices differ only by rounding.
void rank(std::vector<Candidate>& list, RankBy by);

// Handles the candidates of each platform and GPU count separately. Finds the simplest one whose
// time cannot be distinguished from the best one's: the ratio of the two times is inside its 90 %
// interval around 1. Moves this candidate in front of the best one, and sets its `passed_over`.
void put_simple_first(std::vector<Candidate>& ranked);

// Indices of the Pareto front, ordered by time. A candidate is on it unless another one is at least
// as good in time, price, memory, energy and accuracy, and better in at least one of these. Energy
// and accuracy count only if both candidates have them.
std::vector<std::size_t> pareto_front(const std::vector<Candidate>& list);

}  // namespace lockstep
