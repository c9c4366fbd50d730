// A simulated run as a timeline: an observer that records a few ranks in a few steps, and renders
// them as a trace of PyTorch's profiler (Kineto), as nodes of a Chakra trace, or as one step for
// the report. Set it as the observer of a job's simulation before the run, and render afterwards.
// docs/trace.md describes the drawing.
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

// The ranks and steps that are recorded.
struct TimelineOptions {
  // Empty = at most four ranks that differ, evenly spaced.
  std::vector<int> ranks{};
  // Inclusive. Step 0 is the first of the run; it differs by design (bucket sizes, optimizer
  // state).
  int first_step = 1, last_step = 3;
  bool show(int step) const { return step >= first_step && step <= last_step; }
};

// Texts are kept once in `texts_`; entries hold views of these texts. The object is not
// thread-safe, and belongs to one simulation.
class Timeline final : public Observer {
 public:
  // Keeps a reference to `job`, which must outlive the object.
  // REQUIRES: `job` is simulated until `options.last_step` at least.
  Timeline(const Job& job, TimelineOptions options);

  // Observer: the engine calls these during the simulation.
  void on_ranks(std::string_view group, std::span<const int> lane_of_rank) override;
  bool watches(std::string_view group, int lane) const override;
  void on_link(const Link& link) override;
  void on_work(const Work& work) override;
  void on_transfer(const Transfer& transfer) override;
  void on_wait(const Wait& wait) override;
  void on_step(const Step& step) override;

  // Live bytes in device memory in each step, drawn as counters of the ranks. Times are the host's
  // if the strategy logs on the host, else the device's.
  void set_memory(MemoryLog log) { memory_ = std::move(log); }

  // The recorded ranks of the first group of workers; empty if no group was seen.
  std::vector<int> ranks() const;
  // Kineto's JSON events: one process per recorded rank or server, and one for the links. `title`
  // precedes their names. Process numbers follow from `place`, so that several timelines fit into
  // one file. `rank`: only this rank is written; -1 = all.
  std::string events(const std::string& title, int place, int rank = -1) const;
  // The first recorded step of one rank as a graph. Work depends on its predecessor in its stream,
  // its launch and the events that it waited for. A transfer also depends on the device work whose
  // end allowed it to begin; a reduction depends on the last device work that ended before it.
  // Times count from the first node's start, in seconds. Empty if an asynchronous rank did not
  // complete that step.
  // REQUIRES: `rank` is one of ranks().
  std::vector<ChakraNode> chakra(int rank) const;
  // Work of the first recorded rank, and of the first server, while the rank's device is in step
  // `index`; the host may already issue the next one. Has no lanes if the step was not simulated.
  StepTimeline step(int index) const;

 private:
  // A piece of work, a transfer or a wait on one stream of a lane. Times are simulated seconds.
  struct Entry {
    enum class Kind { work, transfer, wait } kind = Kind::work;
    // Index into Lane::streams.
    int stream = 0;
    Phase phase = Phase::forward;
    WaitCause cause = WaitCause::communication;
    // Operation and content, e.g. "all_reduce" and "bucket 2"; views of `texts_`.
    std::string_view name, carried;
    double bytes = 0;
    double start = 0, end = 0;
    // Transfers only: the time from which this lane could have begun.
    double ready = 0;
    // The entry's own number, and the number of the event that it followed; 0 = none.
    Number number = 0, after = 0;
  };
  // The time that a stream spends in optimizer step `index`.
  struct StepSpan {
    int index = 0;
    double start = 0, end = 0;
  };
  // Everything recorded of one lane; equal ranks share a lane (engine/ranks.hpp).
  struct Lane {
    // In the order of their first use.
    std::vector<std::string_view> streams;
    std::vector<Entry> entries;
    // By stream; a stream of a communicator or a route has no steps of its own.
    std::map<std::string_view, std::vector<StepSpan>> steps;
  };
  // Bytes that one transfer moves over one link, while it lasts.
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
  // The first group that is not the servers; null if no event of one was seen.
  const Group* workers() const;
  // The span of a step on the stream; null if it was not recorded.
  static const StepSpan* span_of(const Lane& lane, std::string_view stream, int step);
  // The slices of one stream between two times, relative to `begin`.
  TimelineLane lane_of_step(const Lane& lane, int stream, double begin, double end) const;
  // Adds a process with a counter of bytes per second for each link.
  void draw_links(const std::string& title, int process, double begin, double end,
                  TraceEvents& out) const;

  // A view of the text that lives as long as this object.
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
