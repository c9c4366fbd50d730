// Chooses the consistency rule that the options name. Checks that need the number of ranks are
// here; options.hpp has the other checks.
#include "strategies/parameter_server/rules/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/errors.hpp"

namespace lockstep {

PsRule asynchronous() {
  return [](int) { return std::make_unique<MessageRule>(); };
}

int drawn_workers(const ParameterServerOptions& options, int ranks) {
  return std::max(1, static_cast<int>(std::lround(options.participants.value_or(1) * ranks)));
}

PsRule consistency_rule(const ParameterServerOptions& options, int ranks, std::uint64_t seed) {
  const int bound = options.staleness_bound, backup = options.backup_workers;
  const int drawn = drawn_workers(options, ranks);
  switch (options.consistency) {
    case Consistency::sync:
      if (backup >= drawn) {
        throw file_error("", "parameter_server.backup_workers",
                         fmt::format("{} of {} workers leave nobody to wait for", backup, drawn),
                         fmt::format("at most {}", drawn - 1));
      }
      if (drawn < ranks && options.update == UpdatePlace::workers) {
        throw file_error("", "parameter_server.participants",
                         "leave workers behind that update by themselves", "update: servers");
      }
      if (drawn < ranks) return sampled_synchronous(drawn, backup, seed);
      return bulk_synchronous(ranks, backup);
    case Consistency::async:
    case Consistency::elastic:
      return asynchronous();
    case Consistency::softsync:
      return softsync(ranks, options.splitting);
    case Consistency::ssp:
    case Consistency::modified_async:
      // Bound 0 is bulk-synchronous (fact 83). All workers wait for each other anyway, so one
      // update from the sum of their gradients replaces one update for each push.
      if (bound == 0 && options.highest_staleness_bound == 0) return bulk_synchronous(ranks);
      return stale_synchronous(bound, options.highest_staleness_bound);
  }
  return asynchronous();
}

}  // namespace lockstep
