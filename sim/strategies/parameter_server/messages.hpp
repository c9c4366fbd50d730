// Divides the keys of a model into the messages of a step, and prices the server's work on each
// message. build.cpp calls these functions while it builds a PsSystem; nothing here is used during
// a run. Private to the room.
#pragma once

#include <vector>

#include "strategies/parameter_server/keys.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// The messages of a step. Without `by_key`: one message for each server that has keys. With
// `by_key`: messages in the order in which backward makes their gradients ready, last layer first.
// `join`: keys of one layer and server share a message. `smallest`: a message takes further keys of
// its server until it has this number of elements. Prices and places are not set: see price().
std::vector<PsMessage> make_messages(std::vector<Key> keys, int servers, bool by_key, bool join,
                                     double smallest);
// Whether gradients are pushed as soon as they are ready. Clipping by workers prevents this,
// because it needs the norm of all gradients first.
bool pushes_overlap(const Job& job, const ParameterServerOptions& options);
// Whether each key is a message by itself, instead of one message for all keys of a server.
bool travel_by_key(const Job& job, const ParameterServerOptions& options);

// Whether a server's seconds for a message were measured, interpolated or modeled.
struct ServiceProvenance {
  Provenance sums = Provenance::modelled, update = Provenance::modelled;
};
// Number of messages that a worker may push at a time (`credit`). 0 = one to each server. The
// result is 0, too, if there is one message only, or if a serial server takes messages one by one.
int push_window(const Job& job, const ParameterServerOptions& options);
// Number of ranks that push one gradient together: the ranks of a node with local_reduction, else
// 1. Throws ConfigError if nodes have unequal numbers of ranks.
int ranks_that_reduce(const Job& job, const ParameterServerOptions& options);
// Whether servers only sum gradients, and workers update with the sum.
inline bool workers_update(const ParameterServerOptions& options) {
  return options.update == UpdatePlace::workers;
}
// Sets place, bytes and server seconds of a message. Throws as ranks_that_reduce() does.
// REQUIRES: its server, elements, tensors and pieces are set.
ServiceProvenance price(const Job& job, const ParameterServerOptions& options,
                        const std::vector<ServerPlace>& places, PsMessage& message);

// The weighting of stale gradients; absent in the options = by age for modified-async, else none.
Weighting weighting(const ParameterServerOptions& options);

// Bytes of one pushed element on the wire, before compression.
double push_element_bytes(const ParameterServerOptions& options, Precision precision);

// Compute-stream work by which a worker compresses the message's gradients before it pushes them;
// no work without compression.
QueuedWork compression_work(const Job& job, const ParameterServerOptions& options,
                            const PsMessage& message);

}  // namespace lockstep
