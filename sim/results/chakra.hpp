// Execution traces of MLCommons Chakra (schema 0.0.4: et_def.proto), as input for ASTRA-sim. A
// trace has one file for each rank; a file is a list of nodes, which are operations that depend on
// each other. ASTRA-sim reads the attributes is_cpu_op, comm_type and comm_size.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// One node of a trace. Type has the values of et_def.proto.
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
  std::vector<std::uint64_t> after;  // ids of the nodes on which it depends (control and data)
  double start = 0, seconds = 0;     // seconds from the start of the trace, and duration
  bool on_host = false;              // a CPU operation
  std::string collective;            // "all_reduce"; collectives only
  double bytes = 0;                  // payload of communication nodes
};

// Serialises the nodes. Chakra stores whole microseconds, so exact times are also stored, as
// attributes of type double, from which read_chakra() restores them.
std::string chakra_bytes(const std::vector<ChakraNode>& nodes);

// Reads the nodes in the order of the file. `file` is the name in messages. Throws ConfigError if
// the file is no trace, a type, duration or collective is invalid, or two nodes have the same id.
std::vector<ChakraNode> read_chakra(const std::string& file, std::string_view bytes);

}  // namespace lockstep
