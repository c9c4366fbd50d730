// The consistency rules, and the bound that adapts (see rule.hpp).
#include "strategies/parameter_server/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/errors.hpp"

namespace lockstep {

PsRule consistency_rule(const ParameterServerOptions& options, int workers) {
  switch (options.consistency) {
    case Consistency::sync: {
      const int backup = options.backup_workers;
      if (backup == 0) return {workers, 0};
      if (backup >= workers) {
        throw file_error("", "parameter_server.backup_workers",
                         fmt::format("{} of {} workers leave nobody to wait for", backup, workers),
                         fmt::format("at most {}", workers - 1));
      }
      return {.pushes_per_update = workers - backup, .drops_late = true};
    }
    case Consistency::async:
    case Consistency::elastic:
      return {};
    case Consistency::softsync: {
      const int pushes = workers / options.splitting;
      return pushes <= 1 ? PsRule{} : PsRule{.pushes_per_update = pushes, .pusher_waits = false};
    }
    case Consistency::ssp:
    case Consistency::modified_async: {
      const int bound = options.staleness_bound;
      if (options.highest_staleness_bound > 0) {
        return {.lead = bound, .extra = options.highest_staleness_bound - bound};
      }
      // Bound 0 is bulk-synchronous (fact 83): the server can then wait for all gradients as well.
      return bound == 0 ? PsRule{workers, 0} : PsRule{1, bound};
    }
  }
  return {};
}

PsRule switched_rule(Consistency to, int workers) {
  // Clocks may be far apart when workers begin to wait for each other: only updates make them.
  return to == Consistency::sync ? PsRule{.pushes_per_update = workers} : PsRule{};
}

void WorkerPace::add(int worker, double seconds, double communication) {
  std::deque<Step>& steps = latest_[static_cast<std::size_t>(worker)];
  steps.push_back({seconds, communication});
  if (static_cast<int>(steps.size()) > window_) steps.pop_front();
}

bool WorkerPace::complete() const {
  return std::all_of(latest_.begin(), latest_.end(),
                     [&](const auto& steps) { return static_cast<int>(steps.size()) >= window_; });
}

double WorkerPace::sum(std::size_t worker, double Step::*what) const {
  double sum = 0;
  for (const Step& step : latest_[worker]) sum += step.*what;
  return sum;
}

double WorkerPace::slowest_over_median() const {
  if (!complete()) return 1;
  std::vector<double> sums;
  for (std::size_t w = 0; w < latest_.size(); ++w) sums.push_back(sum(w, &Step::seconds));
  const auto median = sums.begin() + static_cast<std::ptrdiff_t>((sums.size() - 1) / 2);
  std::nth_element(sums.begin(), median, sums.end());
  const double slowest = *std::max_element(median, sums.end());
  return *median > 0 ? slowest / *median : 1;
}

double WorkerPace::communication_share() const {
  if (!complete()) return 0;
  double communication = 0, seconds = 0;
  for (std::size_t w = 0; w < latest_.size(); ++w) {
    communication += sum(w, &Step::communication);
    seconds += sum(w, &Step::seconds);
  }
  return seconds > 0 ? communication / seconds : 0;
}

int best_extra(const PushTimes& fastest, const PushTimes& slowest, int most) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int extra = 0; extra <= most; ++extra) {
    const double mine = fastest.last + extra * fastest.interval;
    for (int clock = 1; clock <= most + 1; ++clock) {
      const double apart = std::abs(slowest.last + clock * slowest.interval - mine);
      if (apart < least) {
        least = apart;
        best = extra;
      }
    }
  }
  return best;
}

}  // namespace lockstep
