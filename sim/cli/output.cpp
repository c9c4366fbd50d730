// Writing to the user.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "cli/commands.hpp"

namespace lockstep {

namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error(fmt::format("cannot write the answer: {}", std::strerror(errno)));
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
