// Files of the tests of this room, in a folder of this process that goes with it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep {

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("lockstep-sweep-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream stream(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  bool has(const std::string& name) const { return std::filesystem::exists(file(name)); }

 private:
  std::filesystem::path path_;
};

inline const char* small_scenario =
    "name: small\n"
    "model: resnet18\n"
    "platform: dgx-a100-80gb\n"
    "batch: {per_gpu: 16}\n"
    "simulation: {steps: 8}\n"
    "gpus: [1, 2]\n"
    "strategies:\n"
    "  - ddp\n"
    "  - fsdp: {version: 2}\n"
    "    label: sharded\n";

// what() of the ConfigError that `action` throws; "" when it throws none.
template <class Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep
