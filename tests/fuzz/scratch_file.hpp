// A file that holds one input of the fuzzer. Use it for readers that only take paths.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep {

class ScratchFile {
 public:
  ScratchFile()
      : folder_(std::filesystem::temp_directory_path() /
                ("lockstep-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ScratchFile() { std::filesystem::remove_all(folder_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // The path of a file that holds `data`.
  std::string with(const std::uint8_t* data, std::size_t size) {
    std::ofstream file(folder_ / "input.yaml", std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return (folder_ / "input.yaml").string();
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace lockstep
