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

// One node of a trace. Type has the numbers of et_def.proto.
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
  double start = 0, seconds = 0;     // start since the begin of the trace, and duration
  bool on_host = false;              // a CPU operation
  std::string collective;            // "all_reduce"; collectives only
  double bytes = 0;                  // of communication nodes
};

// Serializes the nodes. Chakra stores whole microseconds; exact times are stored, too, as
// attributes of type double, so that read_chakra() restores them.
std::string chakra_bytes(const std::vector<ChakraNode>& nodes);

// Reads a file's nodes in their order. `file` is the name in messages. Throws ConfigError for a
// file that is no trace, an unknown collective, or two nodes with equal ids.
std::vector<ChakraNode> read_chakra(const std::string& file, std::string_view bytes);

}  // namespace lockstep
