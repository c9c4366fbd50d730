// The order of candidates that meet every limit.
#pragma once

#include <cstddef>
#include <vector>

#include "sweep/recommend.hpp"

namespace lockstep {

// Ties by the others, then by the order of the search: the same answer every time.
bool better(const Candidate& a, const Candidate& b, RankBy by);

// Best first. Prices that differ by less than 0.1 % are a tie, which goes to the faster: a data loader
// sets the pace of many candidates, and rounding is no reason to take a slow one.
void rank(std::vector<Candidate>& list, RankBy by);

// The simplest of `ranked` candidates on the same GPUs goes before those that are better by less than
// the interval of their ratio. These follow it.
void put_simple_first(std::vector<Candidate>& ranked);

// Places in the list, by time: no other candidate is as good in time, money, memory, energy and
// accuracy at once, and better in one.
std::vector<std::size_t> pareto_front(const std::vector<Candidate>& list);

}  // namespace lockstep
