// Parts that the options of all strategies share: the forms that `recommend` tries of a strategy, each of
// which lists its own as `forms`, and a check of element sizes.
#pragma once

namespace lockstep {

// The family of forms that change gradients on their way, and with them what is learned.
inline constexpr const char* compressed_family = "compressed DDP";

struct StrategyForm {
  const char* name;          // "fsdp2 offload"
  const char* family;        // "FSDP": its column in the comparison of families
  const char* options;       // as a scenario writes them, {} for all defaults
  int complexity = 0;        // the fewer, the less there is to set up and to go wrong
  bool several = false;      // only on several GPUs
  bool whole_nodes = false;  // only on several nodes, all GPUs of each
  bool nvme = false;         // only where the platform has NVMe drives
};

// PyTorch reduces and gathers in half or in single precision; 0 = by the scenario's precision.
template <class Report>
void check_element_size(Report report, const char* field, double bytes) {
  if (bytes != 0 && bytes != 2 && bytes != 4) {
    report(field, "is not the size of a number that PyTorch sends", "allowed: 2 B, 4 B, 0 B");
  }
}

}  // namespace lockstep
