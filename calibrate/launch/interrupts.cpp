// Implements InterruptGuard with a signal handler that sets a flag and writes to a pipe, since a
// handler may do little else. poll() on the pipe wakes a waiting parent.
#include "launch/interrupts.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace lockstep {

namespace {

constexpr std::array caught{SIGINT, SIGTERM, SIGHUP};
int guards = 0;
int self_pipe[2] = {-1, -1};
volatile sig_atomic_t flag = 0;
std::array<struct sigaction, caught.size()> before;

void on_signal(int) {
  const int error = errno;
  flag = 1;
  (void)!::write(self_pipe[1], "!", 1);
  errno = error;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  if (guards++ > 0) return;
  if (::pipe2(self_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    --guards;
    throw std::runtime_error(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  flag = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < caught.size(); ++i) ::sigaction(caught[i], &action, &before[i]);
}

InterruptGuard::~InterruptGuard() {
  if (--guards > 0) return;
  for (std::size_t i = 0; i < caught.size(); ++i) ::sigaction(caught[i], &before[i], nullptr);
  for (int& end : self_pipe) {
    ::close(end);
    end = -1;
  }
}

bool InterruptGuard::interrupted() {
  return guards > 0 && flag != 0;
}
void InterruptGuard::throw_if_interrupted() {
  if (interrupted()) throw InterruptError();
}
int InterruptGuard::descriptor() {
  return self_pipe[0];
}

}  // namespace lockstep
