// Runs a simulation in a forked child process and returns its numbers. Use it for SimGrid, because
// a process can hold only one SimGrid World.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep {

// The numbers that `simulate` returns. Throws std::runtime_error with the child's message if
// `simulate` threw.
template <class Simulate>
std::vector<double> in_child(Simulate&& simulate) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    close(ends[0]);
    FILE* out = fdopen(ends[1], "w");
    int status = 0;
    try {
      const std::vector<double> numbers = simulate();
      if (!numbers.empty()) std::fwrite(numbers.data(), sizeof(double), numbers.size(), out);
    } catch (const std::exception& error) {
      std::fputs(error.what(), out);
      status = 7;
    }
    std::fclose(out);
    std::fflush(nullptr);
    _exit(status);
  }
  close(ends[1]);
  std::string bytes;
  char buffer[65536];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status)) throw std::runtime_error("the child was killed by a signal");
  if (WEXITSTATUS(status) == 7) throw std::runtime_error(bytes);
  if (WEXITSTATUS(status) != 0) throw std::runtime_error("the child failed");
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::copy(bytes.begin(), bytes.begin() + static_cast<long>(numbers.size() * sizeof(double)),
            reinterpret_cast<char*>(numbers.data()));
  return numbers;
}

}  // namespace lockstep
