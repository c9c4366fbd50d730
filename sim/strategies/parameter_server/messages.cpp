// See messages.hpp.
#include "strategies/parameter_server/messages.hpp"

#include <algorithm>

#include "core/index.hpp"
#include "costs/optimizer.hpp"

namespace lockstep {

namespace {

// Of one element, on the wire: its number, and an index of 32 bits.
constexpr double index_bytes = 4;

// PyTorch's top-k over one long row selects by radix, 8 of 32 bits in each pass over the data, and
// then gathers (aten/src/ATen/native/cuda/TensorTopK.cu, mbtopk): five times read.
constexpr double top_k_passes = 5;
// What is left out is kept for the next step (Lin et al. 2018): read it and the gradient, write the
// sum, and clear what is sent.
constexpr double feedback_passes = 3;
constexpr int top_k_launches = 14;  // of one tensor: three of each pass, gather and feedback

double streaming_seconds(const Job& job, bool on_device, double bytes, int tensors,
                         double neighbours) {
  if (on_device) return neighbours * job.costs->stream(bytes, tensors).span;
  // Streaming reaches about 0.8 of the memory bandwidth (fact 128).
  const double rate = 0.8 * job.machine.host.memory_bandwidth / neighbours;
  return rate > 0 ? bytes / rate : 0;
}

}  // namespace

std::vector<Bundle> bundles(const std::vector<Key>& keys, int servers, bool by_key, bool join,
                            double smallest) {
  std::vector<Bundle> result;
  if (!by_key) {
    for (int server = 0; server < servers; ++server) result.push_back({.server = server});
    for (const Key& key : keys) result[at(key.server)].add(key);
    std::erase_if(result, [](const Bundle& bundle) { return bundle.elements == 0; });
    return result;
  }
  std::vector<Key> ordered = keys;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Key& a, const Key& b) { return a.layer > b.layer; });
  std::vector<Bundle> open;  // by server
  for (int server = 0; server < servers; ++server) open.push_back({.server = server});
  const auto send = [&](Bundle& bundle) {
    if (bundle.elements > 0) result.push_back(bundle);
    bundle = {.server = bundle.server};
  };
  for (const Key& key : ordered) {
    Bundle& bundle = open[at(key.server)];
    const bool same_layer = join && bundle.layer == key.layer;
    if (!same_layer && bundle.elements >= smallest) send(bundle);
    bundle.layer = key.layer;
    bundle.add(key);
  }
  for (Bundle& bundle : open) send(bundle);
  std::stable_sort(result.begin(), result.end(),
                   [](const Bundle& a, const Bundle& b) { return a.layer > b.layer; });
  return result;
}

double elasticity(const ParameterServerOptions& options, int workers) {
  return options.elasticity > 0 ? options.elasticity : 0.9 / workers;
}

Weighting weighting(const ParameterServerOptions& options) {
  const bool by_age = options.consistency == Consistency::modified_async;
  return options.weighting.value_or(by_age ? Weighting::age : Weighting::none);
}

double push_element_bytes(const ParameterServerOptions& options, Precision precision) {
  if (options.element_bytes > 0) return options.element_bytes;
  const bool weights = options.consistency == Consistency::elastic;
  return weights ? parameter_bytes(precision) : gradient_bytes(precision);
}

double pull_element_bytes(const ParameterServerOptions& options, Precision precision) {
  return options.element_bytes > 0 ? options.element_bytes : parameter_bytes(precision);
}

// The first gradient of an update is copied, others are added: two and three times its bytes (facts
// 75, 80), less where few of its elements came. Servers of one host share its memory bandwidth.
PricedMessage price_message(const Job& job, const ParameterServerOptions& options,
                            const std::vector<ServerPlace>& places, const Bundle& bundle) {
  PricedMessage priced;
  PsMessage& message = priced.message;
  message.server = bundle.server;
  message.place = static_cast<int>(at(bundle.server) % places.size());
  message.priority = bundle.layer;
  message.pieces = bundle.pieces;
  const double dense = bundle.elements * push_element_bytes(options, job.step->precision);
  message.push_bytes = dense;
  message.pull_bytes = bundle.elements * pull_element_bytes(options, job.step->precision);
  double added = 2 * dense;  // read and written to add a gradient to the sum
  if (std::holds_alternative<HalfPush>(options.compression)) {
    message.push_bytes = std::min(dense, 2 * bundle.elements);
  } else if (const auto* top = std::get_if<TopK>(&options.compression)) {
    message.push_bytes = top->share * (dense + index_bytes * bundle.elements);
    added = 2 * top->share * dense;
  }

  // On CPUs a server is a process like a rank, and has a core to itself as long as there are
  // enough.
  const ServerPlace& place = place_of(places, bundle.server);
  const bool on_cores = job.machine.device.architecture == Architecture::cpu;
  const bool on_device = on_cores || place.gpu >= 0;
  const double servers = place.servers;
  const double neighbours = on_cores ? std::max(1.0, servers / job.machine.host.cores) : servers;
  const auto streaming = [&](double bytes) {
    return streaming_seconds(job, on_device, bytes, bundle.tensors, neighbours);
  };
  priced.sums = priced.update = Provenance::modelled;
  message.keep_seconds = streaming(message.push_bytes + dense);
  message.accumulate_seconds = streaming(message.push_bytes + added);
  if (on_device) {
    priced.sums =
        std::max(job.costs->stream(message.push_bytes + dense, bundle.tensors).provenance,
                 job.costs->stream(message.push_bytes + added, bundle.tensors).provenance);
  }
  if (options.consistency == Consistency::elastic) {
    // Both sets of weights are read, the server's and the answer are written (fact 88).
    message.update_seconds = streaming(4 * dense);
    priced.update = priced.sums;
    return priced;
  }
  if (on_device) {
    std::vector<int> tensors;
    for (const ParameterPiece& piece : bundle.pieces) tensors.push_back(piece.parameter);
    const QueuedWork update = job.costs->optimizer(
        of_tensors(job.optimizer, tensors), job.step->precision, bundle.elements, bundle.tensors);
    message.update_seconds = neighbours * update.span;
    priced.update = update.provenance;
  } else {
    message.update_seconds = neighbours * host_optimizer_seconds(job.optimizer, job.step->precision,
                                                                 bundle.elements, job.machine.host);
  }
  if (const Weighting by = weighting(options); compensates(by)) {
    // The weights that the worker read are kept, and read again for its gradient (fact 85); the
    // adaptive lambda's mean square is read and written.
    const double streams = by == Weighting::compensated_adaptive ? 4 : 2;
    message.update_seconds +=
        streaming(streams * bundle.elements * parameter_bytes(job.step->precision));
  }
  return priced;
}

QueuedWork compression_work(const Job& job, const ParameterServerOptions& options,
                            const Bundle& bundle) {
  const double bytes = gradient_bytes(job.step->precision);
  if (std::holds_alternative<HalfPush>(options.compression) && bytes > 2) {
    return job.costs->stream((bytes + 2) * bundle.elements, bundle.tensors);  // a cast
  }
  if (std::holds_alternative<TopK>(options.compression)) {
    return job.costs->stream((top_k_passes + feedback_passes) * bytes * bundle.elements,
                             top_k_launches * bundle.tensors);
  }
  return {};
}

}  // namespace lockstep
