// What `recommend` tries of a strategy: each options struct lists its forms as `forms`.
#pragma once

namespace lockstep {

struct StrategyForm {
  const char* name;          // "fsdp2 offload"
  const char* family;        // "FSDP": its column in the comparison of families
  const char* options;       // as a scenario writes them, {} for all defaults
  int complexity = 0;        // the fewer, the less there is to set up and to go wrong
  bool several = false;      // only on several GPUs
  bool whole_nodes = false;  // only on several nodes, all GPUs of each
};

}  // namespace lockstep
