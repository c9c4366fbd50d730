// The program lockstep-fit-efficiency makes the `efficiency:` block of a device file from results
// of lockstep-calibrate-cuda (docs/device-models.md). It needs no GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/errors.hpp"
#include "core/output.hpp"
#include "cuda/efficiency_fit.hpp"
#include "workload/model_error.hpp"

namespace {

using namespace lockstep;

Device device_of(const cuda::Measurements& measurements, const std::string& path,
                 const std::string& other) {
  if (!other.empty()) return load_device(other);
  const std::vector<std::string> known = known_devices();
  if (std::find(known.begin(), known.end(), measurements.device) == known.end())
    throw file_error(path, "device", in_quotes(measurements.device) + " is no known device",
                     "name the device file with --as; " + allowed_hint(measurements.device, known));
  return load_device(measurements.device);
}

int run(const std::string& path, const std::string& other) {
  const cuda::Measurements measurements = cuda::load_measurements(path);
  const Device device = device_of(measurements, path, other);
  try {
    const cuda::EfficiencyFit fitted = cuda::fit_efficiency(measurements, device);
    print_error("{} as {}, with the peaks and the L2 cache of that device file\n{}", path,
                device.name, cuda::fit_report(fitted));
    const std::string text = cuda::efficiency_text(fitted);
    if (text.empty())
      throw file_error(path, "", "holds nothing that an efficiency can be fitted to");
    fmt::print("{}", text);
    return 0;
  } catch (const ModelError& error) {
    throw file_error(path, "convolution", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Fits the efficiencies of a device file to measurements of lockstep-calibrate-cuda"};
  std::string path, device;
  app.add_option("FILE", path, "efficiency.yaml")->required();
  app.add_option("--as", device, "Device file with the peaks (default: the one that FILE names)");
  try {
    app.parse(argc, argv);
    return run(path, device);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const ConfigError& error) {
    print_error("{}\n", error.what());
    return 2;
  }
}
