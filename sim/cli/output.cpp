// Printing and writing the answers of verbs, and progress for the user. Only colours and the width
// of tables depend on the terminal, so answers in files and pipes are equal on every machine.
#include "core/output.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/commands.hpp"
#include "core/errors.hpp"
#include "results/cells.hpp"

namespace lockstep {

namespace {

// Seconds of a clock that never jumps.
double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Puts a terminal colour around every occurrence of `words`, which must not contain a place where a
// line can break.
void paint(std::string& text, const std::string& words, const char* colour) {
  const std::string marked = fmt::format("\033[{}m{}\033[0m", colour, words);
  for (std::size_t at = text.find(words); at != std::string::npos;
       at = text.find(words, at + marked.size())) {
    text.replace(at, words.size(), marked);
  }
}

// Colours the answer: red for points that do not fit, yellow for points that barely fit.
std::string painted(std::string text) {
  for (const char* misfit : {"does not fit", "NO, ", "  NO\n", "othing fits into memory"}) {
    paint(text, misfit, "31");
  }
  paint(text, "yes, barely", "33");
  return text;
}

// Whether stdout is a terminal that shows colours and the user allows them (no-colour.org).
bool has_colours() {
  const auto says = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr ? std::string() : std::string(value);
  };
  return ::isatty(STDOUT_FILENO) == 1 && says("NO_COLOR").empty() && says("TERM") != "dumb";
}

}  // namespace

void print_text(const std::string& text) {
  print(has_colours() ? painted(text) : text);
}

void note(const std::string& text) {
  if (!quiet()) print_error("{}\n", text);
}

bool& quiet() {
  static bool is_quiet = false;
  return is_quiet;
}

std::string rendered(const Table& table, Format format, std::size_t keys) {
  if (format == Format::csv) return table.csv();
  if (format == Format::markdown) return table.markdown();
  struct winsize screen {};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &screen) == 0 && screen.ws_col > 0;
  return known ? table.folded(screen.ws_col, keys) : table.text();
}

void write_answer(const std::string& path, const std::string& text) {
  if (path == "-") return print(text);
  write_text(path, text);
  note("wrote " + path);
}

void keep_inputs(const std::vector<std::string>& inputs, const char* option,
                 const std::string& output) {
  std::error_code error;
  for (const std::string& file : inputs) {
    if (std::filesystem::equivalent(file, output, error)) {
      throw file_error(output, option, "is one of the scenarios to read", "give another name");
    }
  }
}

bool something_fits(const std::vector<Prediction>& predictions) {
  return std::any_of(predictions.begin(), predictions.end(),
                     [](const Prediction& p) { return !p.out_of_memory.has_value(); });
}

void tell_warnings(const ResultRecord& record) {
  for (const auto& warning : record.warnings) note("note: " + warning);
}

int tell_failures(const std::vector<Failure>& failures) {
  for (const Failure& failure : failures) {
    print_error("lockstep: {}: {}\n", point_text(failure.strategy, failure.gpus), failure.reason);
  }
  return failures.empty() ? 0 : 1;
}

ProgressLine::ProgressLine(std::string activity)
    : what_(std::move(activity)),
      terminal_(::isatty(STDERR_FILENO) == 1 && !quiet()),
      started_(wall_seconds()) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::clear() {
  if (shown_ > 0) print_error("\r\033[K");
  shown_ = 0;
}

void ProgressLine::restart() {
  started_ = wall_seconds();
  next_ = 10;
}

// On a terminal, a line is due after half a second and then at most five times a second.
double ProgressLine::due() const {
  const double now = wall_seconds(), elapsed = now - started_;
  if (terminal_) return elapsed >= 0.5 && now - shown_ >= 0.2 ? elapsed : 0;
  return elapsed >= next_ && !quiet() ? elapsed : 0;
}

void ProgressLine::show(const std::string& text) {
  if (!terminal_) {
    note(text);
    next_ = 2 * (wall_seconds() - started_);
    return;
  }
  print_error("\r\033[K{}", text);
  std::fflush(stderr);
  shown_ = wall_seconds();
}

// Computes the remaining time from the mean rate so far, without the items of an earlier run.
void ProgressLine::update_rate(std::size_t done, std::size_t all, std::size_t before) {
  const double elapsed = due();
  if (elapsed <= 0) return;
  std::string text = fmt::format("{} {}/{}", what_, done, all);
  if (done > before) {
    const double rate = static_cast<double>(done - before) / elapsed;
    text += fmt::format(", {} points/s, about {:.0f} s left", rate_text(rate),
                        static_cast<double>(all - done) / rate);
  }
  show(text);
}

void ProgressLine::update(const RunProgress& progress) {
  const double elapsed = due();
  if (elapsed <= 0) return;
  std::string text = fmt::format("{} {}/{}", what_, progress.done, progress.all);
  if (progress.done < progress.all && !progress.point.empty()) {
    text += fmt::format(", {:.40}: {:.0f} %", progress.point, 100 * progress.fraction);
  }
  // The estimate assumes that all points take equally long and are simulated one after the other.
  const double done = static_cast<double>(progress.done) + progress.fraction;
  const double all = static_cast<double>(progress.all);
  text += done > 0 ? fmt::format(", about {:.0f} s left", elapsed / done * (all - done))
                   : fmt::format(", {:.0f} s so far", elapsed);
  show(text);
}

RunOptions ProgressLine::run_options(int workers) {
  return {workers, [this](const RunProgress& progress) { update(progress); }};
}

}  // namespace lockstep
