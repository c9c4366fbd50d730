// Runs independent pieces of work, each in a child process: a SimGrid world exists once per process
// (facts/simgrid: a second engine silently continues the first one's clock), and a child that
// crashes loses its own piece only.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lockstep {

// A piece of work tells how far it is, from 0 to 1; as often as it likes.
using Report = std::function<void(double fraction)>;

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

// Calls work(0) .. work(count-1) and returns their results in order. Ctrl-C ends the children with
// the parent.
using ForkWork = std::function<std::string(std::size_t index, const Report& report)>;
std::vector<ForkResult> fork_map(std::size_t count, const ForkOptions& options,
                                 const ForkWork& work);

}  // namespace lockstep
