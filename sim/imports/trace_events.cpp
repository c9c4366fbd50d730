// Reads the events of a trace with a SAX parser, which never builds a tree of the document. Field
// names follow kineto's output_json.cpp and PyTorch's profiler_kineto.cpp. Traces of PyTorch 1.8 to
// 1.10 differ: categories such as "Operator", "Kernel" and "Runtime", the keys "external id" and
// "Input dims", and threads that are texts.
//
//   {"traceEvents": [                                                          depth 2
//     {"ph": "X", "cat": "kernel", "name": "...", "ts": 1, "dur": 5, "tid": 7, depth 3
//      "args": {"External id": 12, "correlation": 40, "stream": 7}}, ...       depth 4
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "imports/trace.hpp"
#include "imports/unpacked_text.hpp"

namespace lockstep {
namespace {

// Input iterator that writes the parser's position to `reached`. The parser reports no line
// numbers, so Handler counts newlines up to this position.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at = nullptr;
  const char** reached = nullptr;
  reference operator*() const { return *at; }
  Cursor& operator++() {
    ++at;
    *reached = at;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Cursor& other) const { return at == other.at; }
  bool operator!=(const Cursor& other) const { return at != other.at; }
};

// The kind of an event by its category, in the spelling of every version; nothing for events that
// are not needed (for example Python functions).
std::optional<TraceEvent::Kind> kind_of(const std::string& category) {
  using Kind = TraceEvent::Kind;
  if (category == "cpu_op" || category == "Operator") return Kind::op;
  if (category == "kernel" || category == "Kernel" || category == "gpu_memcpy" ||
      category == "gpu_memset" || category == "Memcpy" || category == "Memset")
    return Kind::kernel;
  if (category == "cuda_runtime" || category == "cuda_driver" || category == "Runtime")
    return Kind::runtime;
  if (category == "user_annotation") return Kind::annotation;
  return std::nullopt;
}

// A handler of nlohmann's SAX parser. Depth counts open objects and lists: the document is 1,
// "traceEvents" 2, an event 3, its "args" 4.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  Handler(const char* begin, const char* const& reached) : counted_(begin), reached_(reached) {}

  Trace trace;
  bool has_events = false;
  std::size_t error_byte = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool number_integer(number_integer_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    return number(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return number(value); }

  bool string(string_t& value) override {
    if (events_ && depth_ == 3) {
      if (key_ == "ph") phase_ = value;
      if (key_ == "cat") category_ = value;
      if (key_ == "name") event_.name = value;
      if (key_ == "tid") event_.thread = thread_called(value);
    } else if (top_ == "deviceProperties" && key_ == "name" && trace.device.empty()) {
      trace.device = value;
    } else if (events_ && depth_ == 4 && is_id(key_)) {
      // In some versions ids are texts.
      number(std::strtod(value.c_str(), nullptr));
    }
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) top_ = value;
    if (depth_ == 3 || depth_ == 4) key_ = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (++depth_ == 3 && events_) {
      line_ += static_cast<int>(std::count(counted_, reached_, '\n'));
      counted_ = reached_;
      event_ = {};
      event_.line = line_;
      // An event without `dur` stays at -1, and is dropped.
      event_.duration = -1;
      phase_.clear();
      category_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (depth_-- == 3 && events_) finish_event();
    return true;
  }
  bool start_array(std::size_t) override {
    if (++depth_ == 2 && top_ == "traceEvents") events_ = has_events = true;
    // "Input Dims": [[32, 3, 224, 224], [64, 3, 7, 7], []]: args is depth 4, the list of shapes 5.
    if (events_ && depth_ == 6 && is_shapes(key_)) event_.shapes.emplace_back();
    return true;
  }
  bool end_array() override {
    if (depth_-- == 2) events_ = false;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception&) override {
    error_byte = std::max<std::size_t>(position, 1);
    return false;
  }

 private:
  static bool is_id(const std::string& key) {
    return key == "External id" || key == "external id" || key == "correlation" ||
           key == "Sequence number";
  }
  static bool is_shapes(const std::string& key) {
    return key == "Input Dims" || key == "Input dims";
  }

  // In traces of PyTorch 1.8 and 1.9 threads are texts: "25738", "stream 7". They get numbers from
  // -2 downward, which no real thread has.
  std::int64_t thread_called(const std::string& name) {
    return -2 - static_cast<std::int64_t>(threads_.emplace(name, threads_.size()).first->second);
  }

  // Stores a number of an event. An id may exceed the range of int64 (the largest unsigned number
  // means "none"); such an id becomes -1.
  bool number(double value) {
    if (depth_ == 1 && top_ == "baseTimeNanoseconds") trace.base_nanoseconds = value;
    if (!events_) return true;
    const std::int64_t whole =
        value > -1 && value < 9e18 ? static_cast<std::int64_t>(value) : std::int64_t{-1};
    if (depth_ == 3) {
      if (key_ == "ts") event_.start = value;
      if (key_ == "dur") event_.duration = value;
      if (key_ == "tid") event_.thread = whole;
    } else if (depth_ == 4) {
      if (key_ == "External id" || key_ == "external id") event_.external = whole;
      if (key_ == "correlation") event_.correlation = whole;
      if (key_ == "Sequence number") event_.sequence = whole;
    } else if (depth_ == 6 && is_shapes(key_) && !event_.shapes.empty()) {
      event_.shapes.back().push_back(whole);
    }
    return true;
  }

  // Stores the event if it is complete and its category is needed.
  void finish_event() {
    const auto kind = kind_of(category_);
    if (phase_ != "X" || !kind || !(event_.duration >= 0)) return;
    event_.kind = *kind;
    trace.events.push_back(std::move(event_));
  }

  // Newlines are counted up to `counted_`.
  const char* counted_;
  const char* const& reached_;
  int depth_ = 0, line_ = 1;
  // Inside the list "traceEvents".
  bool events_ = false;
  // Last key at depth 1, last key at depth 3 or 4, and `ph` and `cat` of the event.
  std::string top_, key_, phase_, category_;
  std::map<std::string, std::size_t> threads_;
  TraceEvent event_;
};

}  // namespace

ConfigError json_error(const std::string& file, const std::string& text, std::size_t byte) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  const int line = 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
  const auto newline = std::find(std::make_reverse_iterator(end), text.rend(), '\n');
  const int column = std::max(1, static_cast<int>(end - newline.base()));
  const bool cut = byte >= text.size();
  return ConfigError(Diagnostic{{file, line, column},
                                "",
                                cut ? "the JSON text breaks off here" : "no JSON from here on",
                                cut ? "was the file written to the end?" : ""});
}

Trace read_trace(const std::string& path) {
  const std::string text = unpacked_text(path);
  const char* reached = text.data();
  Handler handler(text.data(), reached);
  nlohmann::json::sax_parse(Cursor{text.data(), &reached},
                            Cursor{text.data() + text.size(), &reached}, &handler);
  if (handler.error_byte > 0) throw json_error(path, text, handler.error_byte);
  if (!handler.has_events)
    throw file_error(path, "traceEvents", "missing: this is no PyTorch profiler trace",
                     "write it with prof.export_chrome_trace(...)");
  handler.trace.file = path;
  std::stable_sort(handler.trace.events.begin(), handler.trace.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) {
                     return a.start != b.start ? a.start < b.start : a.duration > b.duration;
                   });
  return std::move(handler.trace);
}

}  // namespace lockstep
