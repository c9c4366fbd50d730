// Counts the traffic of links, and gives transfers to the executor's network. A transfer over
// several links becomes one coupled flow. The route of the flow crosses each link a whole number of
// times, in proportion to the transfer's bytes on the link.
#include "engine/network.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

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

void Links::add_bytes(const TransferSpec& spec) {
  for (const LinkUse& use : spec.uses) add_bytes(links_[static_cast<std::size_t>(use.link)], use);
}

void Links::add_busy(const TransferSpec& spec, double seconds) {
  for (const LinkUse& use : spec.uses) {
    links_[static_cast<std::size_t>(use.link)].busy_seconds += seconds;
  }
}

void Links::repeat(const Links& from, const Links& to, int times) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    for (double Link::*part : {&Link::bytes, &Link::total_bytes, &Link::busy_seconds}) {
      links_[i].*part += times * (to.links_[i].*part - from.links_[i].*part);
    }
  }
}

std::vector<LinkTotals> Links::totals() const {
  std::vector<LinkTotals> result;
  for (const Link& link : links_) {
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

// Seconds that the bytes need without other traffic, excluding latency: bytes / the cost model's
// rate if there is one, otherwise the time on the slowest link.
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

// The links of a coupled flow, each listed as often as the flow crosses it, and the bytes of the
// flow. Example: a ring sends 100 MB over NVLink and 25 MB over a NIC, and is slowest on the NIC.
// The flow has 25 MB and crosses NVLink 4 times.
struct Shape {
  std::vector<LinkId> links;
  double payload = 0;  // bytes
};

// A flow can only cross a link a whole number of times. The link on which the transfer takes
// longest is crossed once, so that its traffic is exact and the transfer competes there as one
// flow. The other numbers are rounded, but not up if the link could then not carry the flow in the
// time that the transfer takes without other traffic.
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
    shape.links.insert(shape.links.end(), static_cast<std::size_t>(times), use.link);
  }
  return shape;
}

}  // namespace

double lone_seconds(const TransferSpec& spec, const Links& links) {
  return spec.latency_seconds + lone_bytes_seconds(spec, links);
}

LinkId Network::add_link(Links::Link link) {
  executor_.add_link(link.bytes_per_second);
  return links_.add(std::move(link));
}

void Network::set_capacity(LinkId link, double bytes_per_second) {
  links_.at(link).bytes_per_second = bytes_per_second;
  links_.at(link).varies = true;
  executor_.set_capacity(link, bytes_per_second);
}

void Network::asks(const TransferSpec& spec, const void* asker) {
  for (const LinkUse& use : spec.uses) {
    Links::Link& link = links_.at(use.link);
    const void* before = std::exchange(link.asker, asker);
    if (before && before != asker) link.meet = true;
  }
}

bool Network::alone(const TransferSpec& spec) const {
  return std::none_of(spec.uses.begin(), spec.uses.end(), [this](const LinkUse& use) {
    const Links::Link& link = links_.at(use.link);
    return link.varies || (link.meet && kind_ == NetworkKind::flow);
  });
}

double Network::count_lone(const TransferSpec& spec) {
  double seconds = lone_bytes_seconds(spec, links_);
  const auto slow = [&](const LinkUse& use) {
    return use.bytes > seconds * links_.at(use.link).bytes_per_second;
  };
  // A link is slower than the cost model's rate. The transfer then takes the time that the executor
  // would compute for its coupled flow.
  if (kind_ == NetworkKind::flow && std::any_of(spec.uses.begin(), spec.uses.end(), slow)) {
    const Shape shape = shape_of(spec, links_, seconds);
    for (const LinkId link : shape.links) {
      const auto times =
          static_cast<double>(std::count(shape.links.begin(), shape.links.end(), link));
      seconds = std::max(seconds, times * shape.payload / links_.at(link).bytes_per_second);
    }
  }
  links_.count(spec, seconds);
  return spec.latency_seconds + seconds;
}

// After the latency, the flow starts with the bytes that remain: the bytes that a transfer without
// other traffic would have moved by the present are subtracted.
Program Network::carry(const TransferSpec& spec, double start, double& end) {
  const double lone = lone_bytes_seconds(spec, links_);
  const double begin = start + spec.latency_seconds;
  co_await executor_.sleep_until(begin);
  links_.begin(spec, begin);
  end = begin + lone;
  const double late = std::max(0.0, executor_.now() - begin);
  if (kind_ == NetworkKind::analytic) {
    co_await executor_.sleep_until(end);
  } else if (late < lone) {
    const Shape shape = shape_of(spec, links_, lone);
    // The cost model's rate limits the flow; without such a rate the links do.
    const double cap = spec.lone_bytes_per_second > 0 ? shape.payload / lone : never;
    const RouteId route = executor_.add_route({shape.links, cap});
    co_await executor_.carry(route, shape.payload * (1 - late / lone));
    end = std::max(begin, executor_.now());
  }
  links_.end(spec, end);
}

}  // namespace lockstep
