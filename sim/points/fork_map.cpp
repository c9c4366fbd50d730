// Implements the map on the pool of worker processes. The pool runs the pieces; this function sorts
// the answers by index and passes on progress.
#include "points/fork_map.hpp"

#include <numeric>

namespace lockstep {

std::vector<ForkResult> fork_map(std::size_t count, const ForkOptions& options,
                                 const PoolWork& work) {
  std::vector<ForkResult> results(count);
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  Pool pool({.workers = options.workers, .most_silence = options.most_silence}, work);
  pool.add(indices);
  std::size_t finished = 0;
  while (finished < count) {
    for (PoolResult& result : pool.collect(1)) {
      results[result.index] = {result.ok, std::move(result.text)};
      ++finished;
      if (options.on_done) options.on_done(finished);
    }
    const auto longest = pool.longest();
    if (options.on_progress && longest) options.on_progress(longest->first, longest->second);
  }
  return results;
}

}  // namespace lockstep
