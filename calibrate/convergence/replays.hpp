// Runs many replays at the same time, each in a separate process, and caches their results. One
// object serves all replays of a command. Includes no LibTorch.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "convergence/job.hpp"
#include "core/errors.hpp"
#include "launch/processes.hpp"
#include "points/fork_map.hpp"

namespace lockstep {

struct ReplaysOptions {
  int workers = 0;           // processes at the same time; 0 = one per core
  std::string verb = "run";  // command that needs the measuring half, for errors
  std::function<void(std::size_t done, std::size_t all)> progress{};
  // Called before a long training, after a few batches, with the expected real seconds.
  std::function<void(std::size_t replays, double seconds)> estimate{};
};

// Results of replays are stored in $XDG_CACHE_HOME/lockstep/replays (or ~/.cache/...) as soon as
// they are known. So a study that was interrupted continues where it stopped, and a repeated
// question is answered immediately.
class Replays {
 public:
  // `where`: the place of `convergence` in the scenario. Throws ConfigError if the measuring half
  // is missing.
  Replays(Location where, const ReplaysOptions& options);

  // The key of a job. Jobs whose schedules are in different files with equal content have the same
  // key.
  std::string key_of(const ReplayJob& job) const;

  // Adds a job to the next run(), unless its result is known, and returns its key.
  std::string ask(const ReplayJob& job);

  // Runs all jobs without a stored result. Throws ConfigError for data or a model that cannot be
  // used, and InterruptError after Ctrl-C, SIGTERM or SIGHUP.
  void run();

  // The result of a job; null if its process failed.
  const ReplayResult* result(const std::string& key) const;
  const std::string& failure() const { return failure_; }  // error of the first failed process
  // The reason why results are not stored; "" if they are.
  const std::string& not_kept() const { return not_kept_; }

 private:
  void announce(const std::vector<std::string>& open, const RunFolder& folder);
  void keep(const std::vector<std::string>& keys, const std::vector<ForkResult>& answers);
  [[noreturn]] void interrupt(const std::vector<std::string>& keys) const;
  int at_a_time() const;
  bool accepts(const std::string& key, const std::string& answer);

  Location where_;
  const ReplaysOptions options_;
  const std::string program_, mark_;
  std::map<std::string, ReplayJob> pending_;
  std::map<std::string, ReplayResult> results_;
  std::string failure_, not_kept_;
};

}  // namespace lockstep
