// Output of every program: the answer on stdout, messages on stderr, written files, and the exit
// code. Programs must write through these functions, because the functions detect failed writes;
// see docs/command-line.md for the exit codes.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

// Ends a program with an exit code of its own, for a reason that is neither a fault of the program
// (exit code 1) nor wrong input (exit code 2).
class ExitError : public std::runtime_error {
 public:
  ExitError(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Exit code if an answer or a file cannot be written, for example because of a full disk, a reader
// that has ended, or a missing permission.
constexpr int exit_not_written = 74;  // EX_IOERR of sysexits.h
// Thrown if an answer or a file cannot be written.
class OutputError : public ExitError {
 public:
  explicit OutputError(const std::string& what) : ExitError(exit_not_written, what) {}
};

// Writes all of `text` to stdout and flushes it. Throws OutputError if any part cannot be written.
void print(const std::string& text);

// Writes to stderr. If stderr cannot be written, the text is lost; the answer and the exit code do
// not change.
void print_error_text(const std::string& text);
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print_error_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// Replaces a file atomically. `fill` writes a draft beside the file, and the draft is then renamed
// to the file. If `fill` throws, the draft is removed and the file is unchanged. Some targets
// cannot be replaced by a new file and are written in place, so that a failure may leave a part: a
// device, a pipe, the program's own output, a file of another user, a file with several names, a
// mount point, a symbolic link to no file, or a file in a folder without write permission. `fill`
// may therefore be called with `path` itself, and also a second time after it wrote a draft. Throws
// OutputError if the file cannot be written.
void write_whole(const std::string& path,
                 const std::function<void(const std::string& draft)>& fill);

// Writes `text` as the whole file by write_whole(). Throws OutputError.
void write_text(const std::string& path, const std::string& text);

// Calls `work` for a program called `name` and returns the exit code: the result of `work`, or 2
// after a ConfigError, the code of an ExitError, and 1 after any other exception. The message of an
// exception is written to stderr.
int exit_code_of(const char* name, const std::function<int()>& work);

// Must be called first in main(): makes sure that descriptors 0 to 2 are in use. If stdin was
// closed, reading it finds the end of the file; if stdout was closed, writing to it fails.
void occupy_standard_streams();

}  // namespace lockstep
