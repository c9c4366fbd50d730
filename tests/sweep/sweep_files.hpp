// Files and settings of sweeps. Used by the tests of this room.
#pragma once

#include <string>

#include "test_folder.hpp"

namespace lockstep {

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

// The message of the ConfigError that `action` throws; "" when it throws none.
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
