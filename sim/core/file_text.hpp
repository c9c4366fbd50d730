// Reads files that a user names. Every input file must be read through these functions. file_text()
// refuses a file that is larger than files of its kind ever are, because some files never end (for
// example a pipe). A reader that takes opened_file() must check the size while it reads.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace lockstep {

// Largest allowed size of a file in bytes, by kind of content (docs/command-line.md).
inline constexpr std::size_t most_of_a_description = std::size_t{4} << 20;  // YAML, config.json
inline constexpr std::size_t most_of_a_table = std::size_t{256} << 20;  // lines of numbers or jobs
inline constexpr std::size_t most_of_a_recording = std::size_t{2} << 30;  // traces, unpacked

// Opens a file for reading. Throws ConfigError if `path` is a folder or a device, or cannot be
// read.
std::ifstream opened_file(const std::string& path);

// The whole text of a file. `-` is standard input, which is read once; later calls return the same
// text. Throws ConfigError if the file cannot be read or has more than `most` bytes.
std::string file_text(const std::string& path, std::size_t most);

// From this call on, file_text(path) returns `text`, as if a file of that name contained it. This
// serves a scenario that is imported from a training config: such a scenario has a name for
// messages, but no file.
void keep_text(const std::string& path, std::string text);

// Throws ConfigError, which says that the file has more than `most` bytes.
[[noreturn]] void refuse_too_large(const std::string& path, std::size_t most);

}  // namespace lockstep
