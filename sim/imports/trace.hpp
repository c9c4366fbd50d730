// A PyTorch profiler trace (Kineto's Chrome trace, torch.profiler's export_chrome_trace).
// read_trace() reads it, find_steps() cuts it into training steps, and match_layers() matches a
// step with the layers of a model. Times of events are microseconds of the trace's clock; sums are
// seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "workload/step.hpp"

namespace lockstep {

// A complete event of the trace ("ph": "X"). read_trace() drops events without a duration, and
// events of other kinds than these four.
struct TraceEvent {
  // op: an operator on the CPU. kernel: work of the GPU, including copies. runtime: a call of
  // CUDA's runtime or driver. annotation: record_function(), and annotations of the profiler
  // itself.
  enum class Kind { op, kernel, runtime, annotation };
  Kind kind = Kind::op;
  std::string name;
  // `ts` and `dur`, in us.
  double start = 0;
  double duration = 0;
  std::int64_t thread = -1;
  // `External id`, which a kernel and its operator share.
  std::int64_t external = -1;
  // `correlation`, which a kernel and the runtime call that launched it share.
  std::int64_t correlation = -1;
  // `Sequence number`, which relates backward nodes to forward operators.
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
  // Sorted by start. If two events start together, the longer one is first, so that an event
  // precedes its nested events.
  std::vector<TraceEvent> events;
  // Name of the first GPU; "" if the trace names none.
  std::string device;
  // Unix time at which the trace's clock is 0, in nanoseconds; 0 in traces before PyTorch 2.2.
  double base_nanoseconds = 0;
};

// Reads the needed events without a tree of the whole document, because traces of large models have
// hundreds of megabytes. The file may be compressed by gzip. Throws ConfigError if the file is no
// JSON (located at the error) or no Kineto trace.
Trace read_trace(const std::string& path);

// The ConfigError for a text that is not JSON from `byte` (counted from 1) on.
ConfigError json_error(const std::string& file, const std::string& text, std::size_t byte);

// An operator that no other operator called (aten::conv2d, but not the aten::convolution inside
// it), or a node of the backward graph (autograd::engine::evaluate_function: ConvolutionBackward0).
// Before PyTorch 1.10, nodes have names such as CudnnConvolutionBackward, and other work of the
// autograd engine between nodes also counts.
struct TracedOp {
  const TraceEvent* event = nullptr;
  // Seconds of the operator's GPU kernels; in a trace without kernels, the operator's duration.
  double seconds = 0;
};

// The user's description of a trace.
struct TraceParts {
  // Name of the annotation (record_function) around the part that repeats; `*` matches any text. If
  // the name is "", steps are ProfilerStep#N, or end with an Optimizer.step.
  std::string step;
  // The part is only a forward pass.
  bool forward_only = false;
};

// One step with the operators of each pass. Pointers refer to events of the trace.
struct TracedStep {
  // Microseconds on the trace's clock.
  double start = 0, end = 0;
  int line = 0;
  // Operators of each pass, in the order of their start.
  std::vector<TracedOp> forward;
  std::vector<TracedOp> backward;
  // Operators inside Optimizer.step.
  std::vector<TracedOp> optimizer;
  const TraceEvent* optimizer_event = nullptr;
  // Seconds of all other work that kept the device busy.
  double other = 0;
  // Seconds of NCCL's kernels, which the members above do not include.
  double communication = 0;

  double seconds() const { return (end - start) * 1e-6; }
};

struct TracedSteps {
  // All steps, but without the first if there are more than two.
  std::vector<TracedStep> steps;
  // Number of steps in the trace, including the first.
  int recorded = 0;
  // Whether the trace has kernels.
  bool on_gpu = false;
  // Median seconds of the runtime calls that launch kernels.
  double launch_seconds = 0;
};

// Cuts the trace into steps. If `parts` names an annotation, steps are its innermost occurrences.
// Otherwise steps are the annotations ProfilerStep#N (prof.step() or a schedule); if the trace has
// none, each step ends with an Optimizer.step.
//
// Throws ConfigError if there is no step, or if a step has no operators or no backward pass. If
// `parts` expects only a forward pass, a backward pass is an error instead.
// REQUIRES: `trace` outlives the result.
TracedSteps find_steps(const Trace& trace, const TraceParts& parts);

// The seconds of one step, divided among the layers of the model.
struct LayerTimes {
  std::vector<double> forward, backward;  // by index of the layer
  // Seconds of operators before the first layer, for example of loading and casts.
  double outside = 0;
  // Names of layers that no operator matched; they take 0 s.
  std::vector<std::string> silent;
  // `has_shapes`: the trace has shapes. `checks_batch`: some shape shows the batch, which was
  // checked.
  bool has_shapes = false;
  bool checks_batch = false;
  // Consecutive operators of one layer, used for the host's time per operator.
  struct Visit {
    std::size_t layer = 0;
    // Start of the first operator and end of the last one, in us.
    double start = 0, end = 0;
    // Top-level operators in the visit.
    int operators = 0;
  };
  // In the order in which they ran.
  std::vector<Visit> forward_visits, backward_visits;
};

// Assigns each operator to a layer of the model, in one pass over operators and layers. If only one
// kind of layer runs an operator (for example aten::conv2d), the next layer that needs an operator
// must be of this kind. Small operators (views, casts, counters) go to the layer before or after
// them. A backward node goes to the layer of the forward operator with its sequence number,
// gradient accumulation to the layer of the node before it. Recorded weight shapes are compared
// with the layer's. The batch is checked on inputs of convolutions, of embeddings and of linear
// layers over tokens. `file` is the trace's path, for errors.
//
// Throws ConfigError at the first operator or layer that does not fit.
LayerTimes match_layers(const TracedStep& traced, const TrainingStep& model,
                        const std::string& file);

}  // namespace lockstep
