// Cost of a collective or a copy on a machine: a latency, a transfer time when it runs alone, and
// the links that it loads, so that the engine can let it compete with other traffic. The time alone
// is always latency_seconds + transfer_seconds. Provenance says whether a measured curve of the
// machine answered (measured, interpolated) or the model did.
//
// The model: candidates are the algorithms and protocols of NCCL's tuning table; the time of each
// is the table's with the few physical corrections of NetworkModel, and the fastest candidate is
// chosen. docs/networks.md compares with measured curves. Latency is device time from the moment at
// which the last rank's kernel may start; the host's time to issue a collective is not included
// (host_issue_seconds below).
#pragma once

#include <string>
#include <vector>

#include "costs/cost.hpp"
#include "costs/nccl_topology.hpp"

namespace lockstep {

// Corrections to NCCL's table. `fit`: fitted by lockstep-fit-collectives to
// platforms/measurements/collectives.yaml. `read`: taken from single published figures.
struct NetworkModel {
  // read: small messages take this much longer than the table's latency: 2 A100 over NVLink 9.8 us
  // against 7.8 (nccl-tests issue 331), one GPU in each of two nodes 19.0 us against 16.6 (issue
  // 150).
  double call_seconds = 2.4e-6;
  // fit: hops of LL128 and Simple over NVLink cost this multiple of the table's hop: a chunk
  // travels in slices with a handshake each (fact 104). Across nodes the table has its own
  // correction (fact 97), which measured curves bear out.
  double bulk_hop_factor = 2.54;
  // fit: share of the table's NVLink bandwidth that LL reaches before Hopper, and that the other
  // protocols reach.
  double nvlink_ll_efficiency = 0.237;
  double nvlink_efficiency = 0.959;
  // fit: through host memory every byte is written, then read; LL128 and Simple reach this share of
  // the PCIe link. LL, which needs no handshake, reaches the table's half.
  double host_staging_efficiency = 0.434;
  // fit: between nodes, hops of LL128 rings cost this multiple of the table's hop. Measured rings
  // have one latency per node at all sizes, while the table gives LL128 half of Simple's.
  double net_ll128_hop_factor = 2.25;
  // read: on several nodes a hop of LL's trees inside a node costs this multiple of the table's
  // hop. The table itself delays only a ring's hops by the post to the network (fact 96); 16 A100
  // on two nodes take 35.9 us for 1 KiB (NDm v4, NCCL 2.17).
  double net_tree_ll_hop_factor = 2;
  // fit: on a fabric that other jobs share (EFA), a hop of LL128 and Simple rings between nodes
  // costs on average this multiple of the table's hop.
  double shared_hop_factor = 1.35;
  // fit: on such a fabric a tree, whose nodes all move in step, loses this many seconds per byte
  // for every node beyond the first to the traffic of other jobs.
  double shared_tree_seconds_per_byte = 0.72e-12;
};

// Host seconds of one collective through a framework's process group (fact 24): before the launch,
// and after it.
inline constexpr double host_issue_seconds = 70e-6 + 35e-6;

// Classes of links that transfers share. uplink: all uplinks of a leaf switch; trunk: a link
// between groups of nodes (Trunk of hardware/machine.hpp).
enum class LinkClass { nvlink, pcie, host_memory, nic, uplink, trunk };
template <>
struct EnumNames<LinkClass> {
  static constexpr std::array names{"NVLink", "PCIe", "host memory", "NIC", "uplink", "trunk"};
};

// Traffic of a transfer on the links of one class. On NICs and host memory it is the traffic of all
// CommGroup::concurrent groups together, because they share them; on other links that of one group.
struct LinkLoad {
  LinkClass link = LinkClass::nvlink;
  double bytes = 0;        // over the busiest link, one way
  double total_bytes = 0;  // over all links of the class, one way
  int links = 1;           // links in use on all nodes
  double capacity = 0;     // bytes/s of one link, one way, which all traffic on it shares
};

// The cost of one collective; all times in seconds.
struct CollectiveCost {
  double latency_seconds = 0;
  double transfer_seconds = 0;
  std::string algorithm;           // "ring", "tree", ...; "gloo" on CPUs; "" when nothing is sent
  std::string protocol;            // "ll", "ll128", "simple"; "" outside NCCL
  int channels = 0;                // multiprocessors taken on every GPU while it runs (fact 105)
  double device_memory_bytes = 0;  // read and written on one GPU (fact 113)
  // Ranks on CPUs: cores that one rank's communication threads keep busy while it runs (measured
  // CPU time over elapsed time, or HostSpec::core_network_rate).
  double cores = 0;
  // Speeds while the ranks compute beside the collective, relative to running alone: of the
  // compute, and of the collective. Measured; 0 = not measured.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  Provenance provenance = Provenance::modelled;
  std::vector<LinkLoad> links;

  double seconds() const { return latency_seconds + transfer_seconds; }
};

// Cost of a collective of `group`. `bytes` is the full logical size:
//   all_reduce, broadcast, reduce    the buffer
//   all_gather, reduce_scatter       ranks x shard
//   all_to_all                       ranks x the bytes from one rank to one other rank
//   send_recv                        the message
// A group of one rank costs nothing. More bytes never cost less.
CollectiveCost collective_cost(const Machine& machine, const CommGroup& group,
                               Collective collective, double bytes, const NetworkModel& model = {});

// Standard deviation of log(truth / prediction) for modelled communication over `nodes` nodes. The
// model's error is 0.3. It lies between the error for sources left out of the fit (1.48 times a
// median of 13 %) and the error for the only source of a kind of link (33 %; docs/networks.md). A
// shared fabric adds the placement of the nodes: 0.12 with every doubling of their number, from the
// 5th and 95th percentiles of the measured cluster (platforms/measurements/collectives.yaml).
double network_error(const Machine& machine, int nodes);

// CPU cores that a process keeps busy while it sends `bytes` bytes in `seconds` seconds.
double cores_of_sending(const HostSpec& host, double bytes, double seconds);

// Bus bandwidth as nccl-tests defines it (fact 107), for comparison with published figures.
double bus_bandwidth(Collective collective, int ranks, double bytes, double seconds);

// --- point to point ------------------------------------------------------------------------------

// The cost of a point-to-point copy of a given size.
struct CopyCost {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // of one copy alone
  std::vector<LinkLoad> links;  // of the given bytes
  double cores = 0;             // busy meanwhile in each of the two processes, on CPUs
  // Bytes of the message that are still in buffers on the way when its sender is free; measured, 0
  // = not.
  double buffered_bytes = 0;
  double one_core_slowdown = 1;  // where both processes have one core; measured
  Provenance provenance = Provenance::modelled;

  double seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
};

// A copy between a GPU and pinned memory of its host by a copy engine, in either direction.
CopyCost host_device_copy(const Machine& machine, double bytes);
// A copy between two GPUs of one node.
CopyCost device_device_copy(const Machine& machine, double bytes);
// A copy between the memories of two hosts over one connection (fact 79 limits a TCP stream), and
// between two processes of one host. On CPUs a measured send_recv curve of two ranks on as many
// hosts answers; the rate then depends on the size.
CopyCost host_host_copy(const Machine& machine, double bytes);
CopyCost loopback_copy(const Machine& machine, double bytes);

}  // namespace lockstep
