// What a collective or a copy costs on a machine: a latency, a transfer time when it runs alone,
// and which links it loads, so that the engine can let it compete with other traffic. Time alone is
// always latency_seconds + transfer_seconds. Provenance says whether a measured curve of the
// machine answered (measured, interpolated) or the model did.
//
// The model: NCCL's tuning table chooses algorithm and protocol, as NCCL does; the time is the
// table's with the few physical corrections of NetworkModel. docs/networks.md shows how far both
// are from measured curves. Latency is device time from the moment the last rank's kernel may
// start; the host's time to issue a collective is not in it (host_issue_seconds below).
#pragma once

#include <string>
#include <vector>

#include "costs/cost.hpp"
#include "costs/nccl_topology.hpp"

namespace lockstep {

// Corrections to NCCL's table: `fit` = by lockstep-fit-collectives from
// platforms/measurements/collectives.yaml, `read` = off single published figures.
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
  // fit: between nodes, hops of LL128 rings cost this multiple of the table's: measured rings take
  // one latency a node at all sizes, while the table has LL128 at half of Simple's.
  double net_ll128_hop_factor = 2.25;
  // read: on several nodes a hop of LL's trees inside a node costs this multiple of the table's, which has
  // a ring's hop wait for what is posted to the network (fact 96): 16 A100 on two nodes take 35.9 us for
  // 1 KiB (NDm v4, NCCL 2.17).
  double net_tree_ll_hop_factor = 2;
  // fit: on a fabric shared with others (EFA) a bulk ring's hop between nodes costs on average this
  // multiple of the table's.
  double shared_hop_factor = 1.35;
  // fit: there a tree, which moves all in step, loses so many seconds for every byte with every
  // further node to the traffic of others.
  double shared_tree_seconds_per_byte = 0.72e-12;
};

// Host time of one collective through a framework's process group (fact 24): before and after
// launch.
inline constexpr double host_issue_seconds = 70e-6 + 35e-6;

// uplink: of a leaf switch; trunk: between groups of nodes (Trunk)
enum class LinkClass { nvlink, pcie, host_memory, nic, uplink, trunk };
template <>
struct EnumNames<LinkClass> {
  static constexpr std::array names{"NVLink", "PCIe", "host memory", "NIC", "uplink", "trunk"};
};

// Traffic of a transfer on the links of one class. Of CommGroup::concurrent groups together on NICs
// and host memory, which they share; of one group elsewhere.
struct LinkLoad {
  LinkClass link = LinkClass::nvlink;
  double bytes = 0;        // over the busiest link, one way
  double total_bytes = 0;  // over all links of the class, one way
  int links = 1;           // links in use on all nodes
  double capacity = 0;     // bytes/s of one link, one way: what all traffic on it shares
};

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
  // While the ranks compute beside it, relative to alone: how fast they compute, and how fast it is
  // itself; measured, 0 = not.
  double compute_speed = 0;
  double speed_beside_compute = 0;
  Provenance provenance = Provenance::modelled;
  std::vector<LinkLoad> links;

  double seconds() const { return latency_seconds + transfer_seconds; }
};

// `bytes`: the full logical size: the buffer of all_reduce, broadcast and reduce; ranks x shard of
// all_gather and reduce_scatter; ranks x what one rank sends to one other of all_to_all; the
// message of send_recv. Costs nothing for one rank. Never less for more bytes.
CollectiveCost collective_cost(const Machine& machine, const CommGroup& group,
                               Collective collective, double bytes, const NetworkModel& model = {});

// One sigma of log(truth / prediction) of modelled communication over so many nodes. The model: 0.3,
// between what sources left out of the fit are off by (1.48 times a median of 13 %) and what the
// only source for a kind of link is (33 %; docs/networks.md). On a shared fabric also what the
// placement of the nodes does: 0.12 with every doubling of them, by the 5th and 95th percentiles of
// the measured cluster (platforms/measurements/collectives.yaml).
double network_error(const Machine& machine, int nodes);

// Cores that a process keeps busy while it sends so many bytes in so many seconds.
double cores_of_sending(const HostSpec& host, double bytes, double seconds);

// Bus bandwidth as nccl-tests defines it (fact 107), for comparison with published figures.
double bus_bandwidth(Collective collective, int ranks, double bytes, double seconds);

// --- point to point ------------------------------------------------------------------------------

struct CopyCost {
  double latency_seconds = 0;
  double bytes_per_second = 0;  // of one copy alone
  std::vector<LinkLoad> links;  // of the given bytes
  double cores = 0;             // busy meanwhile in each of the two processes, on CPUs
  // Of this message: what is still in buffers on the way when its sender is free; measured.
  double buffered_bytes = 0;
  double one_core_slowdown = 1;  // where both processes have one core; measured
  Provenance provenance = Provenance::modelled;

  double seconds(double bytes) const { return latency_seconds + bytes / bytes_per_second; }
};

// Between a GPU and pinned memory of its host by copy engine, either direction.
CopyCost host_device_copy(const Machine& machine, double bytes);
// Between two GPUs of one node.
CopyCost device_device_copy(const Machine& machine, double bytes);
// Between the memories of two hosts over one connection (fact 79 caps a TCP stream), or between two
// processes of one host. On CPUs a measured send_recv curve of two ranks on so many hosts answers;
// its rate then depends on the size.
CopyCost host_host_copy(const Machine& machine, double bytes);
CopyCost loopback_copy(const Machine& machine, double bytes);

}  // namespace lockstep
