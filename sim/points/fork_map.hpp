// A parallel map over child processes: calls work(0) .. work(count - 1), each call a piece of work,
// and returns the answers by index. Use it if all pieces are known in advance; a caller that adds
// pieces while answers arrive uses the pool (points/pool.hpp).
#pragma once

#include <functional>
#include <vector>

#include "points/pool.hpp"

namespace lockstep {

struct ForkOptions {
  int workers = 1;  // processes at the same time
  // Called in the parent after each piece, with the number of finished pieces.
  std::function<void(std::size_t finished)> on_done{};
  // Called in the parent several times a second, with the index of the piece that has run longest
  // and its reported progress, 0 to 1.
  std::function<void(std::size_t index, double fraction)> on_progress{};
  double most_silence = 0;  // seconds without a report after which a piece is killed; 0 = no limit
};

// The answer of one piece.
struct ForkResult {
  bool ok = false;
  std::string output;  // the text of `work`; if not ok, the reason, for example an exception's text
};

// Calls `work` once for each index below `count` and returns the answers by index. The child
// processes end when the parent ends, also on Ctrl-C. Throws std::runtime_error if no process can
// be started.
std::vector<ForkResult> fork_map(std::size_t count, const ForkOptions& options,
                                 const PoolWork& work);

}  // namespace lockstep
