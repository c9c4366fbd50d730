// Runs independent pieces of work, each in a child process: a SimGrid world exists once per process
// (facts/simgrid: a second engine silently continues the first one's clock), and a child that
// crashes loses its own piece only.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct ForkResult {
  bool ok = false;
  std::string output;  // what `work` returned, or why there is nothing: exception text, signal
};

// Calls work(0) .. work(count-1), at most `workers` at a time, and returns their results in order.
// `on_done(finished)` is called in the parent after each. Ctrl-C ends the children with the parent.
std::vector<ForkResult> fork_map(std::size_t count, int workers,
                                 const std::function<std::string(std::size_t)>& work,
                                 const std::function<void(std::size_t)>& on_done = {});

}  // namespace lockstep
