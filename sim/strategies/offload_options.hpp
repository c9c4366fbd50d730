// Options of an offloaded optimizer (`offload:` of a scenario's strategy): the memory that holds
// its state, and the code of its update on the host. FSDP and ZeRO share these options;
// common/offload.hpp computes their costs.
// The facts H109 to H122 are in docs/facts-meshes.md.
#pragma once

#include <array>

#include "core/fields.hpp"

namespace lockstep {

// Memory that holds the optimizer's state. On every tier but the device, the host computes the
// update.
enum class OffloadTier { device, host, nvme };
template <>
struct EnumNames<OffloadTier> {
  static constexpr std::array names{"device", "host", "nvme"};
};
// Code of the update on the host. fused: one pass over memory (DeepSpeed's CPU Adam). separate: one
// pass for each operation (torch.optim).
enum class HostUpdateCode { fused, separate };
template <>
struct EnumNames<HostUpdateCode> {
  static constexpr std::array names{"fused", "separate"};
};

struct OffloadOptions {
  OffloadTier optimizer = OffloadTier::device;
  // Memory that holds the shards of the parameters between their uses; only for fsdp, which shards
  // parameters (H115, H116).
  OffloadTier parameters = OffloadTier::device;
  double fraction = 1;  // share of the parameters that the host updates (facts H113, H121b)
  HostUpdateCode update = HostUpdateCode::fused;
  bool keep_master = false;  // the device also holds master parameters (fact H121b)
  bool overlap = false;      // reads, updates and writes of different sub-groups overlap (H115)
  double sub_group = 1e9;    // number of parameters that are updated together (fact H115)
  bool chunks = false;       // PatrickStar: chunks of 64 million elements (fact H120)
  // The update ends beside the next step (Ren et al. 2021, section 5.2).
  bool delayed_update = false;

  // Whether the host updates any parameter.
  bool is_used() const { return optimizer != OffloadTier::device && fraction > 0; }
};

template <class Visitor>
void describe(Visitor& v, OffloadOptions& o) {
  v.field("optimizer", o.optimizer,
          "Memory that holds master parameters and moments: the device's, the host's, or NVMe "
          "drives. The "
          "host updates what its own memory or NVMe holds.");
  v.field("parameters", o.parameters,
          "Memory that holds the shards of the parameters between their uses (fsdp).");
  v.field("fraction", o.fraction,
          "Share of the parameters that the host updates; the device updates the rest at the same "
          "time.",
          {.unit = Dimension::fraction, .min = 0, .max = 1});
  v.field("update", o.update,
          "Code on the host: fused, one pass over memory (DeepSpeed's CPU Adam), or separate, one "
          "pass for "
          "each operation (torch.optim).");
  v.field("keep_master", o.keep_master,
          "The device keeps its master parameters as well, as in Megatron-LM.");
  v.field("overlap", o.overlap,
          "Copies, NVMe transfers and updates of different sub-groups run side by side.");
  v.field("sub_group", o.sub_group, "Parameters that are updated together.",
          {.min = 1e3, .max = 1e13});
  v.field(
      "delayed_update", o.delayed_update,
      "The update runs beside the next step, which still computes with the parameters before it.");
  v.field(
      "chunks", o.chunks,
      "Parameters and state lie on the host in chunks of 64 million elements, and a gradient takes "
      "the place of its parameter (PatrickStar).");
  v.check([&](auto report) {
    const auto on_host = OffloadTier::host;
    if (o.chunks && (o.optimizer != on_host || o.parameters != on_host)) {
      report("chunks", "hold parameters and state together",
             "`optimizer: host` and `parameters: host`");
    }
    if (o.parameters != OffloadTier::device && (!o.is_used() || o.fraction < 1)) {
      report("parameters", "are offloaded, but the device updates a part of the parameters",
             "`optimizer: host` or `nvme`, with `fraction: 1`");
    }
  });
}

}  // namespace lockstep
