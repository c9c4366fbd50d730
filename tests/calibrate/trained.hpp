// One `lockstep train`, from the command line to its JSON. Use it in tests of whole runs.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "calibrate/command.hpp"

namespace lockstep {

inline nlohmann::json trained(const std::string& options, const std::string& model = "lenet5") {
  Command command("train --json --warm-up 1 --model " + model + " " + options);
  EXPECT_EQ(command.wait(), 0) << command.err();
  EXPECT_FALSE(command.run_folder_left());
  const auto record = nlohmann::json::parse(command.out(), nullptr, false);
  return record.is_discarded() ? nlohmann::json::object() : record;
}

inline nlohmann::json run_of(const nlohmann::json& record) {
  return record.value("runs", nlohmann::json::array({nlohmann::json::object()})).at(0);
}

}  // namespace lockstep
