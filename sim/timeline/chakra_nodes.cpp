// Renders one step of a timeline as nodes of an MLCommons Chakra execution trace (schema 0.0.4).
// The simulator records times and no graph, so dependencies are reconstructed. A node depends on
// the node before it on its stream, on its launch and on awaited events. A transfer also depends on
// the compute that ended when the transfer became ready.
#include <algorithm>
#include <cmath>

#include "timeline/timeline.hpp"
#include "timeline/traced_names.hpp"

namespace lockstep {

namespace {

// Times closer than this count as equal. It is shorter than any kernel, and more than the rounding
// error of a time.
constexpr double nanosecond = 1e-9;

// The type of a transfer's node: a collective, a sent or received message, or a memory load for
// every other transfer (for example a copy between host and device).
ChakraNode::Type type_of(std::string_view stream, std::string_view operation) {
  if (is_collective(operation) && operation != "send_recv") return ChakraNode::Type::collective;
  if (stream.starts_with("push to ")) return ChakraNode::Type::send;
  if (stream.starts_with("pull from ")) return ChakraNode::Type::receive;
  return ChakraNode::Type::memory_load;
}

}  // namespace

std::vector<ChakraNode> Timeline::chakra(int rank) const {
  const Group* group = workers();
  if (group == nullptr) return {};
  const Lane& lane = group->lanes.at(group->lane_of_rank.at(static_cast<std::size_t>(rank)));
  // For each stream, the period in which its entries belong to the step. A stream with its own
  // steps (host, compute) has its own period; for other streams, such as communicators, it is that
  // of the compute stream.
  std::vector<const StepSpan*> spans;
  for (const std::string_view stream : lane.streams) {
    const bool has_steps = lane.steps.find(stream) != lane.steps.end();
    spans.push_back(span_of(lane, has_steps ? stream : "compute", options_.first_step));
  }
  std::vector<const Entry*> entries;
  for (const Entry& entry : lane.entries) {
    const StepSpan* span = spans[static_cast<std::size_t>(entry.stream)];
    if (span != nullptr && entry.start >= span->start && entry.start < span->end) {
      entries.push_back(&entry);
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry* a, const Entry* b) { return a->start < b->start; });
  const double begin = entries.empty() ? 0 : entries.front()->start;
  // Identifier of the node, by the number of its entry.
  std::map<Number, std::uint64_t> ids;
  // Last node of each stream.
  std::map<int, std::uint64_t> last;
  // Nodes for which a stream has waited since its last node.
  std::map<int, std::vector<std::uint64_t>> awaited;
  // End and node of each work of the compute stream, in the order of time.
  std::vector<std::pair<double, std::uint64_t>> computed;
  std::vector<ChakraNode> nodes;
  for (const Entry* entry : entries) {
    const auto after = ids.find(entry->after);
    // A wait is no node; it makes the stream's next node depend on the event that ended it.
    if (entry->kind == Entry::Kind::wait) {
      if (after != ids.end()) awaited[entry->stream].push_back(after->second);
      continue;
    }
    const std::string_view stream = lane.streams[static_cast<std::size_t>(entry->stream)];
    ChakraNode& node = nodes.emplace_back();
    node.id = nodes.size();
    node.name = entry->name;
    node.start = entry->start - begin;
    node.seconds = entry->end - entry->start;
    node.on_host = !is_on_device(stream);
    if (!node.on_host && stream != "compute") node.type = ChakraNode::Type::memory_load;
    if (entry->kind == Entry::Kind::transfer) {
      node.type = type_of(stream, entry->name);
      if (node.type == ChakraNode::Type::collective) node.collective = entry->name;
      node.bytes = entry->bytes;
      if (!entry->carried.empty()) node.name += " " + std::string(entry->carried);
    }
    if (const auto before = last.find(entry->stream); before != last.end())
      node.after.push_back(before->second);
    if (after != ids.end()) node.after.push_back(after->second);
    if (entry->kind == Entry::Kind::transfer) {
      // A reduction's gradients may have been ready for some time, so it depends on the last work
      // that ended before. Any other transfer becomes ready exactly when the work on which it
      // depends ends.
      const bool reduces = node.name.starts_with("all_reduce") || node.name.starts_with("reduce");
      const auto work =
          std::find_if(computed.rbegin(), computed.rend(), [&](const auto& candidate) {
            const double since = entry->ready - candidate.first;
            return since >= -nanosecond && (reduces || since <= nanosecond);
          });
      if (work != computed.rend()) node.after.push_back(work->second);
    } else if (stream == "compute") {
      computed.emplace_back(entry->end, node.id);
    }
    for (const std::uint64_t id : awaited[entry->stream]) node.after.push_back(id);
    awaited[entry->stream].clear();
    std::sort(node.after.begin(), node.after.end());
    node.after.erase(std::unique(node.after.begin(), node.after.end()), node.after.end());
    last[entry->stream] = node.id;
    if (entry->number != 0) ids[entry->number] = node.id;
  }
  return nodes;
}

}  // namespace lockstep
