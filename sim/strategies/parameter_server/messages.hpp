// Divides the keys of a model into the messages of a step, and computes the server's work on each
// message. build.cpp calls these functions while it builds a PsSystem; none is used during a run.
// Private to sim/strategies/parameter_server.
#pragma once

#include <vector>

#include "strategies/parameter_server/keys.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// The messages of a step. Without `by_key`: one message for each server that has keys. With
// `by_key`: messages in the order in which backward completes their gradients, the last layer
// first. `join`: keys of one layer and server share a message. `smallest`: a message takes more
// keys of its server until it has this number of elements. Costs and places are not set; price()
// sets them.
std::vector<PsMessage> make_messages(std::vector<Key> keys, int servers, bool by_key, bool join,
                                     double smallest);
// Whether gradients are pushed as soon as they are ready (`overlap`). False if workers clip
// gradients before they push, because clipping first needs the norm of all gradients. With `update:
// workers`, workers clip only the pulled sum.
bool pushes_overlap(const Job& job, const ParameterServerOptions& options);
// The argument `by_key` of make_messages(): whether a server's keys travel in several messages;
// otherwise all keys of a server are one message.
bool travel_by_key(const Job& job, const ParameterServerOptions& options);

// Whether a server's seconds for a message were measured, interpolated or modelled.
struct ServiceProvenance {
  Provenance sums = Provenance::modelled, update = Provenance::modelled;
};
// Largest number of a worker's pushes under way (`credit`); 0 = one to each server. The result is
// also 0 if there is only one message, or if serial servers take messages one after the other.
int push_window(const Job& job, const ParameterServerOptions& options);
// Number of ranks that push one gradient together: with local_reduction the ranks of a node,
// otherwise 1. Throws ConfigError if nodes have unequal numbers of ranks.
int ranks_that_reduce(const Job& job, const ParameterServerOptions& options);
// Whether servers only sum gradients, and workers update with the sum.
inline bool workers_update(const ParameterServerOptions& options) {
  return options.update == UpdatePlace::workers;
}
// Sets the place and the bytes of a message, the server's seconds for it, and the seconds of a
// node's collectives. Throws as ranks_that_reduce() does.
// REQUIRES: the message's server, elements, tensors and pieces are set.
ServiceProvenance price(const Job& job, const ParameterServerOptions& options,
                        const std::vector<ServerPlace>& places, PsMessage& message);

// The weighting of stale gradients. If the options have none: by age for modified-async, otherwise
// no weighting.
Weighting weighting(const ParameterServerOptions& options);

// Bytes of one pushed element in a message, before compression.
double push_element_bytes(const ParameterServerOptions& options, Precision precision);

// The work on the compute stream that compresses the message's gradients before a worker pushes
// them; no work without compression, or if `fp16` finds gradients of two bytes.
QueuedWork compression_work(const Job& job, const ParameterServerOptions& options,
                            const PsMessage& message);

}  // namespace lockstep
