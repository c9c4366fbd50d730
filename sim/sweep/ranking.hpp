// The order of candidates that meet every limit. Used on judged candidates only.
#pragma once

#include <cstddef>
#include <vector>

#include "sweep/recommend.hpp"

namespace lockstep {

// Ties are broken by the other figures, then by the order of the search, so that the answer is
// reproducible.
bool better(const Candidate& a, const Candidate& b, RankBy by);

// Best first. Prices that differ by less than 0.1 % are a tie, and the faster candidate wins. A
// data loader sets the pace of many candidates, and rounding is no reason to take a slow one.
void rank(std::vector<Candidate>& list, RankBy by);

// Among `ranked` candidates on the same GPUs, moves the simplest one in front of candidates that
// are better by less than the interval of their ratio.
void put_simple_first(std::vector<Candidate>& ranked);

// Indices into the list, by time. A candidate is on the front if no other candidate is as good in
// time, money, memory, energy and accuracy at once and better in one.
std::vector<std::size_t> pareto_front(const std::vector<Candidate>& list);

}  // namespace lockstep
