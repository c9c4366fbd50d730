// Which links a collective loads, and how fast the fabric's NICs are.
#pragma once

#include "costs/collective.hpp"

namespace lockstep {

// Payload bytes/s of one NIC, one way (fact 144), with PCIe as its upper bound.
double nic_payload_rate(const Machine& machine);
// Of one connection: what a TCP stream reaches at most (fact 79), otherwise the NIC.
double connection_rate(const Machine& machine);

// The load of `bytes` (full logical size) done by `algorithm`.
std::vector<LinkLoad> collective_links(const Machine& machine, const CommGroup& group,
                                       Collective collective, NcclAlgorithm algorithm,
                                       double bytes);

}  // namespace lockstep
