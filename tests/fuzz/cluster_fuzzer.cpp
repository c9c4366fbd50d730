// Reads any text as a cluster scenario and as Slurm accounting data. No exception but ConfigError
// may come out.
#include <cstdint>
#include <string_view>

#include "cluster/cluster_file.hpp"
#include "cluster/sacct.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    read_cluster_text(text, "cluster.yaml");
  } catch (const ConfigError&) {
  }
  try {
    read_sacct_text(text, "jobs.csv");
  } catch (const ConfigError&) {
  }
  return 0;
}
