// Reads any text as a device file and prices a small model on the device. No exception but
// ConfigError may come out.
#include "costs/roofline_costs.hpp"
#include "hardware/device.hpp"
#include "hardware/machine.hpp"
#include "scratch_file.hpp"
#include "workload/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static ScratchFile scratch;
  static const TrainingStep step = build_step(*load_model("lenet5"), {});
  try {
    Machine machine = load_machine("a100-sxm4-80gb-x1");
    machine.device = load_device(scratch.with(data, size));
    const RooflineCosts costs(machine, {});
    for (std::size_t i = 0; i < step.layers.size(); ++i) costs.layer(step, i);
  } catch (const ConfigError&) {
  }
  return 0;
}
