// Draws slow-downs, bursts and hiccups from keyed random numbers, and determines the lanes that are
// needed. The key of a draw is (seed, rank, step, kind of event), so that no draw depends on the
// order of events (core/random.hpp).
#include "strategies/common/stragglers.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/random.hpp"

namespace lockstep {

namespace {

// Values of `event` in the keys of draws.
constexpr std::uint32_t per_step_event = 0;
constexpr std::uint32_t per_rank_event = 1;
constexpr std::uint32_t slow_period_event = 2;
constexpr std::uint32_t slow_period_begin_event = 3;
constexpr std::uint32_t hiccup_event = 4;
constexpr std::uint32_t burst_event = 5;

// The share of a link's rate that always remains, however many neighbours send.
constexpr double least_left = 1e-3;

// The smallest factor on a rank's device time under any distribution.
constexpr double fastest = 0.05;

DrawKey key_of(std::uint64_t seed, int rank, int step, std::uint32_t event) {
  return {seed, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step), event};
}

// The steps are divided into stretches of `lasts` steps. In each stretch at most one period begins,
// with probability lasts / every, at a drawn step; it may extend into the next stretch. To find out
// whether a step is slow, the draws of two stretches therefore suffice.
//   stretch   |      0      |      1      |      2      |
//   period           |xxxxxxxxxxxxx|
bool in_slow_period(const SlowPeriods& periods, std::uint64_t seed, int rank, int step) {
  const int stretch = step / periods.lasts, place = step % periods.lasts;
  const double chance = static_cast<double>(periods.lasts) / periods.every;
  // Whether the period of a stretch begins before the stretch's step number `limit`, if it has one.
  const auto begins_before = [&](int stretch_number, int limit) {
    if (stretch_number < 0) return false;
    const double where = uniform_draw(key_of(seed, rank, stretch_number, slow_period_begin_event));
    return where * periods.lasts < limit;
  };
  // Whether a period begins in the stretch.
  const auto has_one = [&](int stretch_number) {
    return stretch_number >= 0 &&
           uniform_draw(key_of(seed, rank, stretch_number, slow_period_event)) < chance;
  };
  return (has_one(stretch) && begins_before(stretch, place + 1)) ||
         (has_one(stretch - 1) && !begins_before(stretch - 1, place + 1));
}

// Whether the neighbour pauses between bursts. If not, its bursts count as constant traffic.
bool in_bursts(const Neighbour& neighbour) {
  return neighbour.lasts && neighbour.every && *neighbour.lasts < *neighbour.every;
}

// The place of a node's link of this class: the node, or for an uplink its leaf switch.
int place_of(const FabricSpec& fabric, LinkClass link, int node) {
  return link == LinkClass::uplink ? node / std::max(1, fabric.nodes_per_leaf) : node;
}

}  // namespace

bool any(const Stragglers& stragglers) {
  return random(stragglers) || !stragglers.slow_links.empty() || !stragglers.neighbours.empty() ||
         !stragglers.other_devices.empty() || !stragglers.slow_ranks.empty();
}

bool random(const Stragglers& stragglers) {
  return stragglers.per_step || stragglers.slow_periods || stragglers.loader_hiccups;
}

bool has_bursts(const Stragglers& stragglers) {
  return std::any_of(stragglers.neighbours.begin(), stragglers.neighbours.end(), in_bursts);
}

bool changes(const Stragglers& stragglers) {
  const auto& links = stragglers.slow_links;
  return has_bursts(stragglers) ||
         std::any_of(links.begin(), links.end(), [](const SlowLink& l) { return l.from > 0; });
}

double varying_factor(const Stragglers& stragglers, std::uint64_t seed, int rank, int step) {
  double factor = 1;
  if (stragglers.per_step) factor = std::max(fastest, draw(*stragglers.per_step, seed, rank, step));
  if (stragglers.slow_periods && in_slow_period(*stragglers.slow_periods, seed, rank, step)) {
    factor *= stragglers.slow_periods->factor;
  }
  return factor;
}

// A micro-batch is late with probability 1 / every.
double hiccup(const LoaderHiccups& hiccups, std::uint64_t seed, int rank, int batch) {
  const bool late = uniform_draw(key_of(seed, rank, batch, hiccup_event)) * hiccups.every < 1;
  return late ? hiccups.seconds : 0;
}

// The rate of the slowest slow link at this place, less the shares of all neighbours that send.
double speed_left(const Stragglers& stragglers, const FabricSpec& fabric, LinkClass link, int place,
                  const LinkMoment& moment) {
  // Whether this place has the node's link of this class.
  const auto here = [&](int node) { return place_of(fabric, link, node) == place; };
  double speed = 1;
  for (const SlowLink& slow : stragglers.slow_links) {
    if (slow.link == link && slow.from <= moment.time && here(slow.node)) {
      speed = std::min(speed, slow.speed);
    }
  }
  double taken = 0;
  for (std::size_t i = 0; i < stragglers.neighbours.size(); ++i) {
    const Neighbour& neighbour = stragglers.neighbours[i];
    const auto& nodes = neighbour.nodes;
    const bool sends = !in_bursts(neighbour) || (i < moment.sending.size() && moment.sending[i]);
    if (neighbour.link != link || !sends) continue;
    if (nodes.empty() || std::any_of(nodes.begin(), nodes.end(), here)) taken += neighbour.share;
  }
  return speed * std::max(least_left, 1 - taken);
}

double least_speed_left(const Job& job, LinkClass link, const LinkMoment& moment) {
  const int nodes = nodes_of(job.mesh.gpus(), job.machine);
  double least = 1;
  const FabricSpec& fabric = job.machine.fabric;
  for (int place = 0; place <= place_of(fabric, link, nodes - 1); ++place) {
    least = std::min(least, speed_left(job.stragglers, fabric, link, place, moment));
  }
  return least;
}

double Bursts::pause(int before) const {
  const DrawKey key = key_of(seed, neighbour, before, burst_event);
  return (every - lasts) * exponential_draw(key);
}

std::optional<Bursts> bursts_of(const Job& job, std::size_t neighbour) {
  const Neighbour& spec = job.stragglers.neighbours[neighbour];
  if (!in_bursts(spec)) return {};
  return Bursts{*spec.lasts, *spec.every, job.simulation.seed, static_cast<int>(neighbour)};
}

// Pause, burst, pause, burst, and so on, beginning at time 0.
Program play_bursts(Bell& over, Bursts bursts, std::function<void(bool)> change) {
  double time = 0;
  for (int burst = 0;; ++burst) {
    time += bursts.pause(burst);
    if (co_await over.rung(time)) co_return;
    change(true);
    time += bursts.lasts;
    if (co_await over.rung(time)) co_return;
    change(false);
  }
}

double draw(const Jitter& jitter, std::uint64_t seed, int rank, int step) {
  const DrawKey key{seed, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(step),
                    per_step_event};
  if (const auto* law = std::get_if<Lognormal>(&jitter)) return lognormal_draw(key, law->sigma);
  if (const auto* law = std::get_if<ShiftedExponential>(&jitter)) {
    return 1 + law->mean * exponential_draw(key);
  }
  if (const auto* law = std::get_if<Empirical>(&jitter)) {
    const auto count = static_cast<double>(law->values.size());
    return law->values[static_cast<std::size_t>(uniform_draw(key) * count)];
  }
  const ParetoTail& law = std::get<ParetoTail>(jitter);
  return 1 + law.scale * (pareto_draw(key, law.alpha) - 1);
}

RankSpeeds::RankSpeeds(const Job& job, std::span<const RankGroups> axes)
    : drawn_(job.stragglers), seed_(job.simulation.seed) {
  const Stragglers& stragglers = job.stragglers;
  const int ranks = job.mesh.gpus();
  std::vector<double> fixed(static_cast<std::size_t>(ranks), 1.0);
  if (const double sigma = stragglers.per_rank_sigma.value_or(0); sigma > 0) {
    // The factors are expected order statistics (Blom, 1958), not draws: for every seed, the
    // slowest of N ranks is as slow as the slowest of N is on average. Only the assignment to ranks
    // is random.
    std::vector<std::pair<double, int>> order;
    for (int rank = 0; rank < ranks; ++rank) {
      const DrawKey key{job.simulation.seed, static_cast<std::uint32_t>(rank), 0, per_rank_event};
      order.emplace_back(uniform_draw(key), rank);
    }
    std::sort(order.begin(), order.end());
    for (int place = 0; place < ranks; ++place) {
      const double factor = 1 + sigma * normal_quantile((place + 0.625) / (ranks + 0.25));
      // Rounding: ranks that differ by less than a tenth of sigma share a lane.
      const double grain = 0.1 * sigma;
      fixed[static_cast<std::size_t>(order[static_cast<std::size_t>(place)].second)] =
          std::max(fastest, 1 + std::round((factor - 1) / grain) * grain);
    }
  }
  for (const SlowRank& slow : stragglers.slow_ranks) {
    if (slow.rank < ranks) fixed[static_cast<std::size_t>(slow.rank)] *= slow.factor;
  }
  // A column is the ranks at the same place of every stage. All stages have the same lanes, so the
  // kind of a column consists of the factors and devices of its ranks.
  const auto columns = static_cast<std::size_t>(job.mesh.stage_gpus());
  using Kind = std::vector<std::pair<double, int>>;
  std::map<Kind, int> number_of_kind;
  std::vector<Kind> kinds(columns);
  for (std::size_t rank = 0; rank < fixed.size(); ++rank) {
    kinds[rank % columns].emplace_back(fixed[rank],
                                       job.device_of_rank.empty() ? 0 : job.device_of_rank[rank]);
  }
  // Kinds are numbered in their own order, so that classes and lanes do not depend on the order of
  // ranks.
  for (const Kind& kind : kinds) number_of_kind.try_emplace(kind);
  int count = 0;
  for (auto& [kind, number] : number_of_kind) number = count++;
  if (random()) {
    lane_of_rank_.resize(columns);
    std::iota(lane_of_rank_.begin(), lane_of_rank_.end(), 0);
  } else {
    std::vector<int> kind_of_column;
    for (const Kind& kind : kinds) kind_of_column.push_back(number_of_kind.at(kind));
    lane_of_rank_ = lane_classes(kind_of_column, axes);
  }
  const auto lanes =
      1 + static_cast<std::size_t>(*std::max_element(lane_of_rank_.begin(), lane_of_rank_.end()));
  ranks_per_lane_.resize(lanes);
  for (const int lane : lane_of_rank_) ++ranks_per_lane_[static_cast<std::size_t>(lane)];
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(job.mesh.pipeline); ++stage) {
    Stage& made = stages_.emplace_back();
    made.fixed.resize(lanes);
    made.device_of_lane.resize(lanes);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto lane = static_cast<std::size_t>(lane_of_rank_[column]);
      std::tie(made.fixed[lane], made.device_of_lane[lane]) = kinds[column][stage];
    }
  }
}

std::vector<double> RankSpeeds::factors(int step, int stage) const {
  std::vector<double> result = of(stage).fixed;
  if (!random()) return result;
  const int first = stage * static_cast<int>(result.size());  // each lane is one rank
  // Lognormal jitter is by far the most frequent distribution; many values are drawn at once.
  const auto* lognormal = drawn_.per_step ? std::get_if<Lognormal>(&*drawn_.per_step) : nullptr;
  if (lognormal && !drawn_.slow_periods) {
    std::vector<double> drawn(result.size());
    lognormal_draws(key_of(seed_, first, step, per_step_event), lognormal->sigma, drawn);
    for (std::size_t rank = 0; rank < result.size(); ++rank) {
      result[rank] *= std::max(fastest, drawn[rank]);
    }
    return result;
  }
  for (std::size_t rank = 0; rank < result.size(); ++rank) {
    result[rank] *= varying_factor(drawn_, seed_, first + static_cast<int>(rank), step);
  }
  return result;
}

}  // namespace lockstep
