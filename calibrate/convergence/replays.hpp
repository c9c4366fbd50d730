// Runs many replays at once: each in a process of its own, and none twice. Use it for all replays
// of a command. No LibTorch in here.
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
  int workers = 0;           // at a time; 0 = one per core
  std::string verb = "run";  // that needs the measuring half
  std::function<void(std::size_t done, std::size_t all)> progress{};
  // Called before a long training with the expected real seconds, after a few batches.
  std::function<void(std::size_t replays, double seconds)> estimate{};
};

// Results of replays are stored in $XDG_CACHE_HOME/lockstep/replays (or ~/.cache/...) as soon as
// they are known. An interrupted study continues, and a repeated question is answered at once.
class Replays {
 public:
  // `where`: of the scenario's wish to train. Throws ConfigError when the measuring half is
  // missing.
  Replays(Location where, const ReplaysOptions& options);

  // Jobs that differ in the file of their schedule only, and not in its content, have one key.
  std::string key_of(const ReplayJob& job) const;

  // To be learned by the next run(); -> its key.
  std::string ask(const ReplayJob& job);

  // Throws ConfigError for data or a model that cannot be used, InterruptError after Ctrl-C,
  // SIGTERM or SIGHUP.
  void run();

  // nullptr: its process failed.
  const ReplayResult* result(const std::string& key) const;
  const std::string& failure() const { return failure_; }  // why the first one did
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
