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

// Among candidates on the same GPUs, moves the simplest one in front of candidates that are better
// by less than the 90 % interval of the ratio of their times.
void put_simple_first(std::vector<Candidate>& ranked);

// Indices of the Pareto front, ordered by time. A candidate is on it unless another one is at least
// as good in time, price, memory, energy and accuracy, and better in at least one of these.
std::vector<std::size_t> pareto_front(const std::vector<Candidate>& list);

}  // namespace lockstep
