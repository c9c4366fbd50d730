// Counter-based random numbers: the value depends only on its key, never on the order of calls.
// Every random choice of a simulation uses them, so that the same input gives the same result on
// any number of threads and executors. The generator is Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lockstep {

// Identifies one draw by run, rank, training step, and event inside of the step. Two draws with
// equal keys are equal, so each purpose must use events of its own.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint32_t rank = 0;
  std::uint32_t step = 0;
  std::uint32_t event = 0;
};

using PhiloxWords = std::array<std::uint32_t, 4>;
// The four random words for a counter and a key: ten rounds of Philox4x32.
PhiloxWords philox4x32_10(PhiloxWords counter, std::array<std::uint32_t, 2> key);

// Inverse of the standard normal distribution function, p in (0, 1); relative error about 1e-16.
double normal_quantile(double p);

// One draw from each of several distributions; all use the key's uniform number.
double uniform_draw(const DrawKey& key);      // in (0, 1), never 0 or 1
double normal_draw(const DrawKey& key);       // mean 0, variance 1 (inverse CDF, portable)
double exponential_draw(const DrawKey& key);  // mean 1
double lognormal_draw(const DrawKey& key, double sigma);  // median 1
// Fills `values` with lognormal_draw() for consecutive ranks, beginning with the key's rank. The
// results are equal to the last bit, but computed faster.
void lognormal_draws(const DrawKey& first, double sigma, std::span<double> values);
double pareto_draw(const DrawKey& key, double alpha);  // minimum 1

}  // namespace lockstep
