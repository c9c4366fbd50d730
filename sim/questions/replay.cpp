// A list scheduler for the nodes of Chakra traces. A priority queue orders nodes by the time at
// which they become ready; the device and the host have one clock each. Communication has no clock,
// because here it never waits for other communication.
#include "questions/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>
#include <utility>

#include "core/errors.hpp"
#include "costs/collective.hpp"

namespace lockstep {
namespace {

using Type = ChakraNode::Type;
// Start and end of an interval, in seconds.
using Span = std::pair<double, double>;

bool is_communication(const ChakraNode& node) {
  return node.type == Type::collective || node.type == Type::send || node.type == Type::receive;
}

// The union of intervals, as disjoint intervals in ascending order.
std::vector<Span> united(std::vector<Span> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Span> result;
  for (const Span& interval : intervals) {
    if (result.empty() || interval.first > result.back().second)
      result.push_back(interval);
    else
      result.back().second = std::max(result.back().second, interval.second);
  }
  return result;
}

double length(const std::vector<Span>& intervals) {
  double all = 0;
  for (const auto& [start, end] : intervals) all += end - start;
  return all;
}

// A node whose dependencies have ended at `time`. Among nodes that become ready at the same time,
// the first one in the file runs first.
struct Ready {
  double time = 0;
  std::size_t node = 0;
  bool operator>(const Ready& other) const {
    return time != other.time ? time > other.time : node > other.node;
  }
};

}  // namespace

std::vector<ChakraNode> priced_on(std::vector<ChakraNode> nodes, const Machine& machine,
                                  int ranks) {
  const CommGroup group = group_of(machine, ranks);
  const auto& names = EnumNames<Collective>::names;
  for (ChakraNode& node : nodes) {
    const auto known = std::find(names.begin(), names.end(), node.collective);
    // A barrier has no bytes, so its duration stays.
    if (node.type != Type::collective || known == names.end()) continue;
    node.seconds =
        collective_cost(machine, group, static_cast<Collective>(known - names.begin()), node.bytes)
            .seconds();
  }
  return nodes;
}

Replay replay(const std::string& file, const std::vector<ChakraNode>& nodes) {
  // Resolve ids, count the dependencies of each node, and start with the nodes that have none.
  std::map<std::uint64_t, std::size_t> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) places[nodes[i].id] = i;
  std::vector<std::vector<std::size_t>> following(nodes.size());
  std::vector<std::size_t> waits_for(nodes.size());
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::uint64_t id : nodes[i].after) {
      const auto before = places.find(id);
      if (before == places.end())
        throw file_error(file, fmt::format("node {} '{}'", nodes[i].id, nodes[i].name),
                         fmt::format("depends on node {}, which is not there", id));
      following[before->second].push_back(i);
    }
    waits_for[i] = nodes[i].after.size();
    if (waits_for[i] == 0) ready.push({0, i});
  }
  Replay result;
  std::vector<double> ready_at(nodes.size());
  std::vector<Span> computing, sending;
  // Times at which device and host end their last node.
  double device_free = 0, host_free = 0;
  std::size_t done = 0;
  // Take the node that is ready first, start it when its device or host is free, and mark the nodes
  // ready that waited only for its end.
  for (; !ready.empty(); ++done) {
    const auto [time, i] = ready.top();
    ready.pop();
    const ChakraNode& node = nodes[i];
    double start = time;
    if (node.type == Type::compute) start = std::max(start, node.on_host ? host_free : device_free);
    const double end = start + node.seconds;
    if (is_communication(node)) {
      result.communication += node.seconds;
      result.bytes += node.bytes;
      sending.emplace_back(start, end);
    } else if (node.type == Type::compute && node.on_host) {
      result.host += node.seconds;
      host_free = end;
    } else if (node.type == Type::compute) {
      result.compute += node.seconds;
      device_free = end;
      computing.emplace_back(start, end);
    }
    result.step = std::max(result.step, end);
    for (const std::size_t next : following[i]) {
      ready_at[next] = std::max(ready_at[next], end);
      if (--waits_for[next] == 0) ready.push({ready_at[next], next});
    }
  }
  // If nodes remain although none is ready, their dependencies form a circle.
  if (done < nodes.size()) {
    const auto stuck = std::find_if(waits_for.begin(), waits_for.end(),
                                    [](std::size_t count) { return count > 0; });
    const ChakraNode& node = nodes[static_cast<std::size_t>(stuck - waits_for.begin())];
    throw file_error(file, fmt::format("node {} '{}'", node.id, node.name),
                     "its dependencies go in a circle");
  }
  // Communication that nothing hides: the time in which communication or computation runs, minus
  // the time in which computation runs.
  std::vector<Span> both = computing;
  both.insert(both.end(), sending.begin(), sending.end());
  result.alone = length(united(std::move(both))) - length(united(std::move(computing)));
  return result;
}

}  // namespace lockstep
