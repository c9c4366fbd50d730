// Reads any text as a platform file and prices a small model on the platform. No exception but
// ConfigError may come out.
#include "points/points.hpp"
#include "scenario/scenario.hpp"
#include "scratch_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static ScratchFile scratch;
  try {
    Scenario scenario = read_scenario_text(
        "{name: any, model: lenet5, batch: {micro: 4}, platform: any, gpus: [1], "
        "strategies: [ddp]}",
        "scenario.yaml");
    scenario.platform = scratch.with(data, size);
    expand(scenario);
  } catch (const ConfigError&) {
  }
  return 0;
}
