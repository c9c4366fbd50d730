// Writing to the user.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "cli/commands.hpp"
#include "results/cells.hpp"

namespace lockstep {

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw OutputError(fmt::format("cannot write the answer: {}", std::strerror(errno)));
  }
}

// A descriptor that is closed would be taken by the next pipe, and output would land there.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong way round on purpose: writing to a stdout that was closed must fail.
    (void)::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
}

bool something_fits(const std::vector<Prediction>& predictions) {
  return std::any_of(predictions.begin(), predictions.end(),
                     [](const Prediction& p) { return !p.out_of_memory.has_value(); });
}

void tell_warnings(const ResultRecord& record) {
  for (const auto& warning : record.warnings) fmt::print(stderr, "note: {}\n", warning);
}

int tell_failures(const std::vector<Failure>& failures) {
  for (const Failure& failure : failures) {
    fmt::print(stderr, "lockstep: {}: {}\n", point_text(failure.strategy, failure.gpus),
               failure.reason);
  }
  return failures.empty() ? 0 : 1;
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1), started_(wall_seconds()) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::update(const RunProgress& progress) {
  if (!terminal_) return;
  const double elapsed = wall_seconds() - started_;
  if (elapsed < 0.5) return;
  std::string text = fmt::format("{} {}/{}", what_, progress.done, progress.all);
  if (progress.done < progress.all && !progress.point.empty()) {
    text += fmt::format(", {:.40}: {:.0f} %", progress.point, 100 * progress.fraction);
  }
  // As if all points were alike, and one of them went on at a time.
  const double done = static_cast<double>(progress.done) + progress.fraction;
  const double all = static_cast<double>(progress.all);
  text += done > 0 ? fmt::format(", about {:.0f} s left", elapsed / done * (all - done))
                   : fmt::format(", {:.0f} s so far", elapsed);
  fmt::print(stderr, "\r\033[K{}", text);
  std::fflush(stderr);
  shown_ = true;
}

RunOptions ProgressLine::run_options(int workers) {
  return {workers, [this](const RunProgress& progress) { update(progress); }};
}

}  // namespace lockstep
