// Writing to the user.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/commands.hpp"

namespace lockstep {

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

bool print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)), terminal_(::isatty(STDERR_FILENO) == 1), started_(wall_seconds()) {}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::update(std::size_t done, std::size_t all) {
  if (!terminal_) return;
  const double elapsed = wall_seconds() - started_;
  if (elapsed < 0.5 || done == 0) return;
  const double left = elapsed / static_cast<double>(done) * static_cast<double>(all - done);
  fmt::print(stderr, "\r\033[K{} {}/{}, about {:.0f} s left", what_, done, all, left);
  std::fflush(stderr);
  shown_ = true;
}

RunOptions ProgressLine::run_options(int workers) {
  return {workers, [this](std::size_t done, std::size_t all) { update(done, all); }};
}

}  // namespace lockstep
