// Messages, compute segments, server costs and workers of a job (see ps_build.hpp).
#include "strategies/parameter_server/build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "costs/optimizer.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

constexpr std::size_t kMostMessages = 4096;  // of one worker and step
// Route updates that a whole run may cost: about a second.
constexpr double kWorkBudget = 3e7;
constexpr int kFewestSteps = 4;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// --- what travels --------------------------------------------------------------------------------

struct Parcel {  // keys that travel together
  int layer = 0;
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

// One message for each server, or, when keys travel by themselves, in the order of backward. Keys
// of a server wait for the next ones until they have `smallest` elements together.
std::vector<Parcel> parcels(const std::vector<Key>& keys, int servers, bool by_key, bool join,
                            double smallest) {
  std::vector<Parcel> result;
  if (!by_key) {
    for (int server = 0; server < servers; ++server) result.push_back({.server = server});
    for (const Key& key : keys) result[at(key.server)].add(key);
    std::erase_if(result, [](const Parcel& parcel) { return parcel.elements == 0; });
    return result;
  }
  std::vector<Key> ordered = keys;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Key& a, const Key& b) { return a.layer > b.layer; });
  std::vector<Parcel> open;  // by server
  for (int server = 0; server < servers; ++server) open.push_back({.server = server});
  const auto send = [&](Parcel& parcel) {
    if (parcel.elements > 0) result.push_back(parcel);
    parcel = {.server = parcel.server};
  };
  for (const Key& key : ordered) {
    Parcel& parcel = open[at(key.server)];
    const bool same_layer = join && parcel.layer == key.layer;
    if (!same_layer && parcel.elements >= smallest) send(parcel);
    parcel.layer = key.layer;
    parcel.add(key);
  }
  for (Parcel& parcel : open) send(parcel);
  std::stable_sort(result.begin(), result.end(),
                   [](const Parcel& a, const Parcel& b) { return a.layer > b.layer; });
  return result;
}

// --- what servers do -----------------------------------------------------------------------------

// Seconds for a gradient of one parcel. The first of an update is copied, others are added: two and
// three times its bytes (facts 75, 80). Servers of one host share its memory bandwidth.
// Returns where they come from: of the sums, of the update.
std::pair<Provenance, Provenance> price_service(const Job& job, const ServerPlaces& places,
                                                const Parcel& parcel, PsMessage& message) {
  // On CPUs a server is a process like a rank, and has a core to itself as long as there are
  // enough.
  const bool on_cores = job.machine.device.architecture == Architecture::cpu;
  const bool on_gpu = places.gpu[at(message.place)] >= 0;
  const double neighbours =
      on_cores ? std::max(1.0, static_cast<double>(places.servers[at(message.place)]) /
                                   job.machine.host.cores)
               : places.servers[at(message.place)];
  if (on_gpu || on_cores) {
    const QueuedWork keep = job.costs->stream(2 * message.push_bytes, parcel.tensors);
    const QueuedWork sum = job.costs->stream(3 * message.push_bytes, parcel.tensors);
    const QueuedWork update =
        job.costs->optimizer(job.optimizer, job.step.precision, parcel.elements, parcel.tensors);
    message.keep_seconds = neighbours * keep.span;
    message.accumulate_seconds = neighbours * sum.span;
    message.update_seconds = neighbours * update.span;
    return {std::max(keep.provenance, sum.provenance), update.provenance};
  }
  // Streaming reaches about 0.8 of the memory bandwidth (fact 128).
  const double rate = 0.8 * job.machine.host.memory_bandwidth / neighbours;
  if (rate > 0) {
    message.keep_seconds = 2 * message.push_bytes / rate;
    message.accumulate_seconds = 3 * message.push_bytes / rate;
  }
  message.update_seconds = neighbours * host_optimizer_seconds(job.optimizer, job.step.precision,
                                                               parcel.elements, job.machine.host);
  return {Provenance::modelled, Provenance::modelled};
}

// --- what workers do -----------------------------------------------------------------------------

void add_segments(const Job& job, const StepCosts& costs, const std::vector<Parcel>& sent,
                  bool overlap, PsSystem& system) {
  const int layers = static_cast<int>(job.step.layers.size());
  std::vector<bool> sends(job.step.layers.size(), false);
  for (const Parcel& parcel : sent) sends[at(parcel.layer)] = true;
  std::vector<int> segment_of(job.step.layers.size(), 0);
  for (int micro = 0; micro < job.accumulation; ++micro) {
    PsSegment forward{Phase::forward, {}, true};
    for (const LayerCost& layer : costs.layers) forward.append({layer.name, layer.forward});
    system.segments.push_back(forward);
    const bool last = micro == job.accumulation - 1;
    PsSegment backward{Phase::backward, {}, false};
    for (int layer = layers - 1; layer >= 0; --layer) {
      backward.append({costs.layers[at(layer)].name, costs.layers[at(layer)].backward});
      segment_of[at(layer)] = static_cast<int>(system.segments.size());
      if (last && overlap && sends[at(layer)] && layer > 0) {
        system.segments.push_back(backward);
        backward = {Phase::backward, {}, false};
      }
    }
    system.segments.push_back(backward);
  }
  double elements = 0;
  int tensors = 0;
  for (const Parcel& parcel : sent) {
    elements += parcel.elements;
    tensors += parcel.tensors;
  }
  if (job.gradient_clipping > 0) {
    system.segments.push_back({Phase::copies,
                               job.costs->stream(clipping_bytes(job.step.precision, elements),
                                                 clipping_launches(elements, tensors)),
                               false,
                               {},
                               "clip_grad_norm_"});
  }
  if (job.machine.device.architecture == Architecture::cpu && !overlap) {
    // One message for all tensors is one piece of memory: no copy engine gathers them on the way.
    const double bytes = elements * gradient_bytes(job.step.precision);
    system.segments.push_back(
        {Phase::copies, job.costs->stream(2 * bytes, tensors), false, {}, "gradients to message"});
  }
  const int end = static_cast<int>(system.segments.size()) - 1;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    system.messages[i].segment = overlap ? segment_of[at(sent[i].layer)] : end;
  }
}

// Ranks with the same routes and speed move in step when they wait for each other and nothing is
// random.
void add_workers(const Job& job, const SimulatedLinks& links, const PsLinks& all,
                 const SharedCores& cores, PsSystem& system) {
  Stragglers fixed = job.stragglers;
  fixed.per_step.reset();
  const std::vector<double> speeds = RankSpeeds(fixed, job.gpus, job.seed, false).factors(0);
  const auto speed_of = [&](int rank) { return speeds.size() == 1 ? speeds[0] : speeds[at(rank)]; };
  const bool fold = system.rule.pushes_per_update == job.gpus && !job.stragglers.per_step;
  system.steady = fold && !system.records_updates;

  const auto core_of = [&](int rank) {
    const auto found = std::find(cores.rank.begin(), cores.rank.end(), rank);
    return found == cores.rank.end() ? -1 : static_cast<int>(found - cores.rank.begin());
  };
  std::map<std::tuple<std::vector<int>, std::vector<int>, double, int>, std::size_t> known;
  std::vector<int> representative;
  for (int rank = 0; rank < job.gpus; ++rank) {
    const auto& push = links.push[at(rank)];
    const auto& pull = links.pull[at(rank)];
    if (fold) {
      const auto [entry, fresh] =
          known.try_emplace({push, pull, speed_of(rank), core_of(rank)}, system.workers.size());
      if (!fresh) {
        ++system.workers[entry->second].ranks;
        system.worker_of_rank.push_back(static_cast<int>(entry->second));
        continue;
      }
    }
    system.worker_of_rank.push_back(static_cast<int>(system.workers.size()));
    system.workers.push_back({1, push, pull, all.one_lane[at(rank)], core_of(rank)});
    representative.push_back(rank);
  }
  std::vector<double> speed;
  for (const int rank : representative) speed.push_back(speed_of(rank));
  const std::optional<Jitter> jitter = job.stragglers.per_step;
  system.factor = [speed, representative, jitter, seed = job.seed](int worker, int step) {
    const double varying = jitter ? draw(*jitter, seed, representative[at(worker)], step) : 1;
    return speed[at(worker)] * varying;
  };
}

}  // namespace

PsRule consistency_rule(const ParameterServerOptions& options, int workers) {
  switch (options.consistency) {
    case Consistency::sync:
      return {workers, 0};
    case Consistency::async:
      return {1, PsRule::kUnbounded};
    case Consistency::ssp:
      // Bound 0 is bulk-synchronous (fact 83): the server can then wait for all gradients as well.
      return options.staleness_bound == 0 ? PsRule{workers, 0} : PsRule{1, options.staleness_bound};
  }
  return {};
}

double push_element_bytes(const ParameterServerOptions& options, Precision precision) {
  return options.element_bytes > 0 ? options.element_bytes : gradient_bytes(precision);
}

double pull_element_bytes(const ParameterServerOptions& options, Precision precision) {
  return options.element_bytes > 0 ? options.element_bytes : parameter_bytes(precision);
}

PsJob build_parameter_server(const Job& job, const ParameterServerOptions& options) {
  PsJob result;
  PsSystem& system = result.system;
  const double push_bytes = push_element_bytes(options, job.step.precision);
  const double pull_bytes = pull_element_bytes(options, job.step.precision);
  const bool overlap = options.overlap && job.gradient_clipping == 0;
  if (options.overlap && !overlap) {
    result.notes.push_back(
        "gradients are pushed after backward: clipping needs the norm of all of them");
  }

  KeyLayout layout{options.servers, options.keys, 0};
  if (options.partition_bytes > 0) {
    layout.partition_elements =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(options.partition_bytes / push_bytes));
    const auto smallest = job.step.parameter_count / static_cast<std::int64_t>(kMostMessages) + 1;
    if (layout.partition_elements < smallest) {
      layout.partition_elements = smallest;
      result.notes.push_back(fmt::format(
          "keys are cut into parts of {:.0f} bytes, not smaller: at most {} messages a step "
          "are simulated",
          static_cast<double>(smallest) * push_bytes, kMostMessages));
    }
  }
  result.keys = make_keys(job.step, layout);
  result.places = server_places(job.machine, job.gpus, options);
  result.links = server_links(job, result.places);
  result.simulated = simplify(result.links, job.network != NetworkKind::analytic);

  system.rule = consistency_rule(options, job.gpus);
  system.progress = job.progress;
  system.observer = job.observer;
  system.records_updates = !job.schedule_file.empty();
  system.servers = options.servers;
  system.places = result.places.count;
  system.serial_servers = options.serial;
  system.input_seconds = job.data_loading_seconds;
  if (!job.input_on_device && job.step.input_bytes > 0 &&
      job.machine.device.architecture != Architecture::cpu) {
    system.input_copy_seconds =
        job.communication_scale *
        host_device_copy(job.machine, job.step.input_bytes).seconds(job.step.input_bytes);
  }
  system.links = result.simulated.capacity;
  for (const int link : result.simulated.original) {
    const LinkClass kind = result.links.links[at(link)].kind;
    system.link_names.push_back(EnumNames<LinkClass>::names[static_cast<std::size_t>(kind)]);
  }
  system.routes = result.simulated.routes;

  const bool measured = std::any_of(system.routes.begin(), system.routes.end(),
                                    [](const PsRoute& route) { return route.measured > 0; });
  if (measured) {
    system.flow_bytes = [machine = job.machine, routes = system.routes,
                         scale = job.communication_scale](int id, double bytes, bool one_core) {
      const PsRoute& route = routes[at(id)];
      if (route.measured == 0) return bytes;
      const CopyCost copy = measured_copy(machine, route, bytes);
      const double slowdown = one_core ? copy.one_core_slowdown : 1;
      return copy.seconds(bytes) * slowdown * scale * route.cap;
    };
  }
  // Without interference everybody computes as if alone.
  if (job.interference) {
    const SharedCores cores = shared_cores(job, result.places);
    system.server_core = cores.of_server;
    system.shared_cores = static_cast<int>(cores.rank.size());
    add_workers(job, result.simulated, result.links, cores, system);
  } else {
    add_workers(job, result.simulated, result.links, {}, system);
  }

  const bool by_key = overlap || options.partition_bytes > 0;
  const bool join = options.partition_bytes == 0;
  const double work_of_a_message =
      4.0 * static_cast<double>(system.workers.size()) * static_cast<double>(system.routes.size());
  const double most = std::max(1.0, kWorkBudget / (kFewestSteps + 1) / work_of_a_message);
  std::vector<Parcel> sent = parcels(result.keys, options.servers, by_key, join, 0);
  if (by_key && static_cast<double>(sent.size()) > most) {
    const std::size_t wanted = sent.size();
    sent = parcels(result.keys, options.servers, by_key, join,
                   static_cast<double>(job.step.parameter_count) / most);
    result.notes.push_back(
        fmt::format("keys travel in {} messages instead of {}: so many take long "
                    "to simulate",
                    sent.size(), wanted));
  }
  for (const Parcel& parcel : sent) {
    PsMessage message;
    message.server = parcel.server;
    message.name = by_key ? std::string_view(job.step.layers[at(parcel.layer)].name) : "all keys";
    message.place = result.places.of_server[at(parcel.server)];
    message.push_bytes = parcel.elements * push_bytes;
    message.pull_bytes = parcel.elements * pull_bytes;
    message.pieces = parcel.pieces;
    const auto [sums, update] = price_service(job, result.places, parcel, message);
    // In the step of all workers, on the mean server.
    const double share = 1.0 / options.servers;
    if (system.rule.pushes_per_update == 1) {
      result.provenance.add(update, share * job.gpus * message.update_seconds);
    } else {
      result.provenance.add(
          sums, share * (message.keep_seconds + (job.gpus - 1) * message.accumulate_seconds));
      result.provenance.add(update, share * message.update_seconds);
    }
    system.messages.push_back(message);
  }
  result.provenance.add(Provenance::modelled, job.accumulation * system.input_copy_seconds);
  const StepCosts costs = step_costs(job);
  for (const LayerCost& layer : costs.layers) {
    result.provenance.add(layer.forward, job.accumulation);
    result.provenance.add(layer.backward, job.accumulation);
  }
  add_segments(job, costs, sent, overlap, system);
  for (const PsSegment& segment : system.segments) {
    if (segment.phase == Phase::copies) result.provenance.add(segment.work);
  }

  const double work =
      work_of_a_message * static_cast<double>(std::max<std::size_t>(1, system.messages.size()));
  const int affordable =
      std::max(kFewestSteps, static_cast<int>(std::min(1e9, kWorkBudget / work)));
  system.steps = std::min(std::max(1, job.steps), affordable) + 1;
  if (!system.steady && affordable < job.steps) {
    result.notes.push_back(fmt::format(
        "{} steps are simulated instead of {}: so many messages take long", affordable, job.steps));
  }
  const double uneven = imbalance(result.keys, options.servers);
  if (uneven > 1.05) {
    result.notes.push_back(
        fmt::format("the fullest server holds {:.2f} times its share of the parameters", uneven));
  }
  return result;
}

}  // namespace lockstep
