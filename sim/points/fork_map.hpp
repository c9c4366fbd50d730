// A parallel map over child processes: work(0) .. work(count - 1), with the answers in order. Use
// it if all pieces are known in advance; points/pool.hpp serves callers that add work as answers
// arrive.
#pragma once

#include <functional>
#include <vector>

#include "points/pool.hpp"

namespace lockstep {

struct ForkOptions {
  int workers = 1;  // processes at a time
  // Called in the parent after each piece.
  std::function<void(std::size_t finished)> on_done{};
  // Called in the parent several times a second, with the piece that runs longest and its reported
  // fraction, 0 to 1.
  std::function<void(std::size_t index, double fraction)> on_progress{};
  double most_silence = 0;  // seconds without a report after which a piece is given up; 0 = never
};

// The answer of one piece.
struct ForkResult {
  bool ok = false;
  std::string output;  // the text of `work`; if not ok, the reason: exception text, signal, limit
};

// Calls `work` once for each index below `count` and returns the answers by index. Child processes
// end with the parent, also on Ctrl-C. Throws std::runtime_error if no process can be started.
std::vector<ForkResult> fork_map(std::size_t count, const ForkOptions& options,
                                 const PoolWork& work);

}  // namespace lockstep
