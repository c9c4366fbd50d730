// Writes Chrome trace events as PyTorch's profiler does. Two readers constrain the text. Perfetto
// draws the slices of a track only if they nest, so times are rounded to common ticks.
// HolisticTraceAnalysis finds the rank only if a space follows the colon.
#include "results/trace.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/output.hpp"

namespace lockstep {

namespace {

// Times are rounded to 0.1 ns before differences are computed, so that a slice's end and the next
// one's start stay equal.
constexpr double ticks_per_second = 1e10;

std::int64_t ticks(double seconds) {
  return std::llround(seconds * ticks_per_second);
}

using Out = std::back_insert_iterator<std::string>;

// Writes a number of ticks in microseconds, the unit of the format.
void put_time(Out out, std::int64_t time) {
  fmt::format_to(out, "{}.{:04}", time / 10000, time % 10000);
}

// Writes a JSON string.
void put_text(Out out, std::string_view text) {
  *out++ = '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') *out++ = '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(out, "\\u{:04x}", static_cast<int>(c));
    } else {
      *out++ = c;
    }
  }
  *out++ = '"';
}

std::string quoted_text(std::string_view text) {
  std::string result;
  put_text(std::back_inserter(result), text);
  return result;
}

}  // namespace

std::string argument(std::string_view name, std::string_view value) {
  return fmt::format("{}: {}", quoted_text(name), quoted_text(value));
}

std::string argument(std::string_view name, double value) {
  return fmt::format("{}: {:.10g}", quoted_text(name), value);
}

// Begins an event with the members that all events have; the caller adds the others and the closing
// brace. Phases: M metadata, X slice, s and f the two ends of an arrow, C counter.
void TraceEvents::open(char phase, TracePlace place, std::string_view category,
                       std::string_view name, double time) {
  Out out(text_);
  text_ += text_.empty() ? "" : ",\n";
  fmt::format_to(out, R"({{"ph": "{}", "cat": "{}", "pid": {}, "tid": {}, "ts": )", phase, category,
                 place.process, place.track);
  put_time(out, ticks(time));
  text_ += R"(, "name": )";
  put_text(out, name);
}

// Writes name and position of a process or track.
void TraceEvents::metadata(TracePlace place, std::string_view kind, std::string_view name,
                           int order) {
  open('M', place, "", fmt::format("{}_name", kind), 0);
  fmt::format_to(Out(text_), R"(, "args": {{"name": {}}}}})", quoted_text(name));
  open('M', place, "", fmt::format("{}_sort_index", kind), 0);
  fmt::format_to(Out(text_), R"(, "args": {{"sort_index": {}}}}})", order);
}

void TraceEvents::process(int process, std::string_view name) {
  metadata({process, 0}, "process", name, process);
}

void TraceEvents::track(TracePlace place, std::string_view name) {
  metadata(place, "thread", name, place.track);
}

void TraceEvents::slice(TracePlace place, std::string_view category, std::string_view name,
                        double start, double end, const std::string& arguments) {
  open('X', place, category, name, start);
  text_ += R"(, "dur": )";
  put_time(Out(text_), ticks(end) - ticks(start));
  if (!arguments.empty()) fmt::format_to(Out(text_), R"(, "args": {{{}}})", arguments);
  text_ += '}';
}

void TraceEvents::arrow(std::string_view category, std::int64_t number, TracePlace from,
                        double leaves, TracePlace to, double arrives) {
  open('s', from, category, category, leaves);
  fmt::format_to(Out(text_), R"(, "id": {}}})", number);
  open('f', to, category, category, arrives);
  fmt::format_to(Out(text_), R"(, "id": {}, "bp": "e"}})", number);
}

void TraceEvents::counter(int process, std::string_view name, double time,
                          const std::string& values) {
  open('C', {process, 0}, "", name, time);
  fmt::format_to(Out(text_), R"(, "args": {{{}}}}})", values);
}

// Writes the members that the profiler puts before its events: device, backend, rank, world size.
std::string trace_document(const TraceHeader& header, const std::string& events) {
  return fmt::format(
      "{{\n\"schemaVersion\": 1,\n\"deviceProperties\": [{{\"id\": 0, \"name\": {}}}],\n"
      "\"distributedInfo\": {{\"backend\": {}, \"rank\": {}, \"world_size\": {}}},\n"
      "\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": 0,\n\"traceName\": {},\n"
      "\"traceEvents\": [\n{}\n]\n}}\n",
      quoted_text(header.device), quoted_text(header.backend), header.rank, header.ranks,
      quoted_text(header.title), events);
}

namespace {

// Writes the document to the file `draft`, with zlib's gzip functions. `path` is the file's final
// name; it determines the compression and appears in messages.
void write_packed(const std::string& draft, const std::string& path, const std::string& document) {
  // wbT writes plain text. Compression has level 4, because level 6 takes three times as long and
  // saves only a seventh of the bytes.
  const char* mode = path.ends_with(".gz") ? "wb4" : "wbT";
  errno = 0;
  const gzFile file = gzopen(draft.c_str(), mode);
  const auto fail = [&] {
    throw OutputError(fmt::format("cannot write {}: {}", path, std::strerror(errno ? errno : EIO)));
  };
  if (file == nullptr) fail();
  const bool written = document.empty() || gzfwrite(document.data(), document.size(), 1, file) == 1;
  const int cause = errno;
  if (gzclose(file) != Z_OK || !written) {
    if (!written) errno = cause;
    fail();
  }
}

}  // namespace

void write_trace(const std::string& path, const std::string& document) {
  write_whole(path, [&](const std::string& draft) { write_packed(draft, path, document); });
}

}  // namespace lockstep
