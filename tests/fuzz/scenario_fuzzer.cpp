// Reads any text as a scenario, expands it to points (with models and costs) and writes it back. No
// exception but ConfigError may come out, and a text that was read must be written such that it
// reads back to the same text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "points/points.hpp"
#include "scenario/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Scenario scenario = read_scenario_text(text, "scenario.yaml");
    const std::string written = write_scenario(scenario);
    if (write_scenario(read_scenario_text(written, "scenario.yaml")) != written) std::abort();
    expand(scenario);
  } catch (const ConfigError&) {
  }
  return 0;
}
