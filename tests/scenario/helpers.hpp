// Builders of scenarios. Used by the tests of scenarios, points, timelines and questions.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "core/statistics.hpp"
#include "points/points.hpp"
#include "points/predict.hpp"
#include "scenario/scenario.hpp"

namespace lockstep {

// A scenario with a ResNet-18 on one node of 8 A100 and few steps. `more` adds or replaces fields:
// gpus, strategies, and the fields that a test is about.
inline std::string scenario_text(const std::string& more) {
  std::string text = "name: test\n";
  const auto give = [&](const std::string& field, const std::string& value) {
    if (("\n" + more).find("\n" + field + ":") == std::string::npos) {
      text += field + ": " + value + "\n";
    }
  };
  give("model", "resnet18");
  give("platform", "dgx-a100-80gb");
  give("batch", "{per_gpu: 16}");
  give("simulation", "{steps: 8}");
  give("strategies", "[ddp]");
  return text + more;
}

inline Scenario scenario_of(const std::string& more) {
  return read_scenario_text(scenario_text(more), "test.yaml");
}

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

inline double sum(const StepSplit& s) {
  return s.data_loading + s.forward + s.backward + s.optimizer + s.copies +
         s.exposed_communication + s.host_bound + s.waiting + s.bubble;
}

}  // namespace lockstep
