// Reads any text as a model file and builds the step of one micro-batch. No exception but
// ConfigError may come out.
#include "scratch_file.hpp"
#include "workload/model.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  static ScratchFile scratch;
  try {
    const auto model = load_model(scratch.with(data, size));
    summarise(*model);
    StepOptions options;
    options.samples = 4;
    options.precision = Precision::amp_fp16;
    options.activation_checkpointing = true;
    build_step(*model, options);
  } catch (const ConfigError&) {
  }
  return 0;
}
