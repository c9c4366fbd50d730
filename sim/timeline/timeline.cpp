// Records the events of the watched ranks and steps, in the order in which the engine reports them.
// Rendering is in trace_drawing.cpp (Kineto), chakra_nodes.cpp and step_lanes.cpp (report).
#include "timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "timeline/traced_names.hpp"

namespace lockstep {

namespace {

// Largest numbers of ranks and servers that are recorded if the user names none, so that a trace of
// 4096 ranks stays small.
constexpr std::size_t most_ranks = 4, most_servers = 8;

// The first rank of each lane (engine/ranks.hpp: one rank, or several that do the same). If there
// are more than `most` lanes, evenly spaced ones are chosen.
std::vector<int> representatives(std::span<const int> lane_of_rank, std::size_t most) {
  std::set<int> lanes;
  std::vector<int> first;
  for (std::size_t rank = 0; rank < lane_of_rank.size(); ++rank) {
    if (lanes.insert(lane_of_rank[rank]).second) first.push_back(static_cast<int>(rank));
  }
  if (first.size() <= most) return first;
  std::vector<int> result;
  for (std::size_t i = 0; i < most; ++i)
    result.push_back(first[(first.size() - 1) * i / (most - 1)]);
  return result;
}

}  // namespace

Timeline::Timeline(const Job& job, TimelineOptions options)
    : job_(job), options_(std::move(options)) {}

// Selects the ranks of a group. Servers are always selected automatically, because `options_.ranks`
// are numbers of workers. A lane that is created here is recorded: watches() returns true for it.
void Timeline::on_ranks(std::string_view name, std::span<const int> lane_of_rank) {
  Group& seen = group(name);
  seen.lane_of_rank.assign(lane_of_rank.begin(), lane_of_rank.end());
  if (are_servers(name) || options_.ranks.empty()) {
    seen.shown = representatives(lane_of_rank, are_servers(name) ? most_servers : most_ranks);
  } else {
    seen.shown = options_.ranks;
    const int ranks = static_cast<int>(lane_of_rank.size());
    std::erase_if(seen.shown, [ranks](int rank) { return rank >= ranks; });
  }
  for (const int rank : seen.shown) seen.lanes[lane_of_rank[static_cast<std::size_t>(rank)]];
}

const Timeline::Group* Timeline::workers() const {
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [](const auto& one) { return !are_servers(one.first); });
  return found == groups_.end() ? nullptr : &found->second;
}

std::vector<int> Timeline::ranks() const {
  const Group* group = workers();
  return group == nullptr ? std::vector<int>{} : group->shown;
}

bool Timeline::watches(std::string_view name, int lane) const {
  const auto found = groups_.find(std::string(name));
  return found != groups_.end() && found->second.lanes.count(lane) > 0;
}

void Timeline::on_link(const Link& link) {
  links_[link.id] = link.name;
}

const Timeline::StepSpan* Timeline::span_of(const Lane& lane, std::string_view stream, int step) {
  const auto steps = lane.steps.find(stream);
  if (steps == lane.steps.end()) return nullptr;
  const auto span = std::find_if(steps->second.begin(), steps->second.end(),
                                 [step](const StepSpan& one) { return one.index == step; });
  return span == steps->second.end() ? nullptr : &*span;
}

Timeline::Entry& Timeline::add(const Stream& stream, Entry::Kind kind) {
  Lane& lane = lane_of(stream);
  auto known = std::find(lane.streams.begin(), lane.streams.end(), stream.name);
  if (known == lane.streams.end()) {
    known = lane.streams.insert(known, keep(stream.name));
  }
  Entry& entry = lane.entries.emplace_back();
  entry.kind = kind;
  entry.stream = static_cast<int>(known - lane.streams.begin());
  return entry;
}

void Timeline::on_work(const Work& work) {
  Entry& entry = add(work.stream, Entry::Kind::work);
  entry.phase = work.phase;
  entry.name = keep(work.name);
  entry.start = work.start;
  entry.end = work.end;
  entry.number = work.number;
  entry.after = work.after;
}

void Timeline::on_transfer(const Transfer& transfer) {
  Entry& entry = add(transfer.stream, Entry::Kind::transfer);
  entry.name = keep(transfer.name);
  entry.carried = transfer.which < 0 ? keep(transfer.what)
                                     : keep(fmt::format("{} {}", transfer.what, transfer.which));
  entry.bytes = transfer.bytes;
  entry.ready = transfer.ready;
  entry.start = transfer.start;
  entry.end = transfer.end;
  entry.number = transfer.number;
  entry.after = transfer.after;
  // A transfer is reported once for each of its lanes, but its load on the links must count once.
  if (!loaded_.insert(transfer.number).second) return;
  for (const LinkUse& use : transfer.uses) {
    loads_.push_back({use.link, transfer.start, transfer.end, use.bytes});
  }
}

// Consecutive waits with the same cause become one entry.
void Timeline::on_wait(const Wait& wait) {
  Lane& lane = lane_of(wait.stream);
  if (!lane.entries.empty()) {
    Entry& last = lane.entries.back();
    if (last.kind == Entry::Kind::wait && last.cause == wait.cause && last.end == wait.start &&
        last.after == wait.after &&
        lane.streams[static_cast<std::size_t>(last.stream)] == wait.stream.name) {
      last.end = wait.end;
      return;
    }
  }
  Entry& entry = add(wait.stream, Entry::Kind::wait);
  entry.cause = wait.cause;
  entry.start = wait.start;
  entry.end = wait.end;
  entry.after = wait.after;
}

void Timeline::on_step(const Step& step) {
  lane_of(step.stream).steps[keep(step.stream.name)].push_back({step.index, step.start, step.end});
}

}  // namespace lockstep
