// A simulated run as a trace: an observer that records a few ranks in a few steps, and writes them
// as PyTorch's profiler would. Set it as the observer of a job's simulation before the run.
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

struct TimelineOptions {
  std::vector<int> ranks{};           // empty = at most four that differ, evenly spaced
  int first_step = 1, last_step = 3;  // step 0 is the first, which differs by design
  bool show(int step) const { return step >= first_step && step <= last_step; }
};

class Timeline final : public Observer {
 public:
  // `job` must be simulated until `last_step` at least.
  Timeline(const Job& job, TimelineOptions options);

  void on_ranks(std::string_view group, std::span<const int> lane_of_rank) override;
  bool watches(std::string_view group, int lane) const override;
  void on_link(const Link& link) override;
  void on_work(const Work& work) override;
  void on_transfer(const Transfer& transfer) override;
  void on_wait(const Wait& wait) override;
  void on_step(const Step& step) override;

  // Live bytes in device memory in each step, as counters of the ranks. Times are the host's if the
  // strategy logs on the host, else the device's.
  void set_memory(MemoryLog log) { memory_ = std::move(log); }

  // The shown ranks.
  std::vector<int> ranks() const;
  // One process per shown rank or server, and one for the links; `title` precedes their names.
  // Process numbers follow from `place`, so that several timelines fit into one file. `rank`: only
  // this rank is written; -1 = all.
  std::string events(const std::string& title, int place, int rank = -1) const;
  // The first step of one shown rank as a graph. Work depends on its predecessor in its stream, its
  // launch and the events that it waited for. A transfer also depends on the device work whose end
  // allowed it to begin; a reduction depends on the last device work that ended before it. Times
  // count from the first node's start. Empty if an asynchronous rank did not complete that step.
  std::vector<ChakraNode> chakra(int rank) const;
  // Work of the first shown rank, and of the first server, while the rank's device is in step
  // `index`; the host may already issue the next one. Has no lanes if the step was not simulated.
  StepTimeline step(int index) const;

 private:
  struct Entry {
    enum class Kind { work, transfer, wait } kind = Kind::work;
    int stream = 0;  // of Lane::streams
    Phase phase = Phase::forward;
    WaitCause cause = WaitCause::communication;
    std::string_view name, carried;  // of texts_: "all_reduce", "bucket 2"
    double bytes = 0;
    double start = 0, end = 0;
    double ready = 0;  // transfers: when this lane could have begun
    Number number = 0, after = 0;
  };
  struct StepSpan {
    int index = 0;
    double start = 0, end = 0;
  };
  struct Lane {
    std::vector<std::string_view> streams;  // in the order in which they were first used
    std::vector<Entry> entries;
    std::map<std::string_view, std::vector<StepSpan>> steps;  // by stream
  };
  struct Load {  // of a link, while a transfer lasts
    LinkId link = 0;
    double start = 0, end = 0, bytes = 0;
  };
  struct Group {
    std::vector<int> lane_of_rank;
    std::vector<int> shown;  // ranks
    std::map<int, Lane> lanes;
  };
  class Drawing;
  const Group* workers() const;  // null = nothing was seen of them
  // The span of a step on the stream; null if it was not recorded.
  static const StepSpan* span_of(const Lane& lane, std::string_view stream, int step);
  TimelineLane lane_of_step(const Lane& lane, int stream, double begin, double end) const;
  void draw_links(const std::string& title, int process, double begin, double end,
                  TraceEvents& out) const;

  std::string_view keep(std::string_view text) { return *texts_.emplace(text).first; }
  Lane& lane_of(const Stream& stream) { return group(stream.group).lanes[stream.lane]; }
  Group& group(std::string_view name) { return groups_[std::string(name)]; }
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
  std::set<Number> loaded_;  // transfers that are in them
};

}  // namespace lockstep
