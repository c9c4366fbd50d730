// Draws a timeline as slices, arrows and counters of Kineto's Chrome trace. Slices that a trace of
// torch.profiler has too get Kineto's names, categories and arguments. Only waits of a device
// stream and messages have categories of our own (`wait`, `message`). An operator and its kernel
// share the arguments `External id` and `correlation`, by which HolisticTraceAnalysis and
// import-trace match them.
//
//   host     |aten::conv2d| launch                 arrow "ac2g": launch to kernel
//   stream 7       \->|conv1     |                 kernel, named after the layer
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <unordered_map>

#include "engine/executor.hpp"
#include "timeline/timeline.hpp"
#include "timeline/traced_names.hpp"

namespace lockstep {

namespace {

constexpr std::string_view host_stream = "host", compute_stream = "compute";
// Numbers of the tracks in a process; tracks of other streams follow in the order of their first
// use. PyTorch's default stream has number 7.
constexpr int host_track = 1, idle_track = 6, compute_track = 7, first_other_track = 20;

// Seconds between the end of an arrow and the end of its slice, so that the arrow stays inside. An
// operator also launches its kernels at least this long before its end, because the simulator does
// not model when it launches them.
constexpr double inside = 1e-9;

// Size of the number range that each timeline of a file gets, for processes and for arrows.
constexpr int processes_of_a_timeline = 10'000;
constexpr std::int64_t arrows_of_a_timeline = 100'000'000;

// A half-open interval of time; unbounded by default.
struct Window {
  double start = -never, end = never;
  bool has(double time) const { return time >= start && time < end; }
};

// Builds the `args` of an event: JSON members, joined by commas.
class Arguments {
 public:
  template <class Value>
  Arguments& add(std::string_view name, const Value& value) {
    if (!text_.empty()) text_ += ", ";
    text_ += argument(name, value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

// Draws one lane as the process of one rank.
class Timeline::Drawing {
 public:
  // A slice at which arrows to other processes may begin.
  struct Origin {
    const Entry* entry = nullptr;
    TracePlace place;
  };
  using Origins = std::unordered_map<Number, Origin>;

  // `on_gpu`: the lane's streams belong to a GPU. The constructor adds the lane's numbered entries
  // to `origins`, so all drawings must be constructed before the first is drawn.
  Drawing(const Timeline& timeline, const Lane& lane, int process, bool on_gpu, bool is_server,
          Origins& origins)
      : timeline_(timeline),
        lane_(lane),
        process_(process),
        on_gpu_(on_gpu),
        is_server_(is_server),
        origins_(origins) {
    // The leader is the stream that issues the step: the host if it has steps, otherwise the
    // compute stream.
    if (lane.steps.count(host_stream) > 0) leader_ = host_stream;
    device_window_ = window(compute_stream);
    host_window_ = window(leader_);
    for (std::size_t i = 0; i < timeline.job_.step->layers.size(); ++i) {
      layer_of_[timeline.job_.step->layers[i].name] = i;
    }
    for (const Entry& entry : lane.entries) {
      if (!shown(entry)) continue;
      if (entry.number > 0) {
        by_number_[entry.number].push_back(&entry);
        if (!is_host(entry)) origins_[entry.number] = {&entry, place(entry)};
      }
      // Stores device work by the number of the host work that launched it.
      if (entry.after > 0 && !is_host(entry) && entry.kind != Entry::Kind::wait) {
        launched_[entry.after] = &entry;
      }
    }
  }

  // Appends all events of the lane. `arrows` is the number of the last arrow of this timeline.
  void draw(std::int64_t& arrows, TraceEvents& out) {
    arrows_ = &arrows;
    out_ = &out;
    name_tracks();
    steps();
    if (!is_server_) memory();
    for (const Entry& entry : lane_.entries) {
      if (!shown(entry)) continue;
      if (entry.kind == Entry::Kind::wait) {
        wait(entry);
      } else if (is_host(entry)) {
        issue(entry);
      } else {
        run(entry);
      }
    }
  }

 private:
  std::string_view stream_of(const Entry& entry) const {
    return lane_.streams[static_cast<std::size_t>(entry.stream)];
  }
  bool is_host(const Entry& entry) const { return stream_of(entry) == host_stream; }

  // The period from the beginning of the first recorded step to the end of the last on this stream.
  Window window(std::string_view stream) const {
    const auto found = lane_.steps.find(stream);
    if (found == lane_.steps.end()) return {};
    Window result{never, -never};
    for (const StepSpan& step : found->second) {
      if (!timeline_.options_.show(step.index)) continue;
      result.start = std::min(result.start, step.start);
      result.end = std::max(result.end, step.end);
    }
    return result;
  }
  // Whether the entry begins in the recorded steps. Host and device have separate periods, because
  // the host runs ahead of the device.
  bool shown(const Entry& entry) const {
    return (is_host(entry) ? host_window_ : device_window_).has(entry.start);
  }

  // The process and track of a stream.
  TracePlace place(std::string_view stream) const {
    if (stream == host_stream) return {process_, host_track};
    if (stream == compute_stream) return {process_, compute_track};
    const auto at = std::find(lane_.streams.begin(), lane_.streams.end(), stream);
    return {process_, first_other_track + static_cast<int>(at - lane_.streams.begin())};
  }
  // Waits of the device have a separate track, because the streams in Kineto's traces have gaps
  // when idle.
  TracePlace place(const Entry& entry) const {
    const bool idle = entry.kind == Entry::Kind::wait && !is_host(entry);
    return idle ? TracePlace{process_, idle_track} : place(stream_of(entry));
  }

  // Names each track by PyTorch's number and the simulator's name of the stream.
  void name_tracks() {
    for (const std::string_view stream : lane_.streams) {
      const TracePlace where = place(stream);
      const bool on_device = on_gpu_ && is_on_device(stream);
      out_->track(where, on_device ? fmt::format("stream {}: {}", where.track, stream)
                                   : std::string(stream));
    }
    out_->track({process_, idle_track}, "compute stands still");
  }

  // Draws the annotations `ProfilerStep#N`, by which viewers and import-trace find steps.
  void steps() {
    const auto found = lane_.steps.find(leader_);
    if (found == lane_.steps.end()) return;
    if (leader_ != host_stream) out_->track({process_, host_track}, "steps");
    for (const StepSpan& step : found->second) {
      if (!timeline_.options_.show(step.index)) continue;
      out_->slice({process_, host_track}, "user_annotation",
                  fmt::format("ProfilerStep#{}", step.index), step.start, step.end);
    }
  }

  // The memory moments (memory/moments.hpp) of a step with all its micro-batches. The log has the
  // first micro-batch, one that stands for all middle micro-batches, and the last; this function
  // repeats the middle one.
  std::vector<const MemoryMoment*> moments_of_step() const {
    const auto& kept = timeline_.memory_.moments;
    int last = 0;
    for (const MemoryMoment& moment : kept) last = std::max(last, moment.micro_batch);
    std::vector<const MemoryMoment*> result;
    const int micro_batches = std::max(1, timeline_.job_.accumulation);
    for (int micro = 0; micro < micro_batches; ++micro) {
      const int played = micro + 1 == micro_batches ? last : std::min(micro, 1);
      for (const MemoryMoment& moment : kept) {
        if (moment.micro_batch == played) result.push_back(&moment);
      }
    }
    return result;
  }

  // The phase of a step in which a memory moment lies. Everything that is neither forward nor
  // update counts as backward.
  static Phase phase_of(MemoryPhase phase) {
    if (phase == MemoryPhase::optimizer) return Phase::optimizer;
    return phase == MemoryPhase::forward ? Phase::forward : Phase::backward;
  }

  // Draws counters of allocated bytes, in total and by kind. Each moment is drawn at the work of
  // its layer; a moment without work is drawn at the end of the moment before it.
  void memory() {
    const auto moments = moments_of_step();
    const auto steps = lane_.steps.find(leader_);
    if (moments.empty() || steps == lane_.steps.end()) return;
    // The leader's work by phase and layer. All work of the update has the same key.
    std::map<std::pair<Phase, std::string_view>, std::vector<const Entry*>> work;
    for (const Entry& entry : lane_.entries) {
      if (entry.kind != Entry::Kind::work || stream_of(entry) != leader_) continue;
      const bool update = entry.phase == Phase::optimizer;
      work[{entry.phase, update ? std::string_view() : entry.name}].push_back(&entry);
    }
    MemoryAccount shown{};
    shown.fill(-1);
    // Draws a counter event only if the bytes change.
    const auto show = [&](double time, const MemoryAccount& account) {
      if (account == shown) return;
      shown = account;
      Arguments arguments;
      for (std::size_t kind = 0; kind < account.size(); ++kind) {
        arguments.add(memory_kind_names[kind], static_cast<double>(account[kind]));
      }
      out_->counter(process_, "memory by kind", time, arguments.text());
      out_->counter(process_, "allocated memory", time,
                    argument("bytes", static_cast<double>(total_bytes(account))));
    };
    for (const StepSpan& step : steps->second) {
      if (!timeline_.options_.show(step.index)) continue;
      double time = step.start;
      for (const MemoryMoment* moment : moments) {
        const bool of_layer = moment->layer >= 0;
        const auto& layers = timeline_.job_.step->layers;
        const auto found = work.find(
            {phase_of(moment->phase),
             of_layer ? std::string_view(layers[static_cast<std::size_t>(moment->layer)].name)
                      : std::string_view()});
        double begin = time, end = time;
        if (found != work.end() && (of_layer || moment->phase == MemoryPhase::optimizer)) {
          // Takes the first work of this layer and phase after `time`, which belongs to the present
          // micro-batch.
          for (const Entry* entry : found->second) {
            if (entry->start < time || entry->end > step.end) continue;
            begin = entry->start;
            end = entry->end;
            break;
          }
        }
        show(begin, moment->highest);
        show(end, moment->after);
        time = end;
      }
    }
  }

  // Draws work of the host: an operator, and the launch of its kernels.
  void issue(const Entry& entry) {
    const auto layer = layer_of_.find(entry.name);
    const TracePlace where = place(entry);
    if (entry.end > entry.start) {
      Arguments arguments;
      if (entry.number > 0) arguments.add("External id", static_cast<double>(entry.number));
      // The work of a layer is an operator (forward) or an autograd node (backward). Both have the
      // layer's name as `Module`, and the same `Sequence number`, as in PyTorch.
      if (layer != layer_of_.end()) {
        const Layer& shape = timeline_.job_.step->layers[layer->second];
        arguments.add("Module", entry.name)
            .add("Sequence number", static_cast<double>(layer->second) + 1);
        const bool forward = entry.phase == Phase::forward;
        out_->slice(where, "cpu_op", forward ? operator_name(shape.kind) : node_name(shape.kind),
                    entry.start, entry.end, arguments.text());
      } else if (entry.phase == Phase::optimizer) {
        const OptimizerSpec& optimizer = timeline_.job_.optimizer;
        out_->slice(where, "user_annotation", optimizer_name(optimizer), entry.start, entry.end);
        out_->slice(where, "cpu_op", optimizer_operator(optimizer), entry.start, entry.end,
                    arguments.text());
      } else {
        out_->slice(where, "user_annotation", host_name(entry), entry.start, entry.end,
                    arguments.text());
      }
    }
    const auto kernel = launched_.find(entry.number);
    if (entry.number == 0 || kernel == launched_.end() || !on_gpu_) return;
    // The launch lies inside the operator. The first kernel may begin while the host still issues
    // others of the same layer.
    const double launch =
        std::max(entry.start, std::min(entry.end, kernel->second->start) - inside);
    const double number = static_cast<double>(entry.number);
    out_->slice(where, "cuda_runtime", "cudaLaunchKernel", launch, launch,
                Arguments().add("External id", number).add("correlation", number).text());
    out_->arrow("ac2g", ++*arrows_, where, launch, place(*kernel->second), kernel->second->start);
  }

  // The name of host work that belongs to no layer. PyTorch calls collectives "nccl:all_reduce",
  // for example.
  std::string host_name(const Entry& entry) const {
    return is_collective(entry.name) ? "nccl:" + std::string(entry.name)
           : entry.name.empty()      ? "host"
                                     : std::string(entry.name);
  }

  // Draws work or a transfer on a stream other than the host.
  void run(const Entry& entry) {
    const std::string_view stream = stream_of(entry);
    const TracePlace where = place(entry);
    Arguments arguments;
    const bool kernel = on_gpu_ && is_on_device(stream);
    // Kernels in Kineto's traces have these arguments.
    if (kernel) {
      arguments.add("device", 0.0).add("context", 1.0).add("stream", double(where.track));
      if (entry.after > 0) {
        arguments.add("correlation", static_cast<double>(entry.after))
            .add("External id", static_cast<double>(entry.after));
      }
    }
    if (entry.kind == Entry::Kind::transfer) {
      arguments.add("bytes", entry.bytes);
      if (!entry.carried.empty()) arguments.add("what", entry.carried);
    } else if (stream == compute_stream) {
      arguments.add("phase", phase_name(entry.phase));
    }
    const std::string name = run_name(entry, kernel);
    const std::string_view category = name.starts_with("Memcpy") ? "gpu_memcpy"
                                      : kernel                   ? "kernel"
                                      : is_message(entry)        ? "message"
                                                                 : "cpu_op";
    out_->slice(where, category, name, entry.start, entry.end, arguments.text());
    // The launch already has its own arrow.
    if (!launched_by_host(entry)) arrow_from(entry.after, entry, "follows");
  }

  bool launched_by_host(const Entry& entry) const {
    const auto found = by_number_.find(entry.after);
    return found != by_number_.end() && is_host(*found->second.front());
  }
  // A transfer that is no collective: a push, a pull, a copy.
  bool is_message(const Entry& entry) const {
    return entry.kind == Entry::Kind::transfer && !is_collective(entry.name);
  }
  std::string run_name(const Entry& entry, bool kernel) const {
    if (entry.kind == Entry::Kind::transfer && is_collective(entry.name)) {
      return collective_name(entry.name, kernel);
    }
    if (is_message(entry)) return fmt::format("{} {}", entry.name, entry.carried);
    if (!on_gpu_ && entry.phase == Phase::backward) return fmt::format("{} backward", entry.name);
    return entry.name.empty() ? "work" : std::string(entry.name);
  }

  // Draws a wait: of the host as the CUDA call that blocks it, of another stream as a slice that
  // names the cause.
  void wait(const Entry& entry) {
    const TracePlace where = place(entry);
    if (is_host(entry)) {
      out_->slice(where, "cuda_runtime", "cudaEventSynchronize", entry.start, entry.end,
                  Arguments().add("for", cause_name(entry.cause)).text());
    } else {
      out_->slice(where, "wait", cause_name(entry.cause), entry.start, entry.end);
    }
    arrow_from(entry.after, entry, "ends");
  }

  // Draws arrows to `to` from the slices of this lane with this number, or, if there are none, from
  // the slice of another process.
  void arrow_from(Number number, const Entry& to, std::string_view category) {
    if (number == 0) return;
    if (const auto here = by_number_.find(number); here != by_number_.end()) {
      for (const Entry* from : here->second) {
        if (!is_host(*from) && from != &to) arrow({from, place(*from)}, to, category);
      }
    } else if (const auto elsewhere = origins_.find(number); elsewhere != origins_.end()) {
      arrow(elsewhere->second, to, category);
    }
  }

  // Draws one arrow. A wait begins while the awaited work still runs, so the arrow ends when both
  // have begun. No arrow is drawn if `to` is over by then, or if the arrow would leave before
  // `from` begins.
  void arrow(const Origin& from, const Entry& to, std::string_view category) {
    const double arrives = std::max(from.entry->start, to.start);
    if (arrives >= to.end) return;
    const double leaves = std::min(arrives, from.entry->end - inside);
    if (leaves < from.entry->start) return;
    out_->arrow(category, ++*arrows_, from.place, leaves, place(to), arrives);
  }

  const Timeline& timeline_;
  const Lane& lane_;
  const int process_;
  const bool on_gpu_, is_server_;
  Origins& origins_;
  std::int64_t* arrows_ = nullptr;
  TraceEvents* out_ = nullptr;
  // The stream that issues the step: the host, or the compute stream if the host has no steps.
  std::string_view leader_ = compute_stream;
  Window device_window_, host_window_;
  std::unordered_map<std::string_view, std::size_t> layer_of_;
  // Entries by their number, which several entries may share.
  std::unordered_map<Number, std::vector<const Entry*>> by_number_;
  // Device work by the number of its launch.
  std::unordered_map<Number, const Entry*> launched_;
};

std::string Timeline::events(const std::string& title, int place, int rank) const {
  TraceEvents out;
  std::int64_t arrows = arrows_of_a_timeline * place;
  int process = processes_of_a_timeline * place;
  double begin = never, end = -never;
  const bool gpus = job_.machine.device.architecture != Architecture::cpu;
  Drawing::Origins origins;
  std::deque<Drawing> drawings;
  for (const auto& [name, group] : groups_) {
    const bool servers = are_servers(name);
    for (const int shown : group.shown) {
      if (rank >= 0 && (shown != rank || servers)) continue;
      const Lane& lane = group.lanes.at(group.lane_of_rank[static_cast<std::size_t>(shown)]);
      const std::string stage = job_.mesh.pipeline > 1 ? name + ", " : "";
      out.process(++process,
                  fmt::format("{}{}{} {}", title, stage, servers ? "server" : "rank", shown));
      drawings.emplace_back(*this, lane, process, gpus && !servers, servers, origins);
      // Finds the period of all recorded steps, for the counters of the links.
      for (const auto& [stream, steps] : lane.steps) {
        for (const StepSpan& step : steps) {
          if (!options_.show(step.index)) continue;
          begin = std::min(begin, step.start);
          end = std::max(end, step.end);
        }
      }
    }
  }
  for (Drawing& drawing : drawings) drawing.draw(arrows, out);
  draw_links(title, ++process, begin, end, out);
  return out.text();
}

// Draws the rate of each link. Each transfer's bytes are spread evenly over its duration. `changes`
// has the changes of the rate by time, and `rate` is their running sum.
void Timeline::draw_links(const std::string& title, int process, double begin, double end,
                          TraceEvents& out) const {
  std::map<LinkId, std::map<double, double>> changes;
  for (const Load& load : loads_) {
    if (load.end <= load.start || load.start < begin || load.start >= end) continue;
    const double rate = load.bytes / (load.end - load.start);
    changes[load.link][load.start] += rate;
    changes[load.link][load.end] -= rate;
  }
  if (changes.empty()) return;
  out.process(process, title + "links");
  for (const auto& [link, moments] : changes) {
    const auto name = links_.find(link);
    double rate = 0;
    for (const auto& [time, change] : moments) {
      rate += change;
      // A sum below one byte per second is a rounding error.
      if (std::abs(rate) < 1) rate = 0;
      out.counter(process, name == links_.end() ? "link" : name->second, time,
                  argument("GB/s", rate * 1e-9));
    }
  }
}

}  // namespace lockstep
