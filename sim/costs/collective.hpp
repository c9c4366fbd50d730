// Cost of a collective or a copy on a machine: a latency, a transfer time, and the links that it
// loads, so that the engine can let it compete with other traffic. Without competing traffic it
// takes latency_seconds + transfer_seconds. Provenance says where the time comes from: a measured
// curve of the machine (measured, interpolated) or the model. A curve is used only for a group
// without concurrent groups.
//
// The model on GPUs: the candidates are the algorithms and protocols of NCCL's tuning table.
// NetworkModel corrects the table's time of each candidate, and the fastest candidate is chosen.
// Three cases have formulas of their own: all_to_all and send_recv, sums in the switches between
// nodes, and Gloo on CPUs. docs/networks-results.md compares the model with measured curves.
// Latency is device time from the moment at which the last rank's kernel may start; it does not
// include the host's time to issue a collective (host_issue_seconds below).
#pragma once

#include <string>
#include <vector>

#include "costs/cost.hpp"
#include "costs/nccl_topology.hpp"

namespace lockstep {

// Corrections to NCCL's table. `fit`: fitted by lockstep-fit-collectives to
// platforms/measurements/collectives.yaml. `read`: taken from single published measurements.
struct NetworkModel {
  // read: seconds that every collective takes beyond the table's latency. Small messages show it: 2
  // A100 over NVLink take 9.8 us instead of 7.8 (nccl-tests issue 331), and one GPU in each of two
  // nodes 19.0 us instead of 16.6 (issue 150). The value is the larger of the two differences.
  double call_seconds = 2.4e-6;
  // fit: inside one node, hops of LL128 and Simple over NVLink cost this multiple of the table's
  // hop, because a chunk travels in slices with a handshake each (fact 104). Across nodes the table
  // itself corrects the latency of Simple rings (fact 97), and net_ll128_hop_factor that of LL128.
  double bulk_hop_factor = 2.54;
  // fit: share of the table's bandwidth that LL reaches inside one node on devices before Hopper.
  double nvlink_ll_efficiency = 0.237;
  // fit: share of the NVLinks' bandwidth that LL128 and Simple reach inside one node, except with
  // NVLS. It also holds for NVLS trees and for all_to_all and send_recv, on any number of nodes.
  double nvlink_efficiency = 0.959;
  // fit: share of the PCIe link that all protocols reach through host memory, where every byte is
  // written and then read.
  double host_staging_efficiency = 0.434;
  // fit: on several nodes, all hops of LL128 rings, also hops inside nodes, cost this multiple of
  // the table's hop. Measured rings have the same latency per node at all sizes, but the table
  // gives LL128 half of Simple's.
  double net_ll128_hop_factor = 2.25;
  // read: on several nodes a hop of LL's trees inside a node costs this multiple of the table's
  // hop. The table adds the time to post a message to the network (fact 96) only to the hops of a
  // ring, but 16 A100 on two nodes take 35.9 us for 1 KiB (NDm v4, NCCL 2.17).
  double net_tree_ll_hop_factor = 2;
  // fit: on a fabric that other jobs share (EFA), a hop of LL128 and Simple rings between nodes
  // costs on average this multiple of the table's hop.
  double shared_hop_factor = 1.35;
  // fit: on such a fabric other jobs' traffic delays LL128 and Simple trees, because all nodes of a
  // tree wait for the slowest one. A tree takes this x bytes x (nodes - 1) longer.
  double shared_tree_seconds_per_byte = 0.72e-12;
};

// Host seconds of one collective through a framework's process group (fact 24): 70 us before the
// launch and 35 us after it.
inline constexpr double host_issue_seconds = 70e-6 + 35e-6;

// Classes of links that transfers share. An `uplink` stands for all uplinks of a leaf switch
// together; a `trunk` joins two groups of nodes (Trunk of hardware/machine.hpp).
enum class LinkClass { nvlink, pcie, host_memory, nic, uplink, trunk };
template <>
struct EnumNames<LinkClass> {
  static constexpr std::array names{"NVLink", "PCIe", "host memory", "NIC", "uplink", "trunk"};
};

// Traffic of a transfer on the links of one class. On NICs, uplinks, trunks and host memory it is
// the traffic of all CommGroup::concurrent groups together, because they share these links; on
// NVLink and PCIe it is the traffic of one group.
struct LinkLoad {
  LinkClass link = LinkClass::nvlink;
  double bytes = 0;        // over the busiest link, one way; of host memory, read + written
  double total_bytes = 0;  // over all links of the class, counted as `bytes`
  int links = 1;           // links in use on all nodes
  double capacity = 0;     // bytes/s of one link, one way, which all traffic on it shares
};

// The cost of one collective; all times in seconds.
struct CollectiveCost {
  double latency_seconds = 0;
  double transfer_seconds = 0;
  // "ring", "tree", ...; "direct" for all_to_all and send_recv on GPUs; "gloo" on CPUs; "" for a
  // group of one rank
  std::string algorithm;
  std::string protocol;  // "ll", "ll128", "simple"; "" on CPUs and for sums in the switches
  int channels = 0;      // multiprocessors taken on every GPU while it runs (fact 105); 0 on CPUs
  double device_memory_bytes = 0;  // read and written on one GPU (fact 113)
  // Ranks on CPUs: cores that the communication threads of one rank occupy while the collective
  // runs (measured CPU time over elapsed time, or from HostSpec::core_network_rate).
  double cores = 0;
  // Ranks on CPUs: speed of the ranks' compute, and speed of the collective, while both run,
  // relative to each running alone. 0 = not measured.
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
// model's own part is 0.3. It is between two measured errors: a median of 13 % for sources that
// were left out of the fit, times 1.48, which converts a median deviation to a standard deviation;
// and 33 % for a source that is the only one with its kind of link (docs/networks-results.md). On a
// shared fabric (EFA) the nodes' placement has a part of 0.12 x log2(nodes), from the 5th and 95th
// percentiles of the measured cluster (platforms/measurements/collectives.yaml). The two parts
// combine as the root of the sum of squares.
double network_error(const Machine& machine, int nodes);

// CPU cores that a process occupies on average while it sends `bytes` bytes in `seconds` seconds.
double cores_of_sending(const HostSpec& host, double bytes, double seconds);

// Bus bandwidth as nccl-tests defines it (fact 107), for comparison with published numbers.
double bus_bandwidth(Collective collective, int ranks, double bytes, double seconds);

// --- point to point ------------------------------------------------------------------------------

// The cost of a point-to-point copy of a given size.
struct CopyCost {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // of this copy without other traffic
  std::vector<LinkLoad> links;  // of the given bytes
  double cores = 0;             // cores that each of the two processes occupies meanwhile, on CPUs
  // Bytes of the message that are still in buffers between the processes when the sender is free. 0
  // = not measured.
  double buffered_bytes = 0;
  // Factor on the time if both processes share one core; 1 = not measured.
  double one_core_slowdown = 1;
  Provenance provenance = Provenance::modelled;

  double seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
};

// A copy by a copy engine between a GPU and pinned memory of its host, in either direction.
CopyCost host_device_copy(const Machine& machine, double bytes);
// A copy between two GPUs of one node.
CopyCost device_device_copy(const Machine& machine, double bytes);
// Copies between the memories of two hosts over one connection (fact 79 limits a TCP stream), and
// between two processes of one host. On a machine without a fabric, host_host_copy() is
// loopback_copy(). On a CPU platform with a measured two-rank send_recv curve for that number of
// hosts, the curve gives the time, so the rate depends on the size.
CopyCost host_host_copy(const Machine& machine, double bytes);
CopyCost loopback_copy(const Machine& machine, double bytes);

}  // namespace lockstep
