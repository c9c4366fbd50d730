// What every program writes: its answer to stdout, and files; and with which exit code it ends.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

// What ends a program with an exit code of its own: neither a fault of the program nor wrong input.
class ExitError : public std::runtime_error {
 public:
  ExitError(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// An answer or a file that cannot be written: a full disk, a reader that has gone, no permission.
constexpr int exit_not_written = 74;  // EX_IOERR of sysexits.h
class OutputError : public ExitError {
 public:
  explicit OutputError(const std::string& what) : ExitError(exit_not_written, what) {}
};

// Writes all of `text` to stdout. Throws OutputError when it does not get there.
void print(const std::string& text);

// Writes to stderr. A stderr that cannot be written loses the text and changes nothing else: not the
// answer, not the exit code.
void print_error_text(const std::string& text);
template <class... Arguments>
void print_error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print_error_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}

// A file that is whole, or what it was before: `fill` writes a draft beside it, which then takes its
// place, and is gone when `fill` throws. What no other file can stand for is filled itself: devices and
// pipes, the program's own output, somebody else's file, one with several names or in a folder that is
// closed to us. Throws OutputError when it cannot be written.
void write_whole(const std::string& path,
                 const std::function<void(const std::string& draft)>& fill);

// `text` as the whole file, likewise. Throws OutputError.
void write_text(const std::string& path, const std::string& text);

// The exit code of a program called `name` that does `work`: what `work` returns, 2 on ConfigError,
// that of an ExitError, 1 on any other exception; what was thrown is on stderr.
int exit_code_of(const char* name, const std::function<int()>& work);

// Called first in main(): makes sure that descriptors 0 to 2 are in use.
void occupy_standard_streams();

}  // namespace lockstep
