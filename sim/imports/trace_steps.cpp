// Cuts a trace into training steps, and gives each top-level operator the GPU time of the kernels
// that it launched. A kernel and its operator usually share an `External id`. If not, the kernel
// and the runtime call that launched it share a `correlation`, and the operator is the one on the
// call's thread during which the call was made.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "core/statistics.hpp"
#include "imports/trace.hpp"

namespace lockstep {
namespace {

constexpr std::string_view wrapped_node = "autograd::engine::evaluate_function";

// Whether nodes of the backward graph have an event around them. Before PyTorch 1.10 there are only
// the nodes themselves: MeanBackward1, torch::autograd::AccumulateGrad.
bool has_wrapped_nodes(const Trace& trace) {
  return std::any_of(trace.events.begin(), trace.events.end(),
                     [](const TraceEvent& event) { return event.name.starts_with(wrapped_node); });
}
// A node's name is a class of autograd with a number: "MulBackward0".
bool is_bare_node(std::string_view name) {
  if (name.starts_with("torch::autograd::")) return true;
  while (!name.empty() && name.back() >= '0' && name.back() <= '9') name.remove_suffix(1);
  return name.ends_with("Backward") && name.find(':') == std::string_view::npos;
}
bool is_backward(const TraceEvent& event, bool wrapped) {
  return wrapped ? event.name.starts_with(wrapped_node) : is_bare_node(event.name);
}

// Before PyTorch 1.11 the trace has annotations as operators.
bool is_annotation(const TraceEvent& event) {
  return event.kind == TraceEvent::Kind::op || event.kind == TraceEvent::Kind::annotation;
}
bool is_optimizer(const TraceEvent& event) {
  return event.name.starts_with("Optimizer.step#");
}

// Operators that no other operator encloses, by thread. Events whose names lack "::" are
// annotations of older versions or wrappers (a DataLoader, a custom autograd function); they are
// skipped, so that operators inside them count as top-level.
struct TopLevel {
  // Each list is sorted by start.
  std::map<std::int64_t, std::vector<const TraceEvent*>> by_thread;
  // The top-level operator of every external id. For the id of a nested operator, it is the
  // operator around it.
  std::unordered_map<std::int64_t, const TraceEvent*> by_external;

  // Whether the trace has evaluate_function events around backward nodes.
  bool wrapped;

  explicit TopLevel(const Trace& trace) : wrapped(has_wrapped_nodes(trace)) {
    for (const TraceEvent& event : trace.events) {
      if (event.kind != TraceEvent::Kind::op) continue;
      if (event.name.find("::") == std::string::npos && !is_backward(event, wrapped)) continue;
      auto& list = by_thread[event.thread];
      // Events are sorted by start, so an operator that begins after the last one's end is not
      // nested.
      if (list.empty() || event.start >= list.back()->end()) list.push_back(&event);
      if (event.external > 0) by_external.emplace(event.external, list.back());
    }
  }

  // The top-level operator during which the call was made; null if there is none.
  const TraceEvent* enclosing(const TraceEvent& call) const {
    const auto thread = by_thread.find(call.thread);
    if (thread == by_thread.end()) return nullptr;
    const auto after =
        std::upper_bound(thread->second.begin(), thread->second.end(), call.start,
                         [](double t, const TraceEvent* op) { return t < op->start; });
    if (after == thread->second.begin()) return nullptr;
    const TraceEvent* op = *(after - 1);
    return call.start < op->end() ? op : nullptr;
  }
};

// Seconds of GPU work that each top-level operator launched.
struct GpuWork {
  std::unordered_map<const TraceEvent*, double> seconds;
  // `orphans`: kernels that no operator launched. `communication`: kernels of NCCL.
  std::vector<const TraceEvent*> orphans, communication;
  // Seconds of each call that launched a kernel.
  std::vector<double> launches;
  // Whether the trace has kernels.
  bool any = false;

  GpuWork(const Trace& trace, const TopLevel& top) {
    // Runtime calls by correlation.
    std::unordered_map<std::int64_t, const TraceEvent*> calls;
    for (const TraceEvent& event : trace.events) {
      if (event.kind != TraceEvent::Kind::runtime) continue;
      if (event.correlation > 0) calls.emplace(event.correlation, &event);
      if (event.name.find("LaunchKernel") != std::string::npos)
        launches.push_back(event.duration * 1e-6);
    }
    for (const TraceEvent& event : trace.events) {
      if (event.kind != TraceEvent::Kind::kernel) continue;
      any = true;
      if (event.name.starts_with("nccl")) {
        communication.push_back(&event);
        continue;
      }
      const TraceEvent* op = nullptr;
      if (const auto it = top.by_external.find(event.external); it != top.by_external.end())
        op = it->second;
      if (op == nullptr)
        if (const auto it = calls.find(event.correlation); it != calls.end())
          op = top.enclosing(*it->second);
      if (op == nullptr)
        orphans.push_back(&event);
      else
        seconds[op] += event.duration * 1e-6;
    }
  }
};

// Start and end of a step, and the event that defines it.
struct Window {
  double start, end;
  const TraceEvent* event;
};

// Whether the name matches the pattern, in which `*` matches any text.
bool matches(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= name.size(); ++from)
    if (matches(name.substr(from), rest)) return true;
  return false;
}

// Lists, for the error message, the annotations that the user may mean: all except annotations of
// the profiler and of PyTorch.
std::string own_annotations(const Trace& trace) {
  std::vector<std::string> names;
  // Since PyTorch 1.11, annotations have a category of their own.
  const bool told_apart = std::any_of(
      trace.events.begin(), trace.events.end(),
      [](const TraceEvent& event) { return event.kind == TraceEvent::Kind::annotation; });
  for (const TraceEvent& event : trace.events) {
    const bool theirs = event.name.find("::") != std::string::npos || is_optimizer(event) ||
                        event.name.starts_with("Optimizer.zero_grad#") ||
                        event.name.starts_with("ProfilerStep#") || is_bare_node(event.name);
    if (event.kind == TraceEvent::Kind::op && told_apart) continue;
    if (is_annotation(event) && !theirs &&
        std::find(names.begin(), names.end(), event.name) == names.end())
      names.push_back(event.name);
  }
  constexpr std::size_t shown = 12;
  if (names.empty()) return "there are no annotations: torch.profiler.record_function makes them";
  const std::size_t more = names.size() > shown ? names.size() - shown : 0;
  names.resize(names.size() - more);
  return fmt::format("annotations here: {}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// The innermost occurrences of an annotation: an occurrence inside the last one replaces it.
std::vector<Window> named_windows(const Trace& trace, const std::string& pattern) {
  std::vector<Window> windows;
  for (const TraceEvent& event : trace.events) {
    if (!is_annotation(event) || !matches(event.name, pattern)) continue;
    if (!windows.empty() && event.end() <= windows.back().end) windows.pop_back();
    windows.push_back({event.start, event.end(), &event});
  }
  return windows;
}

// Each step ends with an Optimizer.step and begins at the end of the step before.
std::vector<Window> optimizer_windows(const Trace& trace) {
  std::vector<Window> windows;
  double begin = trace.events.empty() ? 0 : trace.events.front().start;
  for (const TraceEvent& event : trace.events) {
    if (!is_annotation(event) || !is_optimizer(event)) continue;
    windows.push_back({begin, event.end(), &event});
    begin = event.end();
  }
  return windows;
}

// The steps, by the first of the rules (find_steps()) that finds any. Throws ConfigError if no rule
// finds any.
std::vector<Window> windows_of(const Trace& trace, const std::string& step) {
  std::vector<Window> windows = named_windows(trace, step.empty() ? "ProfilerStep#*" : step);
  if (!windows.empty()) return windows;
  if (!step.empty())
    throw file_error(trace.file, "", "holds no annotation " + in_quotes(step),
                     own_annotations(trace));
  windows = optimizer_windows(trace);
  if (windows.empty())
    throw file_error(
        trace.file, "", "holds no training step: no ProfilerStep#N, no Optimizer.step",
        "--step names the annotation around the part that repeats; " + own_annotations(trace));
  return windows;
}

// Sorts the operators of one step into passes. Forward operators run on the step's thread before
// the first backward node. Autograd runs backward of CPU tensors on the calling thread, and
// backward of GPU tensors on a thread of its own for each device.
TracedStep read_step(const Trace& trace, const Window& window, const TopLevel& top,
                     const GpuWork& gpu) {
  TracedStep step;
  step.start = window.start;
  step.end = window.end;
  step.line = window.event->line;
  const auto inside = [&](const TraceEvent& event) {
    return event.start >= window.start && event.start < window.end;
  };
  for (const TraceEvent& event : trace.events) {
    if (is_annotation(event) && is_optimizer(event) && inside(event)) step.optimizer_event = &event;
  }
  double first_backward = window.end;
  // Threads other than the step's on which backward nodes run.
  std::set<std::int64_t> engine_threads;
  for (const auto& [thread, ops] : top.by_thread)
    for (const TraceEvent* op : ops)
      if (inside(*op) && is_backward(*op, top.wrapped)) {
        first_backward = std::min(first_backward, op->start);
        if (thread != window.event->thread) engine_threads.insert(thread);
      }
  for (const auto& [thread, ops] : top.by_thread) {
    // If nodes have no event around them, all work on an engine thread belongs to backward.
    const bool engine = !top.wrapped && engine_threads.contains(thread);
    for (const TraceEvent* op : ops) {
      if (!inside(*op)) continue;
      const auto kernels = gpu.seconds.find(op);
      const double seconds = !gpu.any                       ? op->duration * 1e-6
                             : kernels != gpu.seconds.end() ? kernels->second
                                                            : 0;
      const TraceEvent* optimizer = step.optimizer_event;
      if (optimizer != nullptr && op->thread == optimizer->thread &&
          op->start >= optimizer->start && op->start < optimizer->end())
        step.optimizer.push_back({op, seconds});
      else if (engine || is_backward(*op, top.wrapped))
        step.backward.push_back({op, seconds});
      else if (thread == window.event->thread && op->start < first_backward)
        step.forward.push_back({op, seconds});
      else
        step.other += seconds;
    }
  }
  // Several threads may contribute to backward.
  const auto by_start = [](const TracedOp& a, const TracedOp& b) {
    return a.event->start < b.event->start;
  };
  std::sort(step.backward.begin(), step.backward.end(), by_start);
  for (const TraceEvent* kernel : gpu.orphans)
    if (inside(*kernel)) step.other += kernel->duration * 1e-6;
  for (const TraceEvent* kernel : gpu.communication)
    if (inside(*kernel)) step.communication += kernel->duration * 1e-6;
  return step;
}

}  // namespace

TracedSteps find_steps(const Trace& trace, const TraceParts& parts) {
  const TopLevel top(trace);
  const GpuWork gpu(trace, top);
  TracedSteps result;
  result.on_gpu = gpu.any;
  result.launch_seconds = median(gpu.launches);
  auto windows = windows_of(trace, parts.step);
  result.recorded = static_cast<int>(windows.size());
  // Leaves out the first step, which allocates memory, chooses algorithms and fills caches.
  if (windows.size() > 2) windows.erase(windows.begin());
  for (const Window& window : windows) {
    TracedStep step = read_step(trace, window, top, gpu);
    const auto fail = [&](const char* has, const char* hint) {
      throw ConfigError(Diagnostic{
          {trace.file, step.line, 1}, "", fmt::format("{} has {}", window.event->name, has), hint});
    };
    if (step.forward.empty())
      fail("no operators", "record whole training steps with ProfilerActivity.CPU");
    if (step.backward.empty() && !parts.forward_only)
      fail("no backward pass",
           "--forward-only if it is a forward pass alone; or record whole "
           "training steps with ProfilerActivity.CPU");
    if (!step.backward.empty() && parts.forward_only)
      fail("a backward pass", "leave --forward-only out");
    result.steps.push_back(std::move(step));
  }
  return result;
}

}  // namespace lockstep
