// Divides keys into messages, and computes the server's work on each message from its bytes: a
// server copies the first gradient of an update, adds the others, and runs the optimizer. Facts 75,
// 80, 85 and 88 give the bytes, fact 128 the rate of a host's memory.
#include "strategies/parameter_server/messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.hpp"
#include "core/index.hpp"
#include "costs/collective.hpp"
#include "costs/optimizer.hpp"
#include "strategies/common/top_k.hpp"

namespace lockstep {

namespace {

// Bytes of one element's index in a message: a 32-bit number.
constexpr double index_bytes = 4;

}  // namespace

// If workers update, they clip the sum that they have pulled, so pushes need not wait for the norm.
bool pushes_overlap(const Job& job, const ParameterServerOptions& options) {
  return options.overlap && (job.gradient_clipping == 0 || workers_update(options));
}

int push_window(const Job& job, const ParameterServerOptions& options) {
  const bool one =
      !travel_by_key(job, options) && server_count(job.machine, job.mesh.gpus(), options) == 1;
  return one || options.serial ? 0 : options.credit;
}

int ranks_that_reduce(const Job& job, const ParameterServerOptions& options) {
  const int ranks = job.mesh.gpus(), of_node = std::min(ranks, job.machine.gpus_per_node);
  if (!options.local_reduction) return 1;
  if (ranks % of_node != 0) {
    throw file_error("", "parameter_server.local_reduction",
                     fmt::format("{} GPUs leave a node of {} incomplete", ranks, of_node),
                     fmt::format("a multiple of {} GPUs", of_node));
  }
  return of_node;
}

bool travel_by_key(const Job& job, const ParameterServerOptions& options) {
  return pushes_overlap(job, options) || options.pull_overlap || options.partition_bytes > 0;
}

std::vector<PsMessage> make_messages(std::vector<Key> keys, int servers, bool by_key, bool join,
                                     double smallest) {
  const auto back_first = [](const auto& a, const auto& b) { return a.layer > b.layer; };
  if (by_key) std::stable_sort(keys.begin(), keys.end(), back_first);
  // Each server has one open message. Keys are added to it until send() closes it.
  std::vector<PsMessage> result, open;
  for (int server = 0; server < servers; ++server) open.push_back({.server = server});
  const auto send = [&](PsMessage& message) {
    if (message.elements > 0) result.push_back(message);
    message = {.server = message.server};
  };
  for (const Key& key : keys) {
    PsMessage& message = open[at(key.server)];
    const bool same_layer = join && message.layer == key.layer;
    if (by_key && !same_layer && message.elements >= smallest) send(message);
    // Keys are sorted from back to front, so this layer is the frontmost.
    if (by_key) message.layer = key.layer;
    message.elements += static_cast<double>(key.elements);
    std::vector<ParameterPiece>& pieces = message.pieces;
    // Parts of one tensor follow each other, and count as one tensor.
    if (pieces.empty() || pieces.back().parameter != key.tensor) ++message.tensors;
    pieces.push_back({key.tensor, key.first, key.elements});
  }
  for (PsMessage& message : open) send(message);
  std::stable_sort(result.begin(), result.end(), back_first);
  return result;
}

Weighting weighting(const ParameterServerOptions& options) {
  const bool by_age = options.consistency == Consistency::modified_async;
  return options.weighting.value_or(by_age ? Weighting::age : Weighting::none);
}

double push_element_bytes(const ParameterServerOptions& options, Precision precision) {
  if (options.element_bytes > 0) return options.element_bytes;
  return workers_step(options) ? parameter_bytes(precision) : gradient_bytes(precision);
}

namespace {

// Sets the bytes of a push and of a pull. Returns the bytes of the sum that a server reads and
// writes to add the gradient: twice the bytes of the uncompressed gradient, or with top_k, twice
// its pushed share.
double set_bytes(const ParameterServerOptions& options, Precision precision, PsMessage& message) {
  const double pulled = options.element_bytes > 0 ? options.element_bytes
                        : workers_update(options) ? gradient_bytes(precision)
                                                  : parameter_bytes(precision);
  const double dense = message.elements * push_element_bytes(options, precision);
  message.pull_bytes = message.elements * pulled;
  message.push_bytes = dense;
  if (options.push == PushedValues::parameters) message.push_bytes *= options.secure_aggregation;
  if (std::holds_alternative<HalfPush>(options.compression)) {
    message.push_bytes = std::min(dense, 2 * message.elements);
  } else if (const auto* top = std::get_if<TopK>(&options.compression)) {
    message.push_bytes = top->share * (dense + index_bytes * message.elements);
    return 2 * top->share * dense;
  }
  return 2 * dense;
}

// Adjusts a message for `ranks` ranks of a node that reduce before they push (local_reduction).
// Each rank pushes and pulls 1 / ranks of the node's sum, and a server does the work of one push
// for each node: it stores the first push and adds the pushes of the other nodes. PsSystem counts
// pushes of ranks, and any rank may be the first. Therefore each of the W ranks' pushes takes the
// mean time, (keep + (nodes - 1) accumulate) / W.
void reduce_locally(const Job& job, int ranks, double element_bytes, PsMessage& message) {
  if (ranks == 1) return;
  const int all = job.mesh.gpus(), nodes = all / ranks;
  message.push_bytes /= ranks;
  message.pull_bytes /= ranks;
  message.keep_seconds = (message.keep_seconds + (nodes - 1) * message.accumulate_seconds) / all;
  message.accumulate_seconds = message.keep_seconds;
  const CommGroup node = group_of(job.machine, ranks);
  const double bytes = message.elements * element_bytes;
  const auto seconds = [&](Collective collective) {
    return job.communication_scale *
           collective_cost(job.machine, node, collective, bytes).seconds();
  };
  message.reduce_seconds = seconds(Collective::reduce_scatter);
  message.gather_seconds = seconds(Collective::all_gather);
}

}  // namespace

// Memory traffic of a server for a push of p bytes, whose gradient has d bytes without compression
// (facts 75, 80; without compression p = d):
//   keep        p + d    the push is read, and the sum is written
//   accumulate  p + 2 d  the push and the sum are read, and the sum is written; with top_k, only
//                        the pushed share of the sum is read and written
//   update      by the optimizer, or by the streams that the code below counts
// Servers on one host share its memory bandwidth, servers on one GPU share the device, and server
// processes on CPUs share the cores of their host.
ServiceProvenance price(const Job& job, const ParameterServerOptions& options,
                        const std::vector<ServerPlace>& places, PsMessage& message) {
  const Precision precision = job.step->precision;
  const double dense = message.elements * push_element_bytes(options, precision);
  const double added = set_bytes(options, precision, message);
  // On CPUs, a server is a process like a rank. It has a core of its own as long as there are
  // enough.
  message.place = static_cast<int>(at(message.server) % places.size());
  const ServerPlace& place = places[at(message.place)];
  const bool on_cores = job.machine.device.architecture == Architecture::cpu;
  const bool on_device = on_cores || place.gpu >= 0;
  // `neighbours` is the factor on the time of each server's work, because this many servers share a
  // resource.
  const double servers = place.servers;
  const double neighbours = on_cores ? std::max(1.0, servers / job.machine.host.cores) : servers;
  ServiceProvenance provenance;
  // A stream on a host reaches about 0.8 of the host's memory bandwidth (fact 128).
  const double host_rate = 0.8 * job.machine.host.memory_bandwidth / neighbours;
  const auto streaming = [&](double bytes) {
    if (!on_device) return host_rate > 0 ? bytes / host_rate : 0;
    return neighbours * job.costs->stream(bytes, message.tensors).span;
  };
  message.keep_seconds = streaming(message.push_bytes + dense);
  message.accumulate_seconds = streaming(message.push_bytes + added);
  if (on_device) {
    provenance.sums =
        std::max(job.costs->stream(message.push_bytes + dense, message.tensors).provenance,
                 job.costs->stream(message.push_bytes + added, message.tensors).provenance);
  }
  reduce_locally(job, ranks_that_reduce(job, options), push_element_bytes(options, precision),
                 message);
  if (workers_update(options)) return provenance;
  if (options.consistency == Consistency::elastic) {
    // The server's weights and the pushed weights are read; the server's weights and the answer are
    // written (fact 88).
    message.update_seconds = streaming(4 * dense);
    provenance.update = provenance.sums;
    return provenance;
  }
  if (options.push == PushedValues::parameters) {
    // The sum and the parameters are read, and the parameters are written. With an outer momentum,
    // the momentum is read and written.
    message.update_seconds = streaming((steps_outward(options) ? 5 : 3) * dense);
    provenance.update = provenance.sums;
    return provenance;
  }
  if (on_device) {
    std::vector<int> tensors;
    for (const ParameterPiece& piece : message.pieces) tensors.push_back(piece.parameter);
    const QueuedWork update = job.costs->optimizer(of_tensors(job.optimizer, tensors), precision,
                                                   message.elements, message.tensors);
    message.update_seconds = neighbours * update.span;
    provenance.update = update.provenance;
  } else {
    message.update_seconds =
        neighbours *
        host_optimizer_seconds(job.optimizer, precision, message.elements, job.machine.host);
  }
  if (const Weighting by = weighting(options); compensates(by)) {
    // Two streams: the weights that the worker pulls are written to a copy, and the copy is read
    // for the worker's next gradient (fact 85). The adaptive lambda needs two more: its mean square
    // is read and written.
    const double streams = by == Weighting::compensated_adaptive ? 4 : 2;
    message.update_seconds += streaming(streams * message.elements * parameter_bytes(precision));
  }
  return provenance;
}

// A cast reads the gradients and writes 2 bytes for each element. top_k_work() computes the cost of
// a selection.
QueuedWork compression_work(const Job& job, const ParameterServerOptions& options,
                            const PsMessage& message) {
  const double bytes = gradient_bytes(job.step->precision);
  if (std::holds_alternative<HalfPush>(options.compression) && bytes > 2) {
    return job.costs->stream((bytes + 2) * message.elements, message.tensors);
  }
  if (std::holds_alternative<TopK>(options.compression)) {
    return top_k_work(*job.costs, bytes * message.elements, message.tensors);
  }
  return {};
}

}  // namespace lockstep
