// Loads of a collective on the links of a machine, and payload rates of the fabric's links. The
// engine shares each link among all transfers that load it; collective.cpp uses the rates as
// limits.
#pragma once

#include "costs/collective.hpp"

namespace lockstep {

// Payload bytes/s of one NIC, one way (fact 144). NCCL's table, not this rate, has PCIe's limit.
double nic_payload_rate(const Machine& machine);
// Payload bytes/s of one connection: the NIC's rate, and on Ethernet at most that of a TCP stream
// (fact 79).
double connection_rate(const Machine& machine);

// Payload bytes/s of all uplinks of one leaf switch together, one way.
double uplink_rate(const Machine& machine);
// Payload bytes/s of a trunk, one way.
double trunk_rate(const Machine& machine, const Trunk& trunk);

// Share of a node's NIC rate that uplinks and trunks let this collective reach; 1 if all nodes are
// under one leaf switch and no trunk is crossed. In a ring the nodes of a leaf together send one
// node's bytes up, and a trunk carries one node's bytes for each pair of ring neighbours on its two
// sides. In an all-to-all the nodes of a leaf send up the share of their bytes that is for nodes of
// other leaves. In a send_recv min(nodes of a leaf, CommGroup::span) nodes send up. Trees count as
// rings.
double fabric_share(const Machine& machine, const CommGroup& group, Collective collective);

// The loads of a collective of `bytes` bytes (full logical size) by `algorithm`, one entry per
// class of links. `algorithm` matters only for all_reduce. All trunks are one entry with the rate
// of the slowest one.
std::vector<LinkLoad> collective_links(const Machine& machine, const CommGroup& group,
                                       Collective collective, NcclAlgorithm algorithm,
                                       double bytes);

}  // namespace lockstep
