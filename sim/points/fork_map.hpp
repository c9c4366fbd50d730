// Runs independent pieces of work in child processes and returns their answers in order.
#pragma once

#include <functional>
#include <vector>

#include "points/pool.hpp"

namespace lockstep {

struct ForkOptions {
  int workers = 1;                                      // at a time
  std::function<void(std::size_t finished)> on_done{};  // in the parent, after each piece
  // In the parent, several times a second: how far the piece is that runs longest.
  std::function<void(std::size_t index, double fraction)> on_progress{};
  double most_silence = 0;  // seconds without a report after which a piece is given up; 0 = never
};

struct ForkResult {
  bool ok = false;
  std::string output;  // what `work` returned, or why there is nothing: exception text, signal
};

// Calls work(0) .. work(count-1). Ctrl-C ends the children with the parent.
std::vector<ForkResult> fork_map(std::size_t count, const ForkOptions& options,
                                 const PoolWork& work);

}  // namespace lockstep
