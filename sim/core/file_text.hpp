// Reads files that a user names. Some never end: what is larger than files of its kind are is refused.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace lockstep {

// Bytes that a file may have at most, by what it holds (docs/command-line.md).
inline constexpr std::size_t most_of_a_description = std::size_t{4} << 20;  // YAML, config.json
inline constexpr std::size_t most_of_a_table = std::size_t{256} << 20;  // lines of numbers or jobs
inline constexpr std::size_t most_of_a_recording = std::size_t{2} << 30;  // traces, unpacked

// The file, open. Throws ConfigError: a folder, a device, or unreadable.
std::ifstream opened_file(const std::string& path);

// The whole text. `-` is standard input, which is read once and says the same whenever it is asked
// again. Throws ConfigError, also where there are more than `most` bytes.
std::string file_text(const std::string& path, std::size_t most);

// `text` is what file_text says of `path` from now on, as if a file of that name held it.
void keep_text(const std::string& path, std::string text);

// Refuses a text of this file that has more bytes. Throws ConfigError.
[[noreturn]] void refuse_too_large(const std::string& path, std::size_t most);

}  // namespace lockstep
