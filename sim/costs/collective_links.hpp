// Which links a collective loads, and how fast the fabric's NICs are.
#pragma once

#include "costs/collective.hpp"

namespace lockstep {

// Payload bytes/s of one NIC, one way (fact 144), with PCIe as its upper bound.
double nic_payload_rate(const Machine& machine);
// Of one connection: what a TCP stream reaches at most (fact 79), otherwise the NIC.
double connection_rate(const Machine& machine);

// Payload bytes/s of what leads above one leaf switch, one way.
double uplink_rate(const Machine& machine);
// And of a trunk.
double trunk_rate(const Machine& machine, const Trunk& trunk);

// Share of a node's NIC rate that the tree above the leaf switches and the trunks leave to this
// collective: 1 under one leaf. A ring leaves each leaf over one node's worth of uplinks, and loads
// a trunk as often as neighbouring nodes are on its two sides; an all-to-all sends most of its bytes
// up. Trees count as rings.
double fabric_share(const Machine& machine, const CommGroup& group, Collective collective);

// The load of `bytes` (full logical size) done by `algorithm`.
std::vector<LinkLoad> collective_links(const Machine& machine, const CommGroup& group,
                                       Collective collective, NcclAlgorithm algorithm,
                                       double bytes);

}  // namespace lockstep
