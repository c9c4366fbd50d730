#include "core/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/errors.hpp"

namespace lockstep {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw OutputError(fmt::format("cannot write the answer: {}", std::strerror(errno)));
  }
}

namespace {

[[noreturn]] void cannot_write(const std::string& path, int cause) {
  throw OutputError(fmt::format("cannot write {}: {}", path, std::strerror(cause)));
}

}  // namespace

void write_whole(const std::string& path,
                 const std::function<void(const std::string& draft)>& fill) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status before = fs::status(path, error);
  if (fs::exists(before) && !fs::is_regular_file(before)) return fill(path);
  // A link goes on pointing at what it points at.
  const std::string file = fs::is_symlink(path, error) ? fs::weakly_canonical(path).string() : path;
  const std::string draft = fmt::format("{}.{}.new", file, ::getpid());
  try {
    fill(draft);
    if (fs::exists(before)) fs::permissions(draft, before.permissions(), error);
    if (std::rename(draft.c_str(), file.c_str()) != 0) cannot_write(path, errno);
  } catch (...) {
    fs::remove(draft, error);
    throw;
  }
}

void write_text(const std::string& path, const std::string& text) {
  write_whole(path, [&](const std::string& draft) {
    std::FILE* file = std::fopen(draft.c_str(), "wbe");
    if (file == nullptr) cannot_write(path, errno);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const int cause = errno;
    if (std::fclose(file) != 0 && written) cannot_write(path, errno);
    if (!written) cannot_write(path, cause);
  });
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
