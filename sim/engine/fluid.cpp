// Water-filling over routes (see fluid.hpp).
#include "engine/fluid.hpp"

#include <algorithm>
#include <array>
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
    route.served = 0;  // keeps virtual time small, so that its rounding stays small
    activate(id);
  }
  const double length = queue.crossings.empty() && route.cap == never ? 0 : bytes;
  queue.flows.push({route.served + length, started_++, tag, weight});
  change_users(id, weight);
  forget_rates(route);
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
  laid_out_ = false;  // other links may fill up
}

// Rates are worked out once for all flows that start and end at the same time.
double FluidNetwork::next_completion() {
  if (!due_.empty()) return now_;
  share_all();
  return next_of_parts();
}

double FluidNetwork::next_of_parts() {
  const auto order = [this](const Completion& a, const Completion& b) { return later(a, b); };
  while (!next_.empty() && next_.front().shared != part_of(next_.front().route).shared) {
    std::pop_heap(next_.begin(), next_.end(), order);
    next_.pop_back();
  }
  return next_.empty() ? never : next_.front().time;
}

int FluidNetwork::complete_next() {
  if (due_.empty()) find_due();
  const int id = due_.back();
  Route& route = routes_[at(id)];
  Queue& queue = queues_[at(id)];
  const Flow flow = queue.flows.top();
  queue.flows.pop();
  settle(route);
  route.served = flow.finish;
  leave(id, flow.weight);
  if (queue.flows.empty() || queue.flows.top().finish > route.served) due_.pop_back();
  return flow.tag;
}

// All routes with a flow that completes next, the last one first.
void FluidNetwork::find_due() {
  const double time = next_completion();
  assert(time < never);
  advance_to(time);
  while (next_of_parts() <= time) {
    Part& part = part_of(next_.front().route);
    for (const int id : part.active) {
      if (routes_[at(id)].end <= time) due_.push_back(id);
    }
    ++part.shared;  // what it told is void
  }
  std::sort(due_.begin(), due_.end(), [this](int a, int b) { return before(b, a); });
}

void FluidNetwork::leave(int id, int weight) {
  Queue& queue = queues_[at(id)];
  change_users(id, -weight);
  while (!queue.dropped.empty() && !queue.flows.empty() &&
         std::erase(queue.dropped, queue.flows.top().order) > 0) {
    queue.flows.pop();
  }
  forget_rates(routes_[at(id)]);
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
  return link.busy + (link.users > 0 ? now - link.busy_since : 0);
}

void FluidNetwork::change_users(int id, int weight) {
  routes_[at(id)].weight += weight;
  for (const Crossing& crossing : queues_[at(id)].crossings) {
    Link& link = links_[at(crossing.link)];
    if (link.users == 0) link.busy_since = now_;
    link.users += crossing.times * weight;
    if (link.users == 0) link.busy += now_ - link.busy_since;
  }
}

bool FluidNetwork::before(int a, int b) const {
  const double cap_a = routes_[at(a)].cap, cap_b = routes_[at(b)].cap;
  return cap_a != cap_b ? cap_a < cap_b : a < b;
}

bool FluidNetwork::later(const Completion& a, const Completion& b) const {
  return a.time != b.time ? a.time > b.time : before(b.route, a.route);
}

void FluidNetwork::activate(int id) {
  const auto add = [&](std::vector<int>& routes) {
    const auto order = [this](int a, int b) { return before(a, b); };
    routes.insert(std::lower_bound(routes.begin(), routes.end(), id, order), id);
  };
  const Route& route = routes_[at(id)];
  Part& part = parts_[at(route.part)];
  add(part.active);
  for (const Load& load : route.loads) add(part.routes[load.slot]);
}

void FluidNetwork::deactivate(int id) {
  const Route& route = routes_[at(id)];
  Part& part = parts_[at(route.part)];
  std::erase(part.active, id);
  for (const Load& load : route.loads) std::erase(part.routes[load.slot], id);
}

void FluidNetwork::advance_to(double now) {
  if (now <= now_) return;
  share_all();
  now_ = now;
}

// Its clock up to now.
void FluidNetwork::settle(Route& route) {
  const double elapsed = now_ - route.since;
  if (elapsed > 0 && route.rate > 0 && route.rate < never) {
    route.served += route.rate * elapsed;
    route.carried += route.rate * elapsed * route.weight;
  }
  route.since = now_;
}

// Its flows have changed, and with them what its part shares.
void FluidNetwork::forget_rates(Route& route) {
  route.rate = 0;
  Part& part = parts_[at(route.part)];
  if (part.known) unknown_.push_back(route.part);
  part.known = false;
}

// A link cannot fill up where those others that its routes cross let less through than it carries:
// leaving it out changes no rate. One after the other, so that none stands for another that stands
// for it.
std::vector<bool> FluidNetwork::links_that_fill() const {
  std::vector<bool> fills(links_.size(), true);
  std::vector<double> through(links_.size(), 0);  // what others let on it, by link
  for (std::size_t id = 0; id < links_.size(); ++id) {
    std::vector<int> others;
    double bound = 0;
    for (const int over : links_[id].routes) {
      const std::vector<Crossing>& crossings = queues_[at(over)].crossings;
      const auto here = std::find_if(crossings.begin(), crossings.end(),
                                     [id](const Crossing& c) { return at(c.link) == id; });
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

// Which links can fill up, and which routes they connect.
void FluidNetwork::lay_out() {
  laid_out_ = true;
  const std::vector<bool> fills = links_that_fill();
  std::vector<int> first(links_.size(), -1);  // a route over it
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
  next_.clear();
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
  for (Part& part : parts_) {
    const std::size_t slots = part.links.size();
    part.routes.resize(slots);
    part.left.resize(slots);
    part.open.resize(slots);
    part.shares.resize((slots + 3) / 4 * 4, never);
  }
  std::vector<std::size_t> told(parts_.size(), 0);  // of Part::loads
  for (std::size_t id = 0; id < routes_.size(); ++id) {
    Route& route = routes_[id];
    const auto own = static_cast<std::size_t>(
        std::count_if(queues_[id].crossings.begin(), queues_[id].crossings.end(),
                      [&](const Crossing& c) { return fills[at(c.link)]; }));
    std::size_t& begin = told[at(route.part)];
    route.loads = std::span<const Load>(parts_[at(route.part)].loads).subspan(begin, own);
    begin += own;
    if (queues_[id].flows.empty()) continue;
    activate(static_cast<int>(id));
    forget_rates(route);
  }
}

void FluidNetwork::share_all() {
  if (!laid_out_) lay_out();
  for (const int part : unknown_) share(parts_[at(part)]);
  unknown_.clear();
}

namespace {

// Of a multiple of four, four at a time.
double smallest(const std::vector<double>& values) {
  std::array<double, 4> least{never, never, never, never};
  for (std::size_t i = 0; i < values.size(); i += least.size()) {
    for (std::size_t k = 0; k < least.size(); ++k) {
      least[k] = values[i + k] < least[k] ? values[i + k] : least[k];
    }
  }
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

// Max-min: the link with the smallest fair share fixes the rates of the routes that cross it (a
// route's own cap works like a link that nobody else uses); repeat with what is left of the others.
void FluidNetwork::share(Part& part) {
  part.known = true;
  ++part.shared;
  for (std::size_t slot = 0; slot < part.links.size(); ++slot) {
    const Link& link = links_[at(part.links[slot])];
    part.left[slot] = link.capacity;
    part.open[slot] = static_cast<double>(link.users);
    part.shares[slot] = link.users > 0 ? part.left[slot] / part.open[slot] : never;
  }
  for (const int id : part.active) routes_[at(id)].fixed = false;
  std::size_t open = part.active.size();
  // The share of the link that is just being filled is not asked for any more.
  const auto fix = [&](int id, double rate, std::size_t filling) {
    Route& route = routes_[at(id)];
    route.fixed = true;
    --open;
    if (rate != route.rate) {
      settle(route);
      route.rate = rate;
      const double remaining = std::max(queues_[at(id)].flows.top().finish - route.served, 0.0);
      route.end = remaining > 0 ? now_ + remaining / rate : now_;
    }
    for (const Load& load : route.loads) {
      const double weight = load.times * route.weight;
      double &left = part.left[load.slot], &still_open = part.open[load.slot];
      left -= rate * weight;
      still_open -= weight;
      if (load.slot == filling) continue;
      part.shares[load.slot] = still_open > 0 ? std::max(left, 0.0) / still_open : never;
    }
  };
  std::size_t capped = 0;  // routes before this one, in order of their caps, have their rate
  while (open > 0) {
    const double rate = smallest(part.shares);
    // Fixing a route below the smallest share only raises the shares of others.
    bool any = false;
    for (; capped < part.active.size(); ++capped) {
      const int id = part.active[capped];
      if (routes_[at(id)].fixed) continue;
      if (routes_[at(id)].cap > rate) break;
      fix(id, routes_[at(id)].cap, part.links.size());
      any = true;
    }
    if (any) continue;
    const auto tightest = static_cast<std::size_t>(
        std::find(part.shares.begin(), part.shares.end(), rate) - part.shares.begin());
    for (const int id : part.routes[tightest]) {
      if (!routes_[at(id)].fixed) fix(id, rate, tightest);
    }
    part.shares[tightest] = never;
  }
  Completion next{never, -1, part.shared};
  for (const int id : part.active) {
    const Route& route = routes_[at(id)];
    if (route.end < next.time) {
      next.time = route.end;
      next.route = id;
    }
  }
  if (next.route < 0) return;
  next_.push_back(next);
  std::push_heap(next_.begin(), next_.end(),
                 [this](const Completion& a, const Completion& b) { return later(a, b); });
}

}  // namespace lockstep
