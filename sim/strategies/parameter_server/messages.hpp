// What workers push and pull, in pieces, and what each piece costs a server. Private to the room.
#pragma once

#include <utility>
#include <vector>

#include "strategies/parameter_server/keys.hpp"
#include "strategies/parameter_server/links.hpp"
#include "strategies/parameter_server/system.hpp"

namespace lockstep {

struct Bundle {   // keys that travel together
  int layer = 0;  // of theirs, the first of the model
  int server = 0;
  double elements = 0;
  int tensors = 0;
  int last_tensor = -1;
  std::vector<ParameterPiece> pieces{};

  void add(const Key& key) {
    elements += static_cast<double>(key.elements);
    if (key.tensor != last_tensor) ++tensors;
    last_tensor = key.tensor;
    pieces.push_back({key.tensor, key.first, key.elements});
  }
};

// One for each server, or, when keys travel by themselves, in the order of backward. Keys of a
// server wait for the next ones until they have `smallest` elements together; `join`: those of a
// layer travel together.
std::vector<Bundle> bundles(const std::vector<Key>& keys, int servers, bool by_key, bool join,
                            double smallest);

struct PricedMessage {
  PsMessage message;
  Provenance sums, update;
};
PricedMessage price_message(const Job& job, const ParameterServerOptions& options,
                            const std::vector<ServerPlace>& places, const Bundle& bundle);

// What the options leave open. elasticity: fact 88's alpha, so that workers times it are 0.9.
double elasticity(const ParameterServerOptions& options, int workers);
Weighting weighting(const ParameterServerOptions& options);

// Bytes of one element on the wire, without compression.
double push_element_bytes(const ParameterServerOptions& options, Precision precision);
double pull_element_bytes(const ParameterServerOptions& options, Precision precision);

// Of a worker, before the bundle is pushed: compute-stream work of the compression.
QueuedWork compression_work(const Job& job, const ParameterServerOptions& options,
                            const Bundle& bundle);

}  // namespace lockstep
