// Computes the load of the fullest rank from the shares of tokens that the experts of a layer get,
// by Zipf's law or as listed. The fullest rank determines the pace of expert parallelism, because
// every other rank waits for it at the next exchange.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "parallel/mesh.hpp"
#include "workload/ops.hpp"

namespace lockstep {
namespace {

// The share of each expert in the tokens' choices; the shares add up to 1. Consecutive experts
// belong to one rank. Zipf's experts are assigned to ranks in turn: the k-th most popular one is on
// rank k mod ranks.
std::vector<double> shares_of(const ParallelOptions& parallel, std::int64_t experts) {
  const ExpertOptions& options = parallel.expert;
  const auto count = static_cast<std::size_t>(experts),
             ranks = static_cast<std::size_t>(options.size);
  std::vector<double> shares(count, 1);
  if (const auto* zipf = std::get_if<ZipfLoad>(&*options.load)) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t place = k % ranks * (count / ranks) + k / ranks;
      shares[place] = std::pow(static_cast<double>(k + 1), -zipf->exponent);
    }
  } else {
    const auto& listed = std::get<ListedLoad>(*options.load);
    if (listed.shares.size() != count) {
      throw ConfigError({listed.where, "parallel.expert.load.listed",
                         fmt::format("{} shares, the model has {} experts in a layer",
                                     listed.shares.size(), experts),
                         "one for each expert"});
    }
    shares = listed.shares;
  }
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (sum <= 0) {
    const auto& listed = std::get<ListedLoad>(*options.load);
    throw ConfigError(
        {listed.where, "parallel.expert.load.listed", "no expert gets a token", "numbers above 0"});
  }
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace

// With a capacity, an expert accepts at most the share `capacity` / experts of all choices; choices
// beyond it are dropped.
RankLoad rank_load(const ParallelOptions& parallel, std::int64_t experts) {
  const ExpertOptions& options = parallel.expert;
  RankLoad load{options.imbalance, 0};
  if (!options.load) return load;
  const std::vector<double> shares = shares_of(parallel, experts);
  const auto each = static_cast<std::ptrdiff_t>(experts / options.size);
  double fullest = 0;
  for (auto rank = shares.begin(); rank != shares.end(); rank += each) {
    fullest = std::max(fullest, std::accumulate(rank, rank + each, 0.0));
  }
  load.fullest = fullest * static_cast<double>(options.size);
  if (options.capacity <= 0) return load;
  const double places = options.capacity / static_cast<double>(experts);
  for (const double share : shares) load.dropped += std::max(0.0, share - places);
  return load;
}

}  // namespace lockstep
