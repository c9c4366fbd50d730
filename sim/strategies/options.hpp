// Common parts of the options of strategies: the forms that the verb `recommend` tries, which each
// options struct lists as `forms`, and a check of element sizes. Every options.hpp of a strategy
// includes it.
#pragma once

namespace lockstep {

// The family of forms that compress gradients. Compression changes accuracy, so `recommend` tells
// this family apart.
inline constexpr const char* compressed_family = "compressed DDP";

// A set of options that `recommend` tries.
struct StrategyForm {
  const char* name;          // "fsdp2 offload"
  const char* family;        // "FSDP": its column in the comparison of families
  const char* options;       // as a scenario writes them, {} for all defaults
  int complexity = 0;        // a smaller number means less to set up and less to go wrong
  bool several = false;      // only on several GPUs
  bool whole_nodes = false;  // only on several nodes, all GPUs of each
  bool nvme = false;         // only where the platform has NVMe drives
};

// Refuses element sizes in which PyTorch neither reduces nor gathers. Allowed are 2 and 4 bytes,
// and 0 for the size by the scenario's precision.
template <class Report>
void check_element_size(Report report, const char* field, double bytes) {
  if (bytes != 0 && bytes != 2 && bytes != 4) {
    report(field, "is not the size of a number that PyTorch sends", "allowed: 2 B, 4 B, 0 B");
  }
}

}  // namespace lockstep
