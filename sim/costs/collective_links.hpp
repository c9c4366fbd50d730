// Loads of a collective on the links of a machine, and payload rates of the fabric's links. The
// engine shares each link among all transfers that load it; collective.cpp uses the rates as
// limits.
#pragma once

#include "costs/collective.hpp"

namespace lockstep {

// Payload bytes/s of one NIC, one way (fact 144), with PCIe as its upper bound.
double nic_payload_rate(const Machine& machine);
// Payload bytes/s of one connection: on Ethernet at most a TCP stream's (fact 79), else the NIC's.
double connection_rate(const Machine& machine);

// Payload bytes/s of all uplinks of one leaf switch together, one way.
double uplink_rate(const Machine& machine);
// Payload bytes/s of a trunk, one way.
double trunk_rate(const Machine& machine, const Trunk& trunk);

// Share of a node's NIC rate that the uplinks and trunks leave to this collective: 1 under one
// leaf. A ring sends one node's bytes up from each leaf, and crosses a trunk as often as
// neighboring nodes are on its two sides. An all-to-all sends most of its bytes up. Trees count as
// rings.
double fabric_share(const Machine& machine, const CommGroup& group, Collective collective);

// The loads of a collective of `bytes` bytes (full logical size) by `algorithm`, one entry per
// class of links.
std::vector<LinkLoad> collective_links(const Machine& machine, const CommGroup& group,
                                       Collective collective, NcclAlgorithm algorithm,
                                       double bytes);

}  // namespace lockstep
