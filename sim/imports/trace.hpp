// A PyTorch profiler trace (Kineto's Chrome trace, torch.profiler's export_chrome_trace). Read it,
// cut it into training steps, and match these with the layers of a model, in this order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "workload/step.hpp"

namespace lockstep {

struct TraceEvent {
  enum class Kind { op, kernel, runtime, annotation };
  Kind kind = Kind::op;
  std::string name;
  double start = 0;     // us, the trace's clock
  double duration = 0;  // us
  std::int64_t thread = -1;
  std::int64_t external = -1;     // "External id": ties kernels to operators
  std::int64_t correlation = -1;  // ties kernels to the runtime call that launched them
  std::int64_t sequence = -1;     // "Sequence number": ties backward nodes to forward operators
  std::vector<std::vector<std::int64_t>> shapes;  // "Input Dims", when shapes were recorded
  int line = 0;                                   // in the file

  double end() const { return start + duration; }
};

struct Trace {
  std::string file;
  std::vector<TraceEvent> events;  // by start; of two that start together the longer first
  std::string device;              // name of the first GPU; "" without one
  double base_nanoseconds = 0;     // Unix time of the clock's zero; 0 in traces before PyTorch 2.2
};

// Reads the needed events without holding the whole document: traces of large models have hundreds
// of megabytes. Throws ConfigError if the file is no JSON (located at the error) or no Kineto
// trace.
Trace read_trace(const std::string& path);

// The ConfigError for text that stops being JSON at `byte` (counted from 1).
ConfigError json_error(const std::string& file, const std::string& text, std::size_t byte);

// An operator that no other operator called (aten::conv2d, not the aten::convolution in it), or one
// node of the backward graph (autograd::engine::evaluate_function: ConvolutionBackward0; before
// PyTorch 1.10 CudnnConvolutionBackward, and what the engine ran between nodes).
struct TracedOp {
  const TraceEvent* event = nullptr;
  double seconds = 0;  // of its GPU kernels; of itself in a trace without kernels
};

// The user's description of a trace.
struct TraceParts {
  // Name of the annotation (record_function) around the part that repeats; `*` stands for any text.
  // "" = ProfilerStep#N, or else up to the end of each Optimizer.step.
  std::string step;
  bool forward_only = false;  // the part is a forward pass alone
};

struct TracedStep {
  double start = 0, end = 0;  // us
  int line = 0;
  std::vector<TracedOp> forward;    // by start
  std::vector<TracedOp> backward;   // by start
  std::vector<TracedOp> optimizer;  // operators inside Optimizer.step
  const TraceEvent* optimizer_event = nullptr;
  double other = 0;          // seconds of everything else that kept the device busy
  double communication = 0;  // seconds of NCCL's kernels: not in any of the above

  double seconds() const { return (end - start) * 1e-6; }
};

struct TracedSteps {
  std::vector<TracedStep> steps;  // the first is left out when there are more than two
  int recorded = 0;               // steps in the trace
  bool on_gpu = false;            // kernels were recorded
  double launch_seconds = 0;      // median duration of the kernel launches' runtime calls
};

// Steps are the annotations ProfilerStep#N (prof.step() or a schedule). Without them, each step
// ends with an Optimizer.step. If `parts` names an annotation, steps are its innermost occurrences.
// Pointers are into `trace`. Throws ConfigError if there is no step, or a step without operators or
// without a backward pass. If a forward pass alone is expected, a backward pass is an error.
TracedSteps find_steps(const Trace& trace, const TraceParts& parts);

struct LayerTimes {
  std::vector<double> forward, backward;  // seconds by layer
  double outside = 0;                     // of operators before the first layer: loading, casts
  std::vector<std::string> silent;        // layers without an operator of their own: 0 s
  bool has_shapes = false;                // some were recorded
  bool checks_batch = false;              // one of them tells the batch
  // Layers in the order in which they ran, with the place of their first operator: for the host's
  // time per operator.
  struct Visit {
    std::size_t layer = 0;
    double start = 0, end = 0;  // us: first operator begins, last one ends
    int operators = 0;          // top-level operators in it
  };
  std::vector<Visit> forward_visits, backward_visits;
};

// Walks operators and layers side by side. An operator that only one kind of layer runs
// (aten::conv2d) must meet that layer next; small operators (views, casts, counters) go to the
// layer beside them. Backward nodes go to the layer of the forward operator with their sequence
// number, gradient accumulation to the node before it. Recorded shapes are compared with the
// layer's; inputs of convolutions, of tables of token ids and of linear layers over tokens tell the
// batch. Throws ConfigError at the first operator or layer that does not fit.
LayerTimes match_layers(const TracedStep& traced, const TrainingStep& model,
                        const std::string& file);

}  // namespace lockstep
