// See trace_steps.hpp.
#include "trace_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/statistics.hpp"
#include "located.hpp"

namespace lockstep {
namespace {

bool is_backward(const TraceEvent& event) {
  return event.name.starts_with("autograd::engine::evaluate_function");
}
bool is_optimizer(const TraceEvent& event) {
  return event.name.starts_with("Optimizer.step#");
}

// Operators that no operator encloses, by thread. Names without "::" are annotations of older
// versions and wrappers (a DataLoader, a custom autograd function): looked through.
struct TopLevel {
  std::map<std::int64_t, std::vector<const TraceEvent*>> by_thread;  // each by start
  std::unordered_map<std::int64_t, const TraceEvent*> by_external;   // of the nested ones too

  explicit TopLevel(const Trace& trace) {
    for (const TraceEvent& event : trace.events) {
      if (event.kind != TraceEvent::Kind::op || event.name.find("::") == std::string::npos)
        continue;
      auto& list = by_thread[event.thread];
      if (list.empty() || event.start >= list.back()->end()) list.push_back(&event);
      if (event.external > 0) by_external.emplace(event.external, list.back());
    }
  }

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

// Seconds of GPU work per top-level operator; what no operator launched is under nullptr.
struct GpuWork {
  std::unordered_map<const TraceEvent*, double> seconds;
  std::vector<const TraceEvent*> orphans, communication;
  std::vector<double> launches;
  bool any = false;

  GpuWork(const Trace& trace, const TopLevel& top) {
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

struct Window {
  double start, end;
  const TraceEvent* event;
};

std::vector<Window> windows_of(const Trace& trace) {
  std::vector<Window> steps, optimizers;
  double begin = trace.events.empty() ? 0 : trace.events.front().start;
  for (const TraceEvent& event : trace.events) {
    if (event.kind != TraceEvent::Kind::op && event.kind != TraceEvent::Kind::annotation) continue;
    if (event.name.starts_with("ProfilerStep#"))
      steps.push_back({event.start, event.end(), &event});
    if (is_optimizer(event)) {
      optimizers.push_back({begin, event.end(), &event});
      begin = event.end();
    }
  }
  return steps.empty() ? optimizers : steps;
}

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
    const bool annotation =
        event.kind == TraceEvent::Kind::op || event.kind == TraceEvent::Kind::annotation;
    if (annotation && is_optimizer(event) && inside(event)) step.optimizer_event = &event;
  }
  double first_backward = window.end;
  for (const auto& [thread, ops] : top.by_thread)
    for (const TraceEvent* op : ops)
      if (inside(*op) && is_backward(*op)) first_backward = std::min(first_backward, op->start);
  for (const auto& [thread, ops] : top.by_thread) {
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
      else if (is_backward(*op))
        step.backward.push_back({op, seconds});
      else if (thread == window.event->thread && op->start < first_backward)
        step.forward.push_back({op, seconds});
      else
        step.other += seconds;
    }
  }
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

TracedSteps find_steps(const Trace& trace) {
  const TopLevel top(trace);
  const GpuWork gpu(trace, top);
  TracedSteps result;
  result.on_gpu = gpu.any;
  result.launch_seconds = median(gpu.launches);
  auto windows = windows_of(trace);
  result.recorded = static_cast<int>(windows.size());
  if (windows.empty())
    throw file_error(trace.file, "", "holds no training step: no ProfilerStep#N, no Optimizer.step",
                     "call prof.step() after each step; docs/import.md shows how to record");
  // The first step still allocates, chooses algorithms and fills caches.
  if (windows.size() > 2) windows.erase(windows.begin());
  for (const Window& window : windows) {
    TracedStep step = read_step(trace, window, top, gpu);
    const char* missing = step.forward.empty()    ? "no operators"
                          : step.backward.empty() ? "no backward pass"
                                                  : nullptr;
    if (missing != nullptr)
      throw located_error({trace.file, step.line, 1},
                          fmt::format("{} has {}", window.event->name, missing),
                          "record whole training steps with ProfilerActivity.CPU");
    result.steps.push_back(std::move(step));
  }
  return result;
}

}  // namespace lockstep
