// The events of a PyTorch profiler trace (Kineto's Chrome trace, torch.profiler's
// export_chrome_trace) that an import needs, read without holding the whole document: traces of
// large models have hundreds of megabytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/errors.hpp"

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

// Throws ConfigError: no JSON (located where it breaks off), or no Kineto trace.
Trace read_trace(const std::string& path);

// The ConfigError for text that stops being JSON at `byte` (counted from 1).
ConfigError json_error(const std::string& file, const std::string& text, std::size_t byte);

}  // namespace lockstep
