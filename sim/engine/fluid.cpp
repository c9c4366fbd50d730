// Water-filling over routes (see fluid.hpp).
#include "engine/fluid.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/range.hpp"

namespace lockstep {

int FluidNetwork::add_link(double bytes_per_second) {
  assert(bytes_per_second > 0);
  Link link;
  link.capacity = bytes_per_second;
  links_.push_back(link);
  return static_cast<int>(links_.size()) - 1;
}

int FluidNetwork::add_route(std::vector<int> links, double cap) {
  assert(cap > 0);
  Route route;
  route.cap = cap;
  route.links = std::move(links);
  routes_.push_back(std::move(route));
  return static_cast<int>(routes_.size()) - 1;
}

std::int64_t FluidNetwork::start(int route_id, double bytes, int weight, int tag, double now) {
  advance(now);
  Route& route = routes_[at(route_id)];
  if (route.flows.empty()) {
    route.served = 0;  // keeps virtual time small, so that its rounding stays small
    activate(route_id);
  }
  const double length = route.links.empty() && route.cap == never ? 0 : bytes;
  route.flows.push({route.served + length, started_++, tag, weight});
  change_users(route, weight);
  rates_known_ = false;
  return started_ - 1;
}

void FluidNetwork::drop(int route_id, std::int64_t flow, int weight, double now) {
  advance(now);
  Route& route = routes_[at(route_id)];
  route.dropped.push_back(flow);
  leave(route_id, weight);
}

void FluidNetwork::set_capacity(int link, double bytes_per_second, double now) {
  assert(bytes_per_second > 0);
  advance(now);
  links_[at(link)].capacity = bytes_per_second;
  rates_known_ = false;
}

// Rates are worked out once for all flows that start and end at the same time.
double FluidNetwork::next_completion() {
  if (!rates_known_) share_links();
  return next_route_ < 0 ? never : next_time_;
}

int FluidNetwork::complete_next() {
  if (!rates_known_) share_links();
  assert(next_route_ >= 0);
  const int route_id = next_route_;
  advance(next_time_);
  Route& route = routes_[at(route_id)];
  const Flow flow = route.flows.top();
  route.flows.pop();
  route.served = flow.finish;
  leave(route_id, flow.weight);
  return flow.tag;
}

void FluidNetwork::leave(int route_id, int weight) {
  Route& route = routes_[at(route_id)];
  change_users(route, -weight);
  while (!route.dropped.empty() && !route.flows.empty() &&
         std::erase(route.dropped, route.flows.top().order) > 0) {
    route.flows.pop();
  }
  if (route.flows.empty()) deactivate(route_id);
  rates_known_ = false;
}

double FluidNetwork::busy_seconds(int link_id, double now) const {
  const Link& link = links_[at(link_id)];
  return link.busy + (link.users > 0 ? now - link.busy_since : 0);
}

void FluidNetwork::change_users(Route& route, int weight) {
  route.users += weight;
  for (const int id : route.links) {
    Link& link = links_[at(id)];
    if (link.users == 0) link.busy_since = now_;
    link.users += weight;
    if (link.users == 0) link.busy += now_ - link.busy_since;
  }
}

std::vector<int>::iterator FluidNetwork::place_of(int route_id, std::vector<int>& routes) {
  return std::lower_bound(routes.begin(), routes.end(), route_id, [this](int a, int b) {
    const double cap_a = routes_[at(a)].cap, cap_b = routes_[at(b)].cap;
    return cap_a != cap_b ? cap_a < cap_b : a < b;
  });
}

void FluidNetwork::activate(int route_id) {
  active_.insert(place_of(route_id, active_), route_id);
  for (const int id : routes_[at(route_id)].links) {
    std::vector<int>& over = links_[at(id)].routes;
    const auto place = place_of(route_id, over);
    if (place == over.end() || *place != route_id) over.insert(place, route_id);
  }
}

void FluidNetwork::deactivate(int route_id) {
  active_.erase(place_of(route_id, active_));
  for (const int id : routes_[at(route_id)].links) {
    std::vector<int>& over = links_[at(id)].routes;
    const auto place = place_of(route_id, over);
    if (place != over.end() && *place == route_id) over.erase(place);
  }
}

void FluidNetwork::advance(double now) {
  const double elapsed = now - now_;
  if (elapsed > 0) {
    if (!rates_known_) share_links();
    for (const int id : active_) {
      Route& route = routes_[at(id)];
      if (route.rate == never) continue;
      route.served += route.rate * elapsed;
      const double bytes = route.rate * elapsed * static_cast<double>(route.users);
      for (const int link : route.links) links_[at(link)].carried += bytes;
    }
    now_ = now;
  }
}

// Max-min: the link with the smallest fair share fixes the rates of the routes that cross it (a
// route's own cap works like a link that nobody else uses); repeat with what is left of the others.
void FluidNetwork::share_links() {
  rates_known_ = true;
  shared_.clear();
  for (const int id : active_) {
    Route& route = routes_[at(id)];
    route.fixed = false;
    for (const int link_id : route.links) {
      Link& link = links_[at(link_id)];
      if (link.listed) continue;
      link.listed = true;
      shared_.push_back(link_id);
      link.left = link.capacity;
      link.open = static_cast<double>(link.users);
      link.share = link.left / link.open;
    }
  }
  std::size_t open = active_.size();
  const auto fix = [&](Route& route, double rate) {
    route.fixed = true;
    route.rate = rate;
    --open;
    for (const int link_id : route.links) {
      Link& link = links_[at(link_id)];
      link.left -= rate * static_cast<double>(route.users);
      link.open -= static_cast<double>(route.users);
      link.share = link.open > 0 ? std::max(link.left, 0.0) / link.open : never;
    }
  };
  std::size_t capped = 0;  // routes before this one, in order of their caps, have their rate
  while (open > 0) {
    double rate = never;
    const Link* tightest = nullptr;
    for (const int id : shared_) {
      const Link& link = links_[at(id)];
      if (link.share < rate) {
        rate = link.share;
        tightest = &link;
      }
    }
    // Fixing a route below the smallest share only raises the shares of others.
    bool any = false;
    for (; capped < active_.size(); ++capped) {
      Route& route = routes_[at(active_[capped])];
      if (route.fixed) continue;
      if (route.cap > rate) break;
      fix(route, route.cap);
      any = true;
    }
    if (any) continue;
    for (const int id : tightest->routes) {
      if (!routes_[at(id)].fixed) fix(routes_[at(id)], rate);
    }
  }
  for (const int id : shared_) links_[at(id)].listed = false;
  next_route_ = -1;
  next_time_ = never;
  for (const int id : active_) {
    const Route& route = routes_[at(id)];
    const double remaining = std::max(route.flows.top().finish - route.served, 0.0);
    const double end = remaining > 0 ? now_ + remaining / route.rate : now_;
    if (end < next_time_) {
      next_time_ = end;
      next_route_ = id;
    }
  }
}

}  // namespace lockstep
