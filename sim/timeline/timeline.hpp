// Records a few ranks in a few steps of a simulation, and renders them as a trace of PyTorch's
// profiler (Kineto), as nodes of a Chakra trace, or as one step for the report. A Timeline is set
// as the observer of a job's simulation before the run, and rendered afterwards. docs/trace.md
// describes the drawing.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "engine/observer.hpp"
#include "memory/moments.hpp"
#include "results/chakra.hpp"
#include "results/step_timeline.hpp"
#include "results/trace.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// The ranks that are recorded, and the steps that are rendered.
struct TimelineOptions {
  // Empty = at most four ranks of each group that differ, evenly spaced. Servers are chosen by this
  // rule in any case, at most eight.
  std::vector<int> ranks{};
  // First and last rendered step. Step 0, the first step of the run, differs from all later steps
  // (bucket sizes, optimizer state).
  int first_step = 1, last_step = 3;
  bool show(int step) const { return step >= first_step && step <= last_step; }
};

// The observer that records the run. Entries refer to texts in `texts_`, each of which is stored
// once. The object is not thread-safe, and serves one simulation.
class Timeline final : public Observer {
 public:
  // The object refers to `job`, which must outlive it.
  // REQUIRES: the simulation of `job` includes step `options.last_step`.
  Timeline(const Job& job, TimelineOptions options);

  // Observer: the engine calls these during the simulation.
  void on_ranks(std::string_view group, std::span<const int> lane_of_rank) override;
  bool watches(std::string_view group, int lane) const override;
  void on_link(const Link& link) override;
  void on_work(const Work& work) override;
  void on_transfer(const Transfer& transfer) override;
  void on_wait(const Wait& wait) override;
  void on_step(const Step& step) override;

  // Sets the live bytes in device memory during a step, which are drawn as counters of each rank.
  // They are drawn at the times of the host, or of the compute stream if the job's host has no
  // steps.
  void set_memory(MemoryLog log) { memory_ = std::move(log); }

  // The recorded ranks of the first group of workers; empty if the simulation reported none.
  std::vector<int> ranks() const;
  // Kineto's JSON events, with one process for each recorded rank or server, and one for the links.
  // `title` precedes the names of the processes. Timelines in one file need different values of
  // `place`, from which process numbers follow. If `rank` is not -1, only this rank is written.
  std::string events(const std::string& title, int place, int rank = -1) const;
  // The first rendered step (`first_step`) of one rank as a graph. Work depends on the work before
  // it in its stream, on its launch, and on the events for which the stream waited. A transfer also
  // depends on the device work whose end allowed it to begin; a reduction, on the last device work
  // that ended before it was ready. Times are seconds after the first node's start. Empty if an
  // asynchronous rank did not complete the step.
  // REQUIRES: `rank` is one of ranks().
  std::vector<ChakraNode> chakra(int rank) const;
  // The work of the first recorded rank and of the first server, and the compute work of one rank
  // of each other pipeline stage, while the first rank's device is in step `index`. The host may
  // already issue the next step then. The result has no lanes if the rank did not make the step.
  StepTimeline step(int index) const;

 private:
  // Work, a transfer or a wait on one stream of a lane. Times are simulated seconds.
  struct Entry {
    enum class Kind { work, transfer, wait } kind = Kind::work;
    // Index into Lane::streams.
    int stream = 0;
    Phase phase = Phase::forward;
    WaitCause cause = WaitCause::communication;
    // Operation and content, for example "all_reduce" and "bucket 2"; both refer to `texts_`.
    std::string_view name, carried;
    double bytes = 0;
    double start = 0, end = 0;
    // Only for transfers: the time from which this lane was ready to begin.
    double ready = 0;
    // The entry's number, and the number of the event that it followed; 0 = none.
    Number number = 0, after = 0;
  };
  // The time that a stream spends in optimizer step `index`.
  struct StepSpan {
    int index = 0;
    double start = 0, end = 0;
  };
  // Everything that is recorded of one lane (engine/ranks.hpp: one rank, or several that do the
  // same).
  struct Lane {
    // In the order of their first use.
    std::vector<std::string_view> streams;
    std::vector<Entry> entries;
    // Steps by stream. Streams of communicators and of routes to servers have no steps.
    std::map<std::string_view, std::vector<StepSpan>> steps;
  };
  // Bytes that one transfer moves over one link between `start` and `end`.
  struct Load {
    LinkId link = 0;
    double start = 0, end = 0, bytes = 0;
  };
  // A group of ranks: the workers, a pipeline stage, or the servers.
  struct Group {
    std::vector<int> lane_of_rank;
    // The recorded ranks.
    std::vector<int> shown;
    // The recorded lanes, by number.
    std::map<int, Lane> lanes;
  };
  class Drawing;
  // The first group that is not the servers; null if the simulation reported none.
  const Group* workers() const;
  // The span of a step on the stream; null if it was not recorded.
  static const StepSpan* span_of(const Lane& lane, std::string_view stream, int step);
  // The slices of one stream between two times, relative to `begin`.
  TimelineLane lane_of_step(const Lane& lane, int stream, double begin, double end) const;
  // Adds a process with a counter of GB/s for each link.
  void draw_links(const std::string& title, int process, double begin, double end,
                  TraceEvents& out) const;

  // A copy of the text that lives as long as this object.
  std::string_view keep(std::string_view text) { return *texts_.emplace(text).first; }
  Lane& lane_of(const Stream& stream) { return group(stream.group).lanes[stream.lane]; }
  Group& group(std::string_view name) { return groups_[std::string(name)]; }
  // Appends an entry to the lane of the stream.
  Entry& add(const Stream& stream, Entry::Kind kind);

  const Job& job_;
  const TimelineOptions options_;
  std::unordered_set<std::string> texts_;
  // Orders "stage 2" before "stage 10".
  struct ByNumber {
    bool operator()(const std::string& a, const std::string& b) const {
      return std::pair(a.size(), a) < std::pair(b.size(), b);
    }
  };
  std::map<std::string, Group, ByNumber> groups_;
  MemoryLog memory_;
  std::map<LinkId, std::string> links_;
  std::vector<Load> loads_;
  // Numbers of the transfers that are in `loads_`.
  std::set<Number> loaded_;
};

}  // namespace lockstep
