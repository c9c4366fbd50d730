// Lists the unknowns of the fit with start, bounds and prior, and builds the models from their
// values. A prior is one sigma of log(value / start), so that an unknown stays at its start if no
// row depends on it.
#include "fit/device_models.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {
namespace {

Unknown of_law(const char* name, double KernelLaw::*member, double start, double lower,
               double upper, double prior, const char* only = "") {
  return {name,  start, lower,
          upper, prior, [member](Models& m, double value) { m.law.*member = value; },
          {},    only};
}

Unknown of_devices(std::string name, const std::vector<std::string>& devices,
                   double Efficiency::*member, double start, double lower, double upper,
                   double prior) {
  return {std::move(name),
          start,
          lower,
          upper,
          prior,
          [devices, member](Models& m, double value) {
            for (const std::string& device : devices) m.devices[device].*member = value;
          },
          devices,
          ""};
}

void add_law(std::vector<Unknown>& list) {
  using L = KernelLaw;
  const std::vector<Unknown> law{
      of_law("smoothing", &L::smoothing, 3, 1, 16, 0.5),
      of_law("tile_reuse", &L::tile_reuse, 9, 1, 60, 0.3),
      of_law("tile_fill_seconds", &L::tile_fill_seconds, 1e-6, 0.2e-6, 8e-6, 0.4),
      of_law("tile_fill_steps", &L::tile_fill_steps, 10, 1, 40, 0.5),
      of_law("grouped_fill_steps", &L::grouped_fill_steps, 30, 1, 300, 0.7),
      of_law("wave_tail", &L::wave_tail, 0.5, 0.1, 1, 0.3),
      of_law("stream_ramp_seconds", &L::stream_ramp_seconds, 1e-6, 1e-7, 5e-6, 0.5),
      of_law("cache_speedup", &L::cache_speedup, 2, 1.01, 6, 0.3),
      of_law("winograd", &L::winograd, 0.8, 0.3, 1.2, 0.3),
      of_law("winograd_unfused", &L::winograd_unfused, 0.8, 0.3, 1.2, 0.3),
      of_law("grouped_tile_reuse", &L::grouped_tile_reuse, 9, 1, 60, 0.3),
      of_law("weight_gradient_fp32", &L::weight_gradient_fp32, 0.7, 0.3, 1, 0.2, "steps"),
      of_law("weight_gradient", &L::weight_gradient, 0.8, 0.3, 1, 0.2, "steps"),
      of_law("attention_backward", &L::attention_backward, 0.85, 0.5, 1, 0.1, "steps"),
      of_law("flash_attention_1", &L::flash_attention_1, 0.55, 0.3, 1, 0.15, "steps"),
      of_law("vector_weight_gradient", &L::vector_weight_gradient, 0.4, 0.05, 1, 0.7, "steps"),
      of_law("vector_overhead_taps", &L::vector_overhead_taps, 8, 0.5, 80, 1.0, "steps"),
      of_law("depthwise_native", &L::depthwise_native, 1, 0.2, 3, 0.5, "steps"),
      of_law("grouped_fp32", &L::grouped_fp32, 0.8, 0.2, 1.2, 0.3, "steps"),
      of_law("grouped", &L::grouped, 0.9, 0.3, 1.5, 0.2, "steps"),
      of_law("normalization_traffic", &L::normalization_traffic, 1, 0.8, 2, 0.2, "steps"),
      of_law("elements_per_clock", &L::elements_per_clock, 8, 2, 40, 0.5, "steps"),
      of_law("copy_traffic", &L::copy_traffic, 1, 0.3, 3, 0.3, "steps")};
  list.insert(list.end(), law.begin(), law.end());
}

// Adds the times of hosts.
void add_hosts(std::vector<Unknown>& list) {
  list.push_back({"megatron operator seconds",
                  20e-6,
                  4e-6,
                  100e-6,
                  1.0,
                  [](Models& m, double value) { m.megatron_operator_seconds = value; },
                  {"a100-sxm4-80gb"},
                  "steps"});
  list.push_back({"megatron backward share",
                  0.5,
                  0.15,
                  1.0,
                  0.3,
                  [](Models& m, double value) { m.megatron_backward_share = value; },
                  {"a100-sxm4-80gb"},
                  "steps"});
  list.push_back({"operator seconds",
                  25e-6,
                  4e-6,
                  100e-6,
                  0.5,
                  [](Models& m, double value) { m.operator_seconds = value; },
                  {},
                  "steps"});
}

// Adds the unknowns that belong to single sources of measurements.
void add_hosts_of_sources(std::vector<Unknown>& list) {
  list.push_back({"operator seconds of torchvision-batch-12",
                  25e-6,
                  4e-6,
                  200e-6,
                  0.5,
                  [](Models& m, double value) { m.old_operator_seconds = value; },
                  {},
                  "steps"});
  for (const char* device : {"v100-pcie-32gb", "t4", "a100-pcie-80gb"})
    list.push_back({fmt::format("{} convolution gap", device),
                    2e-4,
                    1e-5,
                    5e-4,
                    0.7,
                    [device](Models& m, double value) { m.convolution_gap[device] = value; },
                    {device},
                    "kernels"});
  for (const char* device :
       {"v100-pcie-32gb", "t4", "l4", "a100-pcie-40gb", "a100-pcie-80gb", "h100-sxm5-80gb-cuda12"})
    list.push_back({fmt::format("{} launch gap", device),
                    5e-6,
                    1e-6,
                    3e-5,
                    0.5,
                    [device](Models& m, double value) { m.launch_gap[device] = value; },
                    {device},
                    "kernels"});
  for (const char* device : {"a100-sxm4-80gb", "h100-sxm5-80gb-cuda12"})
    list.push_back({fmt::format("{} product alone", device),
                    1.05,
                    0.9,
                    1.5,
                    0.2,
                    [device](Models& m, double value) { m.alone[device] = value; },
                    {device},
                    "kernels"});
}

}  // namespace

// Families of devices, with the start values of matrix products and attention. Products: fact 132
// for A100 (0.87 at best) and H100 (0.80), of which training reaches about 0.92. Attention: Dao
// 2023 ("FlashAttention-2"), 200 of 312 TFLOP/s on A100, 380 of 989 on H100. An RTX 3090 runs at
// about 1.9 GHz, while its data sheet's peaks assume 1.695; the limit of 150 W slows an A10 down.
const std::vector<Family>& families() {
  static const std::vector<Family> list{
      {"volta", 0.75, 0.45, false, {"v100-sxm2-32gb", "v100-sxm2-16gb", "v100-pcie-32gb"}, {}},
      {"turing", 0.80, 0.45, false, {"rtx-2080-ti"}, {}},
      {"t4", 0.40, 0.25, false, {"t4"}, {}},
      {"ampere-hbm",
       0.80,
       0.65,
       true,
       {"a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-80gb", "a100-pcie-40gb"},
       {}},
      {"rtx-3090", 0.95, 0.65, true, {"rtx-3090"}, {{"a10g", 1695.0 / 1950}}, 1950.0 / 1695},
      {"a10", 0.70, 0.50, false, {"a10"}, {{"l40s"}}},
      {"a40", 0.78, 0.50, false, {"a40"}, {}},
      {"l4", 0.45, 0.35, false, {"l4"}, {}},
      {"hopper",
       0.70,
       0.38,
       true,
       {"h100-pcie-80gb", "h100-sxm5-80gb-cuda12"},
       {{"h200-sxm"}, {"b200-sxm"}}}};
  return list;
}

std::vector<Unknown> unknowns() {
  std::vector<Unknown> list;
  add_law(list);
  // Depthwise work per multiprocessor and cycle, at the clock that each family sustains.
  const auto vector = [&](const char* name, std::vector<std::string> of) {
    std::vector<std::string> devices;
    for (const Family& family : families())
      if (std::find(of.begin(), of.end(), family.name) != of.end())
        devices.insert(devices.end(), family.devices.begin(), family.devices.end());
    list.push_back({name, 0.25, 0.02, 0.9, 0.5,
                    [of](Models& m, double value) {
                      for (const Family& family : families())
                        if (std::find(of.begin(), of.end(), family.name) != of.end())
                          for (const std::string& device : family.devices)
                            m.devices[device].vector = value * family.clock;
                    },
                    devices, "steps"});
  };
  vector("vector of Volta and Turing", {"volta", "turing", "t4"});
  vector("vector of GA100 and Hopper", {"ampere-hbm", "hopper"});
  vector("vector of GA102 and Ada", {"rtx-3090", "a10", "a40", "l4"});
  using E = Efficiency;
  for (const Family& f : families()) {
    const auto name = [&](const char* what) { return fmt::format("{}.{}", f.name, what); };
    // Training reaches less than the peak of matrix units because of power and software. For Hopper
    // this loss is the least certain, so its prior is wider.
    const double products = f.name == "hopper" ? 0.2 : 0.1;
    list.push_back(
        of_devices(name("matmul"), f.devices, &E::matmul, f.matmul, 0.2, 1.15, products));
    list.push_back(of_devices(name("convolution"), f.devices, &E::convolution, f.matmul * 0.95, 0.2,
                              1.15, 0.2));
    list.push_back(
        of_devices(name("attention"), f.devices, &E::attention, f.attention, 0.2, 0.85, 0.1));
  }
  for (const Family& f : families()) {
    if (f.name != "volta")
      list.push_back(of_devices(f.name + ".convolution_fp32", f.devices, &E::convolution_fp32, 0.65,
                                0.2, 1.15, 0.2));
    list.push_back(of_devices(f.name + ".memory", f.devices, &E::memory, 0.85, 0.6, 0.98, 0.05));
    if (f.name != "ampere-hbm")
      list.push_back(
          of_devices(f.name + ".matmul_fp32", f.devices, &E::matmul_fp32, 0.85, 0.3, 1.15, 0.15));
  }
  for (const Family& f : families())
    if (f.name == "ampere-hbm" || f.name == "a40" || f.name == "hopper")
      list.push_back(of_devices(f.name + ".kernel_floor", f.devices, &E::kernel_floor_seconds, 3e-6,
                                1e-6, 6e-6, 0.2));
  // The peak of a V100 PCIe card assumes 1380 MHz, which it sustains. The peak of an SXM2 module
  // assumes 1530 MHz, which it does not sustain under load.
  list.push_back(of_devices("v100-pcie-32gb.convolution_fp32", {"v100-pcie-32gb"},
                            &E::convolution_fp32, 0.75, 0.2, 1.15, 0.2));
  list.push_back(of_devices("v100-sxm2.convolution_fp32", {"v100-sxm2-32gb", "v100-sxm2-16gb"},
                            &E::convolution_fp32, 0.65, 0.2, 1.15, 0.2));
  // The limit of 250 W slows an A100 PCIe of 40 GB down in plain fp32.
  list.push_back(of_devices("a100-pcie-40gb.matmul_fp32", {"a100-pcie-40gb"}, &E::matmul_fp32, 0.85,
                            0.3, 1.15, 0.15));
  list.push_back(of_devices("other a100.matmul_fp32",
                            {"a100-sxm4-40gb", "a100-sxm4-80gb", "a100-pcie-80gb"}, &E::matmul_fp32,
                            0.9, 0.3, 1.15, 0.15));
  add_hosts(list);
  add_hosts_of_sources(list);
  return list;
}

std::vector<Unknown> circumstances() {
  std::vector<Unknown> list;
  add_hosts_of_sources(list);
  return list;
}

Models shipped() {
  Models models;
  for (const std::string& name : known_devices())
    models.devices[name] = load_device(name).efficiency;
  return models;
}

Models build(const std::vector<Unknown>& list, const std::vector<double>& values, Models models) {
  for (std::size_t i = 0; i < list.size(); ++i) list[i].set(models, values[i]);
  return models;
}

double predicted(const ReferenceCase& reference, const Models& models) {
  Machine machine = reference.machine;
  const auto device = models.devices.find(machine.device.name);
  if (device != models.devices.end()) machine.device.efficiency = device->second;
  Framework framework = reference.row.framework;
  const bool megatron = framework.name == FrameworkKind::megatron;
  framework.operator_seconds = megatron                           ? models.megatron_operator_seconds
                               : reference.row.source == batch_12 ? models.old_operator_seconds
                                                                  : models.operator_seconds;
  if (megatron) framework.backward_share = models.megatron_backward_share;
  return predict(reference, machine, framework, models.law);
}

double predicted(const KernelRow& row, const Device& device, const Models& models,
                 Algorithm algorithm) {
  Device measured = device;
  measured.measured = nullptr;  // only the law, without corrections by measured kernels
  const auto efficiency = models.devices.find(device.name);
  if (efficiency != models.devices.end()) measured.efficiency = efficiency->second;
  const auto alone = models.alone.find(device.name);
  if (alone != models.alone.end()) measured.efficiency.matmul *= alone->second;
  return kernel_time(row.kernel, measured, models.law, row.element_bytes, algorithm).total +
         gap(row, models);
}

double gap(const KernelRow& row, const Models& models) {
  const bool convolution = row.kernel.kind == KernelKind::convolution;
  if (!convolution && !row.with_gap) return 0;
  const auto& gaps = convolution ? models.convolution_gap : models.launch_gap;
  const auto found = gaps.find(row.device);
  return found == gaps.end() ? 0 : found->second;
}

}  // namespace lockstep
