// Hardware properties that a question varies one after the other: `explain` to show the sensitivity
// of a prediction, advice (advice.hpp) to find hardware that would help.
#pragma once

#include <array>

#include "costs/host.hpp"
#include "hardware/machine.hpp"
#include "points/bottleneck.hpp"

namespace lockstep {

// One property and how to change it.
struct Resource {
  const char* name;   // in `explain`, such as "memory bandwidth"
  Limit limit;        // the bottleneck that suggests improving it
  const char* link;   // class of links that must carry traffic; "" = no such condition
  const char* words;  // name of a better one; "" = users cannot buy or set it
  bool rate;          // true: a larger value is better; false: a smaller one is (times)
  void (*scale)(Machine&, Framework&, double factor);  // multiplies the property by `factor`
};

inline constexpr std::array resources{
    Resource{"device FLOP/s", Limit::compute, "", "a faster GPU", true,
             [](Machine& m, Framework&, double factor) {
               for (double* peak :
                    {&m.device.fp32_flops, &m.device.tf32_flops, &m.device.fp16_flops,
                     &m.device.bf16_flops, &m.device.fp8_flops, &m.device.fp4_flops}) {
                 *peak *= factor;
               }
               m.device.clock_hz *= factor;  // kernels that instructions limit follow the clock
             }},
    Resource{"memory bandwidth", Limit::compute, "", "more memory bandwidth", true,
             [](Machine& m, Framework&, double factor) { m.device.memory_bandwidth *= factor; }},
    Resource{"kernel launch floor", Limit::compute, "", "", false,
             [](Machine& m, Framework&, double factor) {
               m.device.efficiency.kernel_floor_seconds *= factor;
             }},
    Resource{"host dispatch time", Limit::host, "", "a faster host", false,
             [](Machine& m, Framework& f, double factor) {
               f.operator_seconds = factor * host_rates(m.host, f).forward_operator;
               m.host.dispatch_seconds *= factor;
               m.host.launch_seconds *= factor;
             }},
    Resource{"NVLink bandwidth", Limit::communication, "NVLink", "faster NVLink", true,
             [](Machine& m, Framework&, double factor) { m.nvlink.bytes_per_second *= factor; }},
    Resource{"PCIe bandwidth", Limit::communication, "PCIe", "faster PCIe", true,
             [](Machine& m, Framework&, double factor) {
               m.pcie.scale *= factor;
               m.pcie.host_path_bytes_per_second *= factor;
             }},
    Resource{
        "NIC bandwidth", Limit::communication, "NIC", "faster NICs", true,
        [](Machine& m, Framework&, double factor) { m.fabric.nic_bytes_per_second *= factor; }},
    Resource{"network latency", Limit::communication, "NIC", "a lower network latency", false,
             [](Machine& m, Framework&, double factor) { m.fabric.latency_seconds *= factor; }},
    Resource{"host memory bandwidth", Limit::communication, "", "faster memory of the hosts", true,
             [](Machine& m, Framework&, double factor) { m.host.memory_bandwidth *= factor; }},
    Resource{
        "loopback bandwidth", Limit::communication, "", "", true,
        [](Machine& m, Framework&, double factor) { m.host.loopback_bytes_per_second *= factor; }},
    Resource{"latency of a message between processes", Limit::communication, "", "", false,
             [](Machine& m, Framework&, double factor) { m.host.message_seconds *= factor; }},
};

// `explain` and advice multiply or divide a property by this factor.
inline constexpr double more_of_a_resource = 1.1;

}  // namespace lockstep
