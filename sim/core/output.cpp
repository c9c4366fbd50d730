#include "core/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/errors.hpp"

namespace lockstep {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw OutputError(fmt::format("cannot write the answer: {}", std::strerror(errno)));
  }
}

int exit_code_of(const char* name, const std::function<int()>& work) {
  try {
    return work();
  } catch (const ConfigError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const ExitError& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return error.code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
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

}  // namespace lockstep
