// A PyTorch profiler trace (Kineto's Chrome trace, torch.profiler's export_chrome_trace). Read it
// by read_trace(), cut it into training steps by find_steps(), and match these with the layers of a
// model by match_layers(). Times of events are microseconds of the trace's clock, sums are seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "workload/step.hpp"

namespace lockstep {

// A complete event of the trace ("ph": "X") of one of four kinds; all others are dropped.
struct TraceEvent {
  // op: operators of the CPU. kernel: work of the GPU, copies included. runtime: calls of CUDA's
  // runtime. annotation: record_function() and the profiler's own.
  enum class Kind { op, kernel, runtime, annotation };
  Kind kind = Kind::op;
  std::string name;
  // `ts` and `dur`, in us.
  double start = 0;
  double duration = 0;
  std::int64_t thread = -1;
  // `External id`: ties kernels to operators.
  std::int64_t external = -1;
  // Ties kernels to the runtime call that launched them.
  std::int64_t correlation = -1;
  // `Sequence number`: ties backward nodes to forward operators.
  std::int64_t sequence = -1;
  // `Input Dims`, one shape per argument; empty unless shapes were recorded.
  std::vector<std::vector<std::int64_t>> shapes;
  // Line in the file.
  int line = 0;

  double end() const { return start + duration; }
};

// The events of one file.
struct Trace {
  std::string file;
  // By start; if two start together, the longer one is first, so an event precedes its nested
  // events.
  std::vector<TraceEvent> events;
  // Name of the first GPU; "" without one.
  std::string device;
  // Unix time of the clock's zero; 0 in traces before PyTorch 2.2.
  double base_nanoseconds = 0;
};

// Reads the needed events without holding the whole document: traces of large models have hundreds
// of megabytes. The file may be packed by gzip. Throws ConfigError if the file is no JSON (located
// at the error) or no Kineto trace.
Trace read_trace(const std::string& path);

// The ConfigError for text that stops being JSON at `byte` (counted from 1).
ConfigError json_error(const std::string& file, const std::string& text, std::size_t byte);

// An operator that no other operator called (aten::conv2d, not the aten::convolution in it), or one
// node of the backward graph (autograd::engine::evaluate_function: ConvolutionBackward0; before
// PyTorch 1.10 CudnnConvolutionBackward, and other work that the engine ran between nodes).
struct TracedOp {
  const TraceEvent* event = nullptr;
  // Time of the operator's GPU kernels; in a trace without kernels the operator's own time.
  double seconds = 0;
};

// The user's description of a trace.
struct TraceParts {
  // Name of the annotation (record_function) around the part that repeats; `*` stands for any text.
  // "" = ProfilerStep#N, or else up to the end of each Optimizer.step.
  std::string step;
  // The part is a forward pass alone.
  bool forward_only = false;
};

// One step with its operators by pass. Pointers are into the trace.
struct TracedStep {
  // Microseconds on the trace's clock.
  double start = 0, end = 0;
  int line = 0;
  // Operators of each pass, by start.
  std::vector<TracedOp> forward;
  std::vector<TracedOp> backward;  // by start
  // Operators inside Optimizer.step.
  std::vector<TracedOp> optimizer;
  const TraceEvent* optimizer_event = nullptr;
  // Seconds of all other work that kept the device busy.
  double other = 0;
  // Seconds of NCCL's kernels, which are in none of the above.
  double communication = 0;

  double seconds() const { return (end - start) * 1e-6; }
};

struct TracedSteps {
  // Without the first one if there are more than two.
  std::vector<TracedStep> steps;
  // Number of steps in the trace.
  int recorded = 0;
  // Kernels were recorded.
  bool on_gpu = false;
  // Median duration of the kernel launches' runtime calls.
  double launch_seconds = 0;
};

// Steps are the annotations ProfilerStep#N (prof.step() or a schedule). Without them, each step
// ends with an Optimizer.step. If `parts` names an annotation, steps are its innermost occurrences.
//
// Throws ConfigError if there is no step, or a step without operators or without a backward pass.
// If a forward pass alone is expected, a backward pass is an error.
// REQUIRES: `trace` outlives the result.
TracedSteps find_steps(const Trace& trace, const TraceParts& parts);

// Seconds of one step by layer of the model.
struct LayerTimes {
  std::vector<double> forward, backward;  // seconds by layer
  // Seconds of operators before the first layer: loading, casts.
  double outside = 0;
  // Layers without an operator of their own: 0 s.
  std::vector<std::string> silent;
  // Some shapes were recorded; one of the shapes tells the batch.
  bool has_shapes = false;
  bool checks_batch = false;
  // A layer with its consecutive operators, for the host's time per operator.
  struct Visit {
    std::size_t layer = 0;
    // us: the first operator begins, the last one ends.
    double start = 0, end = 0;
    // Top-level operators in the visit.
    int operators = 0;
  };
  // In the order in which they ran.
  std::vector<Visit> forward_visits, backward_visits;
};

// Walks operators and layers side by side. An operator that only one kind of layer runs
// (aten::conv2d) must meet that layer next; small operators (views, casts, counters) go to the
// layer beside them. Backward nodes go to the layer of the forward operator with their sequence
// number, gradient accumulation to the node before it. Recorded shapes are compared with the
// layer's; inputs of convolutions, of tables of token ids and of linear layers over tokens tell the
// batch. `file` is the trace's path, for errors.
//
// Throws ConfigError at the first operator or layer that does not fit.
LayerTimes match_layers(const TracedStep& traced, const TrainingStep& model,
                        const std::string& file);

}  // namespace lockstep
