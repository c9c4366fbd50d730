// Execution traces of MLCommons Chakra (schema 0.0.4: et_def.proto): one file a rank, of nodes that
// depend on each other. Use it to export a timeline to ASTRA-sim. Attributes as ASTRA-sim reads
// them: is_cpu_op, comm_type, comm_size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct ChakraNode {
  enum class Type {
    metadata = 1,
    memory_load = 2,
    memory_store = 3,
    compute = 4,
    send = 5,
    receive = 6,
    collective = 7
  };
  std::uint64_t id = 0;
  std::string name;
  Type type = Type::compute;
  std::vector<std::uint64_t> after;  // control and data dependencies, ids
  double start = 0, seconds = 0;
  bool on_host = false;
  std::string collective;  // "all_reduce"; of collectives only
  double bytes = 0;        // of communication
};

// Chakra counts whole microseconds. Exact times are also stored as attributes of doubles, so that
// read_chakra() restores them.
std::string chakra_bytes(const std::vector<ChakraNode>& nodes);

// In the file's order. Throws ConfigError: no such trace, a collective that is not known, two nodes
// of one id.
std::vector<ChakraNode> read_chakra(const std::string& file, std::string_view bytes);

}  // namespace lockstep
