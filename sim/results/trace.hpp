// A writer of timelines in the form of PyTorch's profiler (Kineto's Chrome trace, JSON), for
// Perfetto and HolisticTraceAnalysis. timeline/ uses it. All times are seconds. A slice, for
// example:
//
//     {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 12.5000, "name": "conv1",
//      "dur": 80.0000}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// The place of a slice in the drawing: a track of a process.
struct TracePlace {
  int process = 0;
  int track = 0;
};

// The events as text, one a line. Times are rounded to 0.1 ns, so that adjacent slices still touch.
class TraceEvents {
 public:
  // Processes are shown in the order of their numbers.
  void process(int process, std::string_view name);
  void track(TracePlace place, std::string_view name);
  // `arguments`: members of a JSON object, see argument(); "" = none.
  void slice(TracePlace place, std::string_view category, std::string_view name, double start,
             double end, const std::string& arguments = "");
  // An arrow from a moment of one slice to a moment of another, which must not be earlier.
  // `category`: the kind of arrow; each kind has its own numbers.
  void arrow(std::string_view category, std::int64_t number, TracePlace from, double leaves,
             TracePlace to, double arrives);
  // The value holds from `time` on. `values` as arguments, see argument(): by unit, or several,
  // which Perfetto stacks.
  void counter(int process, std::string_view name, double time, const std::string& values);

  const std::string& text() const { return text_; }

 private:
  void metadata(TracePlace place, std::string_view kind, std::string_view name, int order);
  void open(char phase, TracePlace place, std::string_view category, std::string_view name,
            double time);
  std::string text_;
};

// Members of a slice's "args" object, as JSON text.
std::string argument(std::string_view name, std::string_view value);
std::string argument(std::string_view name, double value);

// The header of a trace.
struct TraceHeader {
  std::string title, device, backend;
  int rank = 0, ranks = 1;  // of this file, and of the job
};
// The whole file, from events written anywhere.
std::string trace_document(const TraceHeader& header, const std::string& events);

// Compressed if the path ends in .gz. Throws OutputError.
void write_trace(const std::string& path, const std::string& document);

}  // namespace lockstep
