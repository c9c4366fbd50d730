// Max-min fair sharing by water-filling (progressive filling: Bertsekas and Gallager, Data
// Networks, 6.5). The algorithm runs over routes, not flows, and only in the parts of the network
// that changed. Rates are computed lazily, once for all flows that start and end at the same time.
#include "engine/fluid.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "engine/range.hpp"

namespace lockstep {

int FluidNetwork::add_link(double bytes_per_second) {
  assert(bytes_per_second > 0);
  Link link;
  link.capacity = bytes_per_second;
  links_.push_back(std::move(link));
  return static_cast<int>(links_.size()) - 1;
}

int FluidNetwork::add_route(const std::vector<int>& links, double cap) {
  assert(cap > 0);
  const int id = static_cast<int>(routes_.size());
  routes_.emplace_back().cap = cap;
  std::vector<Crossing>& crossings = queues_.emplace_back().crossings;
  for (const int link : links) {
    const auto known = std::find_if(crossings.begin(), crossings.end(),
                                    [link](const Crossing& c) { return c.link == link; });
    if (known != crossings.end()) {
      ++known->times;
      continue;
    }
    crossings.push_back({link});
    links_[at(link)].routes.push_back(id);
  }
  laid_out_ = false;
  return id;
}

std::int64_t FluidNetwork::start(int id, double bytes, int weight, int tag, double now) {
  advance_to(now);
  if (!laid_out_) lay_out();
  Route& route = routes_[at(id)];
  Queue& queue = queues_[at(id)];
  settle(route);
  if (queue.flows.empty()) {
    // Restarts virtual time at 0, so that it stays small and loses little to rounding.
    route.served = 0;
    activate(id);
  }
  const double length = queue.crossings.empty() && route.cap == never ? 0 : bytes;
  queue.flows.push({route.served + length, started_++, tag, weight});
  change_users(id, weight);
  return started_ - 1;
}

void FluidNetwork::drop(int id, std::int64_t flow, int weight, double now) {
  advance_to(now);
  settle(routes_[at(id)]);
  queues_[at(id)].dropped.push_back(flow);
  leave(id, weight);
}

void FluidNetwork::set_capacity(int link, double bytes_per_second, double now) {
  assert(bytes_per_second > 0);
  advance_to(now);
  links_[at(link)].capacity = bytes_per_second;
  laid_out_ = false;  // other links may fill up with this capacity
}

// Rates are computed once for all flows that start and end at the same time.
double FluidNetwork::next_completion() {
  share_all();
  constexpr std::size_t few = 16;  // a plain loop is faster than the call of the vector loop
  if (next_.size() > few) return range_of(next_).smallest;
  double next = never;
  for (const double part : next_) next = std::min(next, part);
  return next;
}

// Ends that differ only by rounding count as one moment, and flows are reported in the order of
// their starts. Therefore the result does not depend on the last bits of a sum.
const std::vector<int>& FluidNetwork::complete(double now) {
  advance_to(now);
  share_all();
  completed_.clear();
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (next_[part] > now + clock_precision) continue;
    for (const int id : parts_[part].active) {
      if (routes_[at(id)].end <= now + clock_precision) completed_.push_back(id);
    }
  }
  due_.clear();
  for (const int id : completed_) {
    Route& route = routes_[at(id)];
    Queue& queue = queues_[at(id)];
    settle(route);
    const double served = std::max(route.next_finish, route.served + route.rate * clock_precision);
    while (!queue.flows.empty() && queue.flows.top().finish <= served) {
      const Flow flow = queue.flows.top();
      queue.flows.pop();
      route.served = std::max(route.served, flow.finish);
      due_.emplace_back(flow.order, flow.tag);
      leave(id, flow.weight);
    }
  }
  if (due_.size() > 1) std::sort(due_.begin(), due_.end());
  completed_.clear();
  for (const auto& [order, tag] : due_) completed_.push_back(tag);
  return completed_;
}

// Also removes dropped flows that have come to the top of the queue.
void FluidNetwork::leave(int id, int weight) {
  Queue& queue = queues_[at(id)];
  while (!queue.dropped.empty() && !queue.flows.empty() &&
         std::erase(queue.dropped, queue.flows.top().order) > 0) {
    queue.flows.pop();
  }
  change_users(id, -weight);
  if (queue.flows.empty()) deactivate(id);
}

double FluidNetwork::bytes_carried(int id) const {
  double bytes = 0;
  for (const int over : links_[at(id)].routes) {
    const Route& route = routes_[at(over)];
    const std::vector<Crossing>& crossings = queues_[at(over)].crossings;
    const auto here = std::find_if(crossings.begin(), crossings.end(),
                                   [id](const Crossing& c) { return c.link == id; });
    bytes += here->times * (route.carried + route.weight * route.rate * (now_ - route.since));
  }
  return bytes;
}

double FluidNetwork::busy_seconds(int id, double now) const {
  const Link& link = links_[at(id)];
  return link.busy + (link.active > 0 ? now - link.busy_since : 0);
}

// The route has `weight` more flows (fewer if negative), so the rates of its part are no longer
// valid.
void FluidNetwork::change_users(int id, int weight) {
  Route& route = routes_[at(id)];
  const Queue& queue = queues_[at(id)];
  route.weight += weight;
  if (!queue.flows.empty()) route.next_finish = queue.flows.top().finish;
  Part& part = parts_[at(route.part)];
  for (const Load& load : route.loads) part.users[load.slot] += load.times * weight;
  forget_rates(route);
}

bool FluidNetwork::before(int a, int b) const {
  const double cap_a = routes_[at(a)].cap, cap_b = routes_[at(b)].cap;
  return cap_a != cap_b ? cap_a < cap_b : a < b;
}

// Adds a route to the lists of routes with flows, both of its part and of its links, in the order
// of before().
void FluidNetwork::join(int id) {
  const auto add = [&](std::vector<int>& routes) {
    const auto order = [this](int a, int b) { return before(a, b); };
    routes.insert(std::lower_bound(routes.begin(), routes.end(), id, order), id);
  };
  const Route& route = routes_[at(id)];
  Part& part = parts_[at(route.part)];
  add(part.active);
  for (const Load& load : route.loads) add(part.routes[load.slot]);
}

// The route's first flow has come: the route takes part in sharing, and its links become busy.
void FluidNetwork::activate(int id) {
  join(id);
  for (const Crossing& crossing : queues_[at(id)].crossings) {
    Link& link = links_[at(crossing.link)];
    if (link.active++ == 0) link.busy_since = now_;
  }
}

// The route's last flow has gone.
void FluidNetwork::deactivate(int id) {
  const Route& route = routes_[at(id)];
  Part& part = parts_[at(route.part)];
  std::erase(part.active, id);
  for (const Load& load : route.loads) std::erase(part.routes[load.slot], id);
  for (const Crossing& crossing : queues_[at(id)].crossings) {
    Link& link = links_[at(crossing.link)];
    if (--link.active == 0) link.busy += now_ - link.busy_since;
  }
}

void FluidNetwork::advance_to(double now) {
  if (now <= now_) return;
  share_all();
  now_ = now;
}

// Moves the route's virtual time and byte count to the present, at the rate that was valid since
// the last call.
void FluidNetwork::settle(Route& route) {
  const double elapsed = now_ - route.since;
  if (elapsed > 0 && route.rate > 0 && route.rate < never) {
    route.served += route.rate * elapsed;
    route.carried += route.rate * elapsed * route.weight;
  }
  route.since = now_;
}

// Marks the rates of the route's part as unknown. A zero rate makes set_rate() compute the route's
// end again even if the new rate equals the old one.
void FluidNetwork::forget_rates(Route& route) {
  route.rate = 0;
  Part& part = parts_[at(route.part)];
  if (part.known) unknown_.push_back(route.part);
  part.known = false;
}

// A link cannot fill up if the other links of its routes let less traffic through than its
// capacity. Such a link changes no rate and is left out. Links are examined one after the other,
// and a link that was left out bounds no later link; otherwise two equal links in a row would both
// be left out.
std::vector<bool> FluidNetwork::links_that_fill() const {
  std::vector<bool> fills(links_.size(), true);
  // By link: traffic that it lets through to the examined link.
  std::vector<double> through(links_.size(), 0);
  for (std::size_t id = 0; id < links_.size(); ++id) {
    std::vector<int> others;
    double bound = 0;
    for (const int over : links_[id].routes) {
      const std::vector<Crossing>& crossings = queues_[at(over)].crossings;
      const auto here = std::find_if(crossings.begin(), crossings.end(),
                                     [id](const Crossing& c) { return at(c.link) == id; });
      // The link of this route that lets the least traffic through to link `id`.
      int tightest = -1;
      double least = never;
      for (const Crossing& other : crossings) {
        if (at(other.link) == id || !fills[at(other.link)]) continue;
        const double lets = links_[at(other.link)].capacity * here->times / other.times;
        if (lets < least) {
          least = lets;
          tightest = other.link;
        }
      }
      if (tightest < 0) {
        bound = never;
        break;
      }
      if (through[at(tightest)] == 0) others.push_back(tightest);
      through[at(tightest)] = std::max(through[at(tightest)], least);
    }
    for (const int other : others) {
      bound += through[at(other)];
      through[at(other)] = 0;
    }
    fills[id] = bound > links_[id].capacity;
  }
  return fills;
}

// Finds the links that can fill up, and the groups of routes that such links connect (union-find;
// `leader` is the smallest route of a group).
void FluidNetwork::lay_out() {
  laid_out_ = true;
  const std::vector<bool> fills = links_that_fill();
  std::vector<int> first(links_.size(), -1);  // a route over the link
  std::vector<int> leader(routes_.size());
  std::iota(leader.begin(), leader.end(), 0);
  const auto leader_of = [&](int route) {
    while (leader[at(route)] != route) route = leader[at(route)] = leader[at(leader[at(route)])];
    return route;
  };
  for (std::size_t id = 0; id < routes_.size(); ++id) {
    for (const Crossing& crossing : queues_[id].crossings) {
      if (!fills[at(crossing.link)]) continue;
      int& other = first[at(crossing.link)];
      if (other < 0) other = static_cast<int>(id);
      const int a = leader_of(static_cast<int>(id)), b = leader_of(other);
      leader[at(std::max(a, b))] = std::min(a, b);
    }
  }
  parts_.clear();
  unknown_.clear();
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> slot_of(links_.size(), none);
  for (std::size_t id = 0; id < routes_.size(); ++id) {
    Route& route = routes_[id];
    settle(route);
    const int lead = leader_of(static_cast<int>(id));
    if (at(lead) == id) {
      route.part = static_cast<int>(parts_.size());
      parts_.emplace_back();
    }
    route.part = routes_[at(lead)].part;
    Part& part = parts_[at(route.part)];
    for (const Crossing& crossing : queues_[id].crossings) {
      if (!fills[at(crossing.link)]) continue;
      std::size_t& slot = slot_of[at(crossing.link)];
      if (slot == none) {
        slot = part.links.size();
        part.links.push_back(crossing.link);
      }
      part.loads.push_back({slot, static_cast<double>(crossing.times)});
    }
  }
  // Pad the arrays to whole vectors. Padding has no users, so its share is infinite.
  next_.assign(parts_.size(), never);
  for (Part& part : parts_) {
    const std::size_t slots = (part.links.size() + wide_lanes - 1) / wide_lanes * wide_lanes;
    part.routes.resize(slots);
    part.capacity.assign(slots, never);
    part.users.assign(slots, 0);
    part.left.resize(slots);
    part.open.resize(slots);
    part.shares.resize(slots);
    for (std::size_t slot = 0; slot < part.links.size(); ++slot) {
      part.capacity[slot] = links_[at(part.links[slot])].capacity;
    }
  }
  // By part: number of Part::loads that belong to the routes so far.
  std::vector<std::size_t> counts(parts_.size(), 0);
  for (std::size_t id = 0; id < routes_.size(); ++id) {
    Route& route = routes_[id];
    const auto own = static_cast<std::size_t>(
        std::count_if(queues_[id].crossings.begin(), queues_[id].crossings.end(),
                      [&](const Crossing& c) { return fills[at(c.link)]; }));
    std::size_t& begin = counts[at(route.part)];
    route.loads = std::span<const Load>(parts_[at(route.part)].loads).subspan(begin, own);
    begin += own;
    // The cap may limit the rate, unless some link limits even a single flow at least as much.
    route.capped = std::none_of(route.loads.begin(), route.loads.end(), [&](const Load& load) {
      return parts_[at(route.part)].capacity[load.slot] <= route.cap * load.times;
    });
    if (queues_[id].flows.empty()) continue;
    join(static_cast<int>(id));
    for (const Load& load : route.loads) {
      parts_[at(route.part)].users[load.slot] += load.times * route.weight;
    }
    forget_rates(route);
  }
}

void FluidNetwork::share_unknown() {
  if (!laid_out_) lay_out();
  for (const int part : unknown_) next_[at(part)] = share(parts_[at(part)]);
  unknown_.clear();
}

// Changes a route's rate and the end of its next flow.
void FluidNetwork::set_rate(Route& route, double rate) {
  if (rate == route.rate) return;
  settle(route);
  route.rate = rate;
  const double remaining = route.next_finish - route.served;
  route.end = remaining > 0 ? now_ + remaining / rate : now_;
}

// share() for a part in which only one route has flows, the most frequent case with parameter
// servers.
double FluidNetwork::share_alone(const Part& part) {
  Route& route = routes_[at(part.active.front())];
  double rate = route.cap;
  for (const Load& load : route.loads) {
    rate = std::min(rate, part.capacity[load.slot] / part.users[load.slot]);
  }
  set_rate(route, rate);
  return route.end;
}

namespace {

// For each link: remaining capacity / number of flows that have no rate yet. Returns the minimum.
// REQUIRES: sizes are multiples of wide_lanes.
LOCKSTEP_WIDE_VECTORS
double divide(std::span<const double> left, std::span<const double> open,
              std::span<double> shares) {
  const Wide nothing{}, unused = never + nothing;
  Wide least = unused;
  for (std::size_t slot = 0; slot < left.size(); slot += wide_lanes) {
    const Wide whole = *wide(&left[slot]), by = *wide(&open[slot]);
    const Wide share = by > nothing ? (whole > nothing ? whole : nothing) / by : unused;
    least = share < least ? share : least;
    *wide(&shares[slot]) = share;
  }
  double smallest = never;
  for (std::size_t k = 0; k < wide_lanes; ++k) smallest = std::min(smallest, least[k]);
  return smallest;
}

}  // namespace

// The link with the smallest fair share determines the rates of the routes that cross it; a route's
// own cap works like a private link. The algorithm repeats this with the remaining capacity of the
// other links, until all routes have their rates. Returns the time of the next completion.
double FluidNetwork::share(Part& part) {
  part.known = true;
  if (part.active.size() == 1) return share_alone(part);
  const std::size_t slots = part.shares.size();
  double* const left = part.left.data();
  double* const open = part.open.data();
  for (std::size_t slot = 0; slot < slots; ++slot) {
    left[slot] = part.capacity[slot];
    open[slot] = part.users[slot];
  }
  bool capped = false;
  for (const int id : part.active) {
    routes_[at(id)].fixed = false;
    capped = capped || routes_[at(id)].capped;
  }
  std::size_t unfixed = part.active.size();
  double next = never;
  const auto fix = [&](int id, double rate) {
    Route& route = routes_[at(id)];
    route.fixed = true;
    --unfixed;
    set_rate(route, rate);
    next = std::min(next, route.end);
    for (const Load& load : route.loads) {
      const double weight = load.times * route.weight;
      left[load.slot] -= rate * weight;
      open[load.slot] -= weight;
    }
  };
  // In order of their caps, all routes before this one have their rates.
  std::size_t before = 0;
  while (unfixed > 0) {
    const double rate = divide(part.left, part.open, part.shares);
    // Routes whose cap is at most the smallest share get their cap as rate first. This can only
    // raise the shares of the other routes.
    bool any = false;
    for (; capped && before < part.active.size(); ++before) {
      const int id = part.active[before];
      if (routes_[at(id)].fixed) continue;
      if (routes_[at(id)].cap > rate) break;
      fix(id, routes_[at(id)].cap);
      any = true;
    }
    if (any) continue;
    const auto tightest = std::find(part.shares.begin(), part.shares.end(), rate);
    for (const int id : part.routes[static_cast<std::size_t>(tightest - part.shares.begin())]) {
      if (!routes_[at(id)].fixed) fix(id, rate);
    }
  }
  return next;
}

}  // namespace lockstep
