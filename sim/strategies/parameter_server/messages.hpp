// The messages of a step, and the cost of each for a server. Used while a system is built
// (build.hpp). Private to the room.
#pragma once

#include <vector>

#include "strategies/parameter_server/keys.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

// The messages of a step: one message for each server, or, when keys travel by themselves, messages
// in the order of backward. Keys of a server wait for the next ones until they have `smallest`
// elements together. `join`: keys of a layer travel together. Prices and places are not set.
std::vector<PsMessage> make_messages(std::vector<Key> keys, int servers, bool by_key, bool join,
                                     double smallest);
// Whether gradients are pushed as soon as they are ready: clipping needs the norm of all of them.
bool pushes_overlap(const Job& job, const ParameterServerOptions& options);
// Whether each key is a message by itself, instead of one message for all keys of a server.
bool travel_by_key(const Job& job, const ParameterServerOptions& options);

// The sources of a server's seconds for a message.
struct ServiceProvenance {
  Provenance sums = Provenance::modelled, update = Provenance::modelled;
};
// Number of messages that a worker may push at a time. 0 = one to each server; also used if there
// is one message only, or if a serial server takes messages one by one.
int push_window(const Job& job, const ParameterServerOptions& options);
// Number of ranks that push one gradient together: the ranks of a node with local_reduction, else
// 1. Throws ConfigError if nodes have unequal numbers of ranks.
int ranks_that_reduce(const Job& job, const ParameterServerOptions& options);
inline bool workers_update(const ParameterServerOptions& options) {
  return options.update == UpdatePlace::workers;
}
// Sets place, bytes and seconds of a message.
ServiceProvenance price(const Job& job, const ParameterServerOptions& options,
                        const std::vector<ServerPlace>& places, PsMessage& message);

// By age for modified-async unless the options say otherwise.
Weighting weighting(const ParameterServerOptions& options);

// Bytes of one pushed element on the wire, without compression.
double push_element_bytes(const ParameterServerOptions& options, Precision precision);

// Compute-stream work of a worker before it pushes the message.
QueuedWork compression_work(const Job& job, const ParameterServerOptions& options,
                            const PsMessage& message);

}  // namespace lockstep
