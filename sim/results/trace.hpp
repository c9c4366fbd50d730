// A writer of timelines in the format of PyTorch's profiler (Kineto's Chrome trace, JSON), for
// Perfetto and HolisticTraceAnalysis. timeline/ uses it. All times are in seconds. An example of a
// slice (a bar of the drawing):
//
//     {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "ts": 12.5000, "name": "conv1",
//      "dur": 80.0000}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// The place of a slice: a track (one row of the drawing) of a process.
struct TracePlace {
  int process = 0;
  int track = 0;
};

// The events as text, one per line. Times are rounded to 0.1 ns; adjacent slices still touch.
class TraceEvents {
 public:
  // Processes are shown in the order of their numbers.
  void process(int process, std::string_view name);
  void track(TracePlace place, std::string_view name);
  // `arguments`: members of a JSON object, made by argument(); "" = none.
  void slice(TracePlace place, std::string_view category, std::string_view name, double start,
             double end, const std::string& arguments = "");
  // An arrow from a moment of one slice to a moment of another, which must not be earlier.
  // `category` is the kind of arrow; `number` must be unique within a kind.
  void arrow(std::string_view category, std::int64_t number, TracePlace from, double leaves,
             TracePlace to, double arrives);
  // A value that holds from `time` on. `values`: members made by argument(), one for each unit or
  // part; Perfetto stacks several.
  void counter(int process, std::string_view name, double time, const std::string& values);

  const std::string& text() const { return text_; }

 private:
  void metadata(TracePlace place, std::string_view kind, std::string_view name, int order);
  void open(char phase, TracePlace place, std::string_view category, std::string_view name,
            double time);
  std::string text_;
};

// Makes one member of a slice's "args" object, as JSON text.
std::string argument(std::string_view name, std::string_view value);
std::string argument(std::string_view name, double value);

// The header of a trace.
struct TraceHeader {
  std::string title, device, backend;
  int rank = 0, ranks = 1;  // rank of this file, and number of ranks of the job
};
// Returns the whole file. `events` may come from several TraceEvents.
std::string trace_document(const TraceHeader& header, const std::string& events);

// Writes a document, compressed if the path ends in .gz. Throws OutputError if that fails.
void write_trace(const std::string& path, const std::string& document);

}  // namespace lockstep
