// Reads files that a user names. Use it for every input file: it refuses files that are larger than
// files of their kind, because some never end.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace lockstep {

// Largest allowed file in bytes, by kind of content (docs/command-line.md).
inline constexpr std::size_t most_of_a_description = std::size_t{4} << 20;  // YAML, config.json
inline constexpr std::size_t most_of_a_table = std::size_t{256} << 20;  // lines of numbers or jobs
inline constexpr std::size_t most_of_a_recording = std::size_t{2} << 30;  // traces, unpacked

// The file, open. Throws ConfigError: a folder, a device, or unreadable.
std::ifstream opened_file(const std::string& path);

// The whole text. `-` is standard input, which is read once; later calls return the same text.
// Throws ConfigError, also if the file has more than `most` bytes.
std::string file_text(const std::string& path, std::size_t most);

// file_text(path) returns `text` from this call on, as if a file of that name held it.
void keep_text(const std::string& path, std::string text);

// Throws ConfigError: the text of this file has more than `most` bytes. Throws ConfigError.
[[noreturn]] void refuse_too_large(const std::string& path, std::size_t most);

}  // namespace lockstep
