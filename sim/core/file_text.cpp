// Opens and reads input files, and refuses files that are too large, folders and devices. The size
// is checked while a file is read, because the size of pipes and /proc files is not known before.
#include "core/file_text.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>

#include "core/errors.hpp"

namespace lockstep {

std::ifstream opened_file(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    throw file_error(path, "", "is a folder, not a file");
  }
  if (std::filesystem::is_character_file(status) || std::filesystem::is_block_file(status)) {
    throw file_error(path, "", "is a device, not a file");
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw file_error(path, "", fmt::format("cannot be read: {}", std::strerror(errno)));
  return file;
}

void refuse_too_large(const std::string& path, std::size_t most) {
  throw file_error(path, "", fmt::format("larger than {} MiB", most >> 20),
                   "docs/command-line.md says how large files may be");
}

namespace {

// Reads a stream in pieces of 256 KiB until its end or until `most` bytes are exceeded.
std::string text_of(std::istream& file, const std::string& path, std::size_t most) {
  std::string text;
  while (file) {
    constexpr std::size_t some = std::size_t{1} << 18;
    const std::size_t had = text.size();
    text.resize(had + some);
    file.read(text.data() + had, some);
    text.resize(had + static_cast<std::size_t>(file.gcount()));
    if (text.size() > most) refuse_too_large(path, most);
  }
  return text;
}

// Texts that keep_text() has put in the place of files, by path.
std::map<std::string, std::string>& kept_texts() {
  static std::map<std::string, std::string> texts;
  return texts;
}

}  // namespace

void keep_text(const std::string& path, std::string text) {
  kept_texts()[path] = std::move(text);
}

std::string file_text(const std::string& path, std::size_t most) {
  if (path == "-") {
    static const std::string input = text_of(std::cin, path, most);
    return input;
  }
  if (const auto kept = kept_texts().find(path); kept != kept_texts().end()) return kept->second;
  std::ifstream file = opened_file(path);
  return text_of(file, path, most);
}

}  // namespace lockstep
