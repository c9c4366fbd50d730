// The few SimGrid calls that differ between 3.32 and 4.x. Include this header in place of SimGrid's
// s4u headers; no folder but sim/engine includes SimGrid. SimGrid's engine owns all objects.
#pragma once

#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::sg {

namespace s4u = simgrid::s4u;

// A zone in which each pair of hosts can have its own route.
inline s4u::NetZone* make_zone(const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return s4u::Engine::get_instance()->get_netzone_root()->add_netzone_full(name);
#else
  return s4u::create_full_zone(name);
#endif
}

inline s4u::Host* make_host(s4u::NetZone* zone, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return zone->add_host(name, 1.0);
#else
  return zone->create_host(name, 1.0);
#endif
}

// A link of `rate` bytes/s. The latency is 0, because CM02 shares bandwidth in inverse proportion
// to latency; the engine adds latencies itself.
inline s4u::Link* make_link(s4u::NetZone* zone, const std::string& name, double rate) {
#if SIMGRID_VERSION >= 40000
  return zone->add_link(name, rate)->set_latency(0);
#else
  return zone->create_link(name, rate)->set_latency(0);
#endif
}

// The route from one host to another; not valid in the opposite direction.
inline void make_route(s4u::NetZone* zone, s4u::Host* from, s4u::Host* to,
                       const std::vector<s4u::Link*>& links) {
  std::vector<s4u::LinkInRoute> route(links.begin(), links.end());
#if SIMGRID_VERSION >= 33500
  zone->add_route(from, to, route, false);
#else
  zone->add_route(from->get_netpoint(), to->get_netpoint(), nullptr, nullptr, route, false);
#endif
}

// An actor that runs `program`, a callable without arguments.
template <class Program>
s4u::ActorPtr make_actor(const std::string& name, s4u::Host* host, Program&& program) {
#if SIMGRID_VERSION >= 40100
  return host->add_actor(name, std::forward<Program>(program));
#elif SIMGRID_VERSION >= 40000
  return s4u::Engine::get_instance()->add_actor(name, host, std::forward<Program>(program));
#else
  return s4u::Actor::create(name, host, std::forward<Program>(program));
#endif
}

}  // namespace lockstep::sg
