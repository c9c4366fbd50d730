// Writes answers and files either completely or not at all, and turns exceptions into exit codes. A
// file is replaced by rename(2) of a draft in the same folder, which is atomic on POSIX systems:
// another program sees either the old or the new file, never a part.
#include "core/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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

void print_error_text(const std::string& text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

namespace {

[[noreturn]] void cannot_write(const std::string& path, int cause) {
  throw OutputError(fmt::format("cannot write {}: {}", path, std::strerror(cause)));
}

// Whether stdout or stderr of this program leads to `file`, as in `lockstep run --csv out.csv >
// out.csv`.
bool is_an_output(const struct stat& file) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (::fstat(fd, &own) == 0 && own.st_dev == file.st_dev && own.st_ino == file.st_ino)
      return true;
  }
  return false;
}

// Whether a new file may take the place of `file` without harm to any of its users. It must be a
// regular file of this user with one name, and the program's output must not lead to it.
bool can_be_replaced(const struct stat& file) {
  return S_ISREG(file.st_mode) && file.st_nlink == 1 && file.st_uid == ::geteuid() &&
         !is_an_output(file);
}

// Creates an empty file beside `path`. If `before` is given, the draft gets its owner and
// permissions. Returns the draft's path, or "" if no such file can be made.
std::string make_draft(const std::string& path, const struct stat* before) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path();
  const mode_t mode = before != nullptr ? before->st_mode & 07777 : 0666;
  std::string draft;
  int fd = -1;
  for (int n = 0; fd < 0 && (n == 0 || errno == EEXIST); ++n) {
    draft = (beside / fmt::format(".lockstep-{}-{}.new", ::getpid(), n)).string();
    fd = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  }
  if (fd < 0) return "";
  const bool as_before = before == nullptr || (::fchown(fd, before->st_uid, before->st_gid) == 0 &&
                                               ::fchmod(fd, mode) == 0);
  ::close(fd);
  if (as_before) return draft;
  (void)::unlink(draft.c_str());
  return "";
}

}  // namespace

void write_whole(const std::string& path,
                 const std::function<void(const std::string& draft)>& fill) {
  // If `path` is a symbolic link, the file to which it leads is replaced, not the link. A link to a
  // file that does not exist is written in place.
  std::error_code error;
  const bool is_link = std::filesystem::is_symlink(path, error);
  const std::string file = is_link ? std::filesystem::canonical(path, error).string() : path;
  struct stat before {};
  const bool exists = !file.empty() && ::stat(file.c_str(), &before) == 0;
  if (exists && ::access(file.c_str(), W_OK) != 0) cannot_write(path, errno);
  if (exists ? !can_be_replaced(before) : is_link) return fill(path);
  const std::string draft = make_draft(file, exists ? &before : nullptr);
  // If there is no space for a draft, there is also none for the file.
  if (draft.empty() && (errno == ENOSPC || errno == EDQUOT)) cannot_write(path, errno);
  if (draft.empty()) return fill(path);
  try {
    fill(draft);
    // EBUSY: the file is a mount point of its own, as single files in containers may be.
    if (std::rename(draft.c_str(), file.c_str()) == 0) return;
    if (errno != EBUSY) cannot_write(path, errno);
    fill(path);
  } catch (...) {
    (void)::unlink(draft.c_str());
    throw;
  }
  (void)::unlink(draft.c_str());
}

void write_text(const std::string& path, const std::string& text) {
  write_whole(path, [&](const std::string& draft) {
    std::FILE* file = std::fopen(draft.c_str(), "wbe");
    if (file == nullptr) cannot_write(path, errno);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    // A full disk may be noticed only by fclose(), and fclose() may change errno.
    const int cause = errno;
    if (std::fclose(file) != 0 && written) cannot_write(path, errno);
    if (!written) cannot_write(path, cause);
  });
}

int exit_code_of(const char* name, const std::function<int()>& work) {
  try {
    return work();
  } catch (const ConfigError& error) {
    print_error("{}\n", error.what());
    return 2;
  } catch (const ExitError& error) {
    print_error("{}: {}\n", name, error.what());
    return error.code();
  } catch (const std::exception& error) {
    print_error("{}: {}\n", name, error.what());
    return 1;
  }
}

// If a standard descriptor were closed, the next pipe or file that is opened would get its number,
// and output would be written there.
void occupy_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // Deliberately opened for the wrong direction: writing to a stdout that was closed must fail.
    (void)::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
}

}  // namespace lockstep
