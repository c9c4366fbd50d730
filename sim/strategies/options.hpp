// Common parts of the options of strategies: the forms that `recommend` tries, which each strategy
// lists as `forms`, and a check of element sizes. Include it in every options.hpp.
#pragma once

namespace lockstep {

// The family of forms that compress gradients, which changes learning.
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

// PyTorch reduces and gathers in half or in single precision; 0 = the scenario's precision decides.
template <class Report>
void check_element_size(Report report, const char* field, double bytes) {
  if (bytes != 0 && bytes != 2 && bytes != 4) {
    report(field, "is not the size of a number that PyTorch sends", "allowed: 2 B, 4 B, 0 B");
  }
}

}  // namespace lockstep
