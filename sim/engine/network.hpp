// The network seam: carries one transfer at a time for each calling actor. Three ways behind one
// interface: closed form, coupled SimGrid flow, and rings message by message.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/sg_compat.hpp"
#include "engine/transfer.hpp"

namespace lockstep {

// The links of the world and what crossed them.
class Links {
 public:
  struct Link {
    std::string name;
    std::string link_class;  // empty = a connection limit, without statistics
    double bytes_per_second = 0;
    double count = 1;
    sg::s4u::Link* simulated = nullptr;
    double bytes = 0;
    double total_bytes = 0;
    double busy_seconds = 0;
    int active = 0;  // transfers on it right now
    double active_since = 0;
  };

  LinkId add(Link link);
  const Link& at(LinkId id) const { return links_[static_cast<std::size_t>(id)]; }
  // Bookkeeping of a transfer between two moments. `begin` and `end` calls must pair up.
  void begin(const TransferSpec& spec, double time);
  void end(const TransferSpec& spec, double time);
  // A transfer whose times are known in closed form.
  void count(const TransferSpec& spec, double seconds);
  std::vector<LinkTotals> totals() const;

 private:
  void add_bytes(Link& link, const LinkUse& use);
  std::vector<Link> links_;
};

class Network {
 public:
  virtual ~Network() = default;
  // Carries the transfer for an actor, from `start` on: blocks the actor until it is done and
  // returns when that is. A start in the past means that the transfer has been running since then:
  // the bytes it would have moved alone are credited.
  virtual double carry(const TransferSpec& spec, double start) = 0;
};

// Seconds of a transfer that is alone, latency included.
double lone_seconds(const TransferSpec& spec, const Links& links);

// Carries a transfer that nothing else can disturb, and returns when it is done; no simulated time
// passes. Not for NetworkKind::message.
double carry_alone(NetworkKind kind, const TransferSpec& spec, double start, Links& links);

struct NetworkContext {
  sg::s4u::NetZone* zone = nullptr;
  Links* links = nullptr;
  int concurrent_transfers = 512;  // rate-limited transfers at once, over all shapes
};

// Call before the simulation runs: creates hosts and links.
std::unique_ptr<Network> make_network(NetworkKind kind, const NetworkContext& context);

// SimGrid refuses links of no or boundless capacity and loses precision on tiny payloads; all rates
// and bytes are multiplied by this before they reach it.
inline constexpr double payload_scale = 65536;

}  // namespace lockstep
