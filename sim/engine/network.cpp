#include "engine/network.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

#include "engine/doorbell.hpp"

namespace lockstep {

namespace s4u = sg::s4u;

LinkId Links::add(Link link) {
  links_.push_back(std::move(link));
  return static_cast<LinkId>(links_.size()) - 1;
}

void Links::add_bytes(Link& link, const LinkUse& use) {
  link.bytes += use.bytes;
  link.total_bytes += use.total_bytes > 0 ? use.total_bytes : use.bytes * link.count;
}

void Links::begin(const TransferSpec& spec, double time) {
  for (const LinkUse& use : spec.uses) {
    Link& link = links_[static_cast<std::size_t>(use.link)];
    if (link.active++ == 0) link.active_since = time;
    add_bytes(link, use);
  }
}

void Links::end(const TransferSpec& spec, double time) {
  for (const LinkUse& use : spec.uses) {
    Link& link = links_[static_cast<std::size_t>(use.link)];
    if (--link.active == 0) link.busy_seconds += std::max(0.0, time - link.active_since);
  }
}

void Links::count(const TransferSpec& spec, double seconds) {
  for (const LinkUse& use : spec.uses) {
    Link& link = links_[static_cast<std::size_t>(use.link)];
    add_bytes(link, use);
    link.busy_seconds += seconds;
  }
}

std::vector<LinkTotals> Links::totals() const {
  std::vector<LinkTotals> result;
  for (const Link& link : links_) {
    if (link.link_class.empty()) continue;
    auto same = [&](const LinkTotals& t) { return t.link_class == link.link_class; };
    auto at = std::find_if(result.begin(), result.end(), same);
    if (at == result.end()) at = result.insert(at, LinkTotals{link.link_class, 0, 0, 0});
    at->bytes = std::max(at->bytes, link.bytes);
    at->total_bytes += link.total_bytes;
    at->busy_seconds = std::max(at->busy_seconds, link.busy_seconds);
  }
  return result;
}

namespace {

// Seconds the bytes need alone.
double lone_bytes_seconds(const TransferSpec& spec, const Links& links) {
  double seconds = 0;
  if (spec.bytes > 0 && spec.lone_bytes_per_second > 0) {
    seconds = spec.bytes / spec.lone_bytes_per_second;
  } else {
    for (const LinkUse& use : spec.uses) {
      seconds = std::max(seconds, use.bytes / links.at(use.link).bytes_per_second);
    }
  }
  return seconds;
}

void sleep_until(double time) {
  const double ahead = time - s4u::Engine::get_clock();
  if (ahead > 0) s4u::this_actor::sleep_for(ahead);
}

class AnalyticNetwork : public Network {
 public:
  explicit AnalyticNetwork(Links& links) : links_(links) {}

  double carry(const TransferSpec& spec, double start) override {
    const double end = carry_alone(NetworkKind::analytic, spec, start, links_);
    sleep_until(end);
    return end;
  }

 private:
  Links& links_;
};

// How often each link stands in the route of a coupled flow, and the payload that makes one pass.
struct Shape {
  std::vector<std::pair<LinkId, int>> passes;
  double payload = 0;  // bytes
};

// A flow can only cross a link a whole number of times. The link that is busiest when the transfer
// is alone is crossed once, so that it is charged exactly and the flow competes there as one; the
// others are rounded, and never beyond what they can carry in the time the transfer takes alone.
Shape shape_of(const TransferSpec& spec, const Links& links, double lone) {
  const LinkUse* busiest = nullptr;
  double longest = 0;
  for (const LinkUse& use : spec.uses) {
    const double seconds = use.bytes / links.at(use.link).bytes_per_second;
    if (seconds > longest) {
      busiest = &use;
      longest = seconds;
    }
  }
  if (busiest == nullptr) return {{}, spec.bytes};
  Shape shape{{}, busiest->bytes};
  for (const LinkUse& use : spec.uses) {
    const double exact = use.bytes / shape.payload;
    const double room = lone * links.at(use.link).bytes_per_second / shape.payload;
    int times = static_cast<int>(std::lround(exact));
    if (times > exact && times > room * (1 + 1e-12)) times = static_cast<int>(exact);
    if (times > 0) shape.passes.emplace_back(use.link, times);
  }
  return shape;
}

// A pair of pseudo hosts whose route is one shape plus one private link: room for one flow at a
// time.
struct Lane {
  s4u::Host* from = nullptr;
  s4u::Host* to = nullptr;
  s4u::Link* limit = nullptr;  // null = only the shape's own links limit the flow
};

class FlowNetwork : public Network {
 public:
  explicit FlowNetwork(const NetworkContext& context)
      : links_(*context.links), zone_(context.zone) {
    for (int i = 0; i < pseudo_hosts; ++i) {
      hosts_.push_back(sg::make_host(zone_, "port" + std::to_string(i)));
    }
    for (int i = 0; i < context.concurrent_transfers; ++i) {
      limits_.push_back(sg::make_link(zone_, "limit" + std::to_string(i), payload_scale));
    }
  }

  double carry(const TransferSpec& spec, double start) override {
    const double lone = lone_bytes_seconds(spec, links_);
    const double begin = start + spec.latency_seconds;
    sleep_until(begin);
    links_.begin(spec, begin);
    const double late = std::max(0.0, s4u::Engine::get_clock() - begin);
    double end = begin + lone;
    if (late < lone) {
      flow(spec, lone, 1 - late / lone);
      end = std::max(begin, s4u::Engine::get_clock());
    }
    links_.end(spec, end);
    return end;
  }

 private:
  void flow(const TransferSpec& spec, double lone, double fraction) {
    const bool limited = spec.lone_bytes_per_second > 0;
    const Shape shape = shape_of(spec, links_, lone);
    const double payload = std::max(1.0, std::round(shape.payload * fraction * payload_scale));
    if (shape.passes.empty() && !limited) {
      s4u::this_actor::sleep_for(lone * fraction);
      return;
    }
    std::deque<Lane>& idle = idle_[{shape.passes, limited}];
    if (idle.empty()) idle.push_back(make_lane(shape, limited));
    const Lane lane = idle.front();
    idle.pop_front();
    // The capacity that makes the rounded payload take exactly as long as it should alone.
    if (limited) lane.limit->set_bandwidth(payload / (lone * fraction));
    s4u::Comm::sendto(lane.from, lane.to, static_cast<std::uint64_t>(payload));
    idle.push_back(lane);
  }

  Lane make_lane(const Shape& shape, bool limited) {
    if (next_pair_ >= pseudo_hosts * (pseudo_hosts - 1)) {
      throw std::logic_error("too many different routes in one World");
    }
    const int from = next_pair_ / (pseudo_hosts - 1);
    const int rest = next_pair_ % (pseudo_hosts - 1);
    const int to = rest < from ? rest : rest + 1;
    ++next_pair_;
    Lane lane{hosts_[static_cast<std::size_t>(from)], hosts_[static_cast<std::size_t>(to)],
              nullptr};
    std::vector<s4u::Link*> route;
    if (limited) {
      if (limits_.empty()) throw std::logic_error("too many rate-limited transfers at once");
      lane.limit = limits_.back();
      limits_.pop_back();
      route.push_back(lane.limit);
    }
    for (const auto& [link, times] : shape.passes) {
      route.insert(route.end(), static_cast<std::size_t>(times), links_.at(link).simulated);
    }
    sg::make_route(zone_, lane.from, lane.to, route);
    return lane;
  }

  // 160 hosts give 25,440 ordered pairs, each with its own route, in a table of 0.2 MB.
  static constexpr int pseudo_hosts = 160;
  Links& links_;
  s4u::NetZone* zone_;
  std::vector<s4u::Host*> hosts_;
  std::vector<s4u::Link*> limits_;
  std::map<std::pair<std::vector<std::pair<LinkId, int>>, bool>, std::deque<Lane>> idle_;
  int next_pair_ = 0;
};

// Rings chunk by chunk: rank i sends its chunk over uses[i] in every step, and may send step k + 1
// when the chunk of step k has reached it (fact 106). Everything else goes to the flow network.
class MessageNetwork : public Network {
 public:
  explicit MessageNetwork(const NetworkContext& context)
      : links_(*context.links), flows_(context) {}

  double carry(const TransferSpec& spec, double start) override {
    if (spec.ring_steps == 0 || spec.uses.empty()) return flows_.carry(spec, start);
    sleep_until(start);
    struct Ring {
      std::vector<s4u::SemaphorePtr> arrived;
      std::size_t unfinished = 0;
      Doorbell done;
    };
    Ring ring;
    const std::size_t ranks = spec.uses.size();
    ring.unfinished = ranks;
    for (std::size_t i = 0; i < ranks; ++i) ring.arrived.push_back(s4u::Semaphore::create(1));
    for (std::size_t i = 0; i < ranks; ++i) {
      TransferSpec chunk;
      chunk.latency_seconds = spec.latency_seconds / spec.ring_steps;
      chunk.bytes = spec.bytes / spec.ring_steps;
      chunk.lone_bytes_per_second = spec.lone_bytes_per_second;
      chunk.uses = {{spec.uses[i].link, spec.uses[i].bytes / spec.ring_steps}};
      sg::make_actor("ring", s4u::this_actor::get_host(),
                     [this, &ring, chunk, i, ranks, steps = spec.ring_steps] {
                       for (int step = 0; step < steps; ++step) {
                         ring.arrived[i]->acquire();
                         flows_.carry(chunk, s4u::Engine::get_clock());
                         ring.arrived[(i + 1) % ranks]->release();
                       }
                       --ring.unfinished;
                       ring.done.ring();
                     });
    }
    ring.done.wait([&] { return ring.unfinished == 0; });
    return s4u::Engine::get_clock();
  }

 private:
  Links& links_;
  FlowNetwork flows_;
};

}  // namespace

double lone_seconds(const TransferSpec& spec, const Links& links) {
  return spec.latency_seconds + lone_bytes_seconds(spec, links);
}

double carry_alone(NetworkKind kind, const TransferSpec& spec, double start, Links& links) {
  double seconds = lone_bytes_seconds(spec, links);
  if (kind == NetworkKind::flow) {
    // A coupled flow is no faster than its busiest link, whatever the cost model says (shape_of).
    for (const LinkUse& use : spec.uses) {
      seconds = std::max(seconds, use.bytes / links.at(use.link).bytes_per_second);
    }
  }
  const double begin = start + spec.latency_seconds;
  links.begin(spec, begin);
  links.end(spec, begin + seconds);
  return begin + seconds;
}

std::unique_ptr<Network> make_network(NetworkKind kind, const NetworkContext& context) {
  switch (kind) {
    case NetworkKind::analytic:
      return std::make_unique<AnalyticNetwork>(*context.links);
    case NetworkKind::message:
      return std::make_unique<MessageNetwork>(context);
    case NetworkKind::flow:
      break;
  }
  return std::make_unique<FlowNetwork>(context);
}

}  // namespace lockstep
