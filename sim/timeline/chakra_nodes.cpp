// A timeline's step as nodes of a Chakra trace.
#include <algorithm>
#include <cmath>

#include "timeline/timeline.hpp"
#include "timeline/traced_names.hpp"

namespace lockstep {

namespace {

constexpr double nanosecond = 1e-9;  // less than any kernel, more than the rounding of a time

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
  // Work of a stream belongs to its own step; work of a communicator to the step that the device is
  // in.
  std::vector<const StepSpan*> spans;  // by stream
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
  std::map<Number, std::uint64_t> ids;                     // of what has a number
  std::map<int, std::uint64_t> last;                       // of each stream
  std::map<int, std::vector<std::uint64_t>> awaited;       // by it, since
  std::vector<std::pair<double, std::uint64_t>> computed;  // end and id
  std::vector<ChakraNode> nodes;
  for (const Entry* entry : entries) {
    const auto after = ids.find(entry->after);
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
      // Gradients are there since some work before; anything else since the very end of one.
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
