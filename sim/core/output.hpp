// What every program writes: its answer to stdout, and files; and how it ends when that fails.
#pragma once

#include <stdexcept>
#include <string>

namespace lockstep {

// An answer or a file that cannot be written: a full disk, a reader that has gone, no permission.
// Neither a fault of the program nor wrong input.
class OutputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
constexpr int exit_not_written = 74;  // EX_IOERR of sysexits.h

// After a library has printed to std::cout: 0, or exit_not_written (and why, on stderr).
int end_of_output();

// Writes all of `text` to stdout. Throws OutputError when it does not get there.
void print(const std::string& text);

// Called first in main(): makes sure that descriptors 0 to 2 are in use.
void occupy_standard_streams();

}  // namespace lockstep
