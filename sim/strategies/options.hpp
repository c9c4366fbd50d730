// Common parts of the options of strategies: forms, which are sets of options that the verb
// `recommend` tries and that each options struct lists as `forms`, and a check of element sizes.
// The options.hpp of every strategy includes it.
#pragma once

namespace lockstep {

// The family of forms that compress gradients. `recommend` reports it separately, because
// compression changes accuracy.
inline constexpr const char* compressed_family = "compressed DDP";

// A set of options that `recommend` tries.
struct StrategyForm {
  const char* name;          // "fsdp2 offload"
  const char* family;        // for example "FSDP": the form's column in the comparison of families
  const char* options;       // as a scenario writes them; {} for all defaults
  int complexity = 0;        // the form with the smaller number is easier to set up and to run
  bool several = false;      // tried only on several GPUs
  bool whole_nodes = false;  // tried only on several nodes, with all GPUs of each
  bool nvme = false;         // tried only if the platform has NVMe drives
};

// Reports an error for element sizes in which PyTorch neither reduces nor gathers. Allowed are 2
// and 4 bytes, and 0 for the size that follows from the scenario's precision.
template <class Report>
void check_element_size(Report report, const char* field, double bytes) {
  if (bytes != 0 && bytes != 2 && bytes != 4) {
    report(field, "is not the size of a number that PyTorch sends", "allowed: 2 B, 4 B, 0 B");
  }
}

}  // namespace lockstep
