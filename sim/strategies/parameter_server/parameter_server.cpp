// The parameter-server strategy: builds the system (build.hpp), plays it (system.hpp), and turns
// the trace into the numbers of a prediction. It also implements the functions that need no
// simulation: options without effect, places of servers, optimizers that do not fit.
#include "strategies/parameter_server/parameter_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/index.hpp"
#include "results/staleness.hpp"
#include "strategies/common/whole_matrices.hpp"
#include "strategies/parameter_server/build.hpp"
#include "strategies/parameter_server/messages.hpp"
#include "strategies/parameter_server/rules/change.hpp"

namespace lockstep {

namespace {

// Bytes and busy share of the links by class, for the report. Bytes are counted on all links of the
// hardware, before simplify(). Every rank pushes and pulls each message once in `batches` optimizer
// steps, so an optimizer step moves 1 / batches of the messages.
std::vector<LinkTraffic> traffic_of(const PsJob& ps, const PsTrace& trace) {
  std::vector<double> pushed(ps.places.size(), 0), pulled(ps.places.size(), 0);
  for (const PsMessage& message : ps.system.messages) {
    pushed[at(message.place)] += message.push_bytes / ps.system.batches;
    pulled[at(message.place)] += message.pull_bytes / ps.system.batches;
  }
  std::vector<double> bytes(ps.links.links.size(), 0);
  const auto count = [&](PsRoute PsLinks::Way::*route, const std::vector<double>& to_place) {
    for (const std::vector<PsLinks::Way>& ways : ps.links.ways) {
      for (std::size_t place = 0; place < ways.size(); ++place) {
        for (const int link : (ways[place].*route).links) bytes[at(link)] += to_place[place];
      }
    }
  };
  count(&PsLinks::Way::push, pushed);
  count(&PsLinks::Way::pull, pulled);

  // A link that is not simulated belongs to one worker. It counts as busy while the busiest worker
  // transfers.
  std::vector<double> busy(ps.links.links.size(), std::max(trace.push_busy, trace.pull_busy));
  for (std::size_t i = 0; i < ps.simulated.size(); ++i) {
    const int id = ps.simulated[i], carrier = ps.links.links[at(id)].part_of;
    busy[at(id)] = trace.link_busy[i];
    if (carrier >= 0) busy[at(carrier)] = std::max(busy[at(carrier)], trace.link_busy[i]);
  }
  // For each class: bytes and busy share of the link with the most bytes, and the sum over all
  // links.
  std::vector<LinkTraffic> result;
  for (std::size_t kind = 0; kind < EnumNames<LinkClass>::names.size(); ++kind) {
    LinkTraffic traffic;
    traffic.link_class = EnumNames<LinkClass>::names[kind];
    for (std::size_t link = 0; link < bytes.size(); ++link) {
      if (static_cast<std::size_t>(ps.links.links[link].kind) != kind) continue;
      if (ps.links.links[link].part_of >= 0) continue;
      if (bytes[link] > traffic.bytes) traffic.busy = busy[link];
      traffic.bytes = std::max(traffic.bytes, bytes[link]);
      traffic.total_bytes += bytes[link];
    }
    if (traffic.total_bytes > 0) result.push_back(traffic);
  }
  return result;
}

// The provenance of the least certain transfer.
Provenance transfer_provenance(const Job& job, const PsSystem& system) {
  Provenance worst = Provenance::measured;
  for (const PsRoute& route : system.routes) {
    if (route.measured == 0) return Provenance::modelled;
    for (const PsMessage& message : system.messages) {
      for (const double bytes : {message.push_bytes, message.pull_bytes}) {
        worst = std::max(worst, measured_copy(job.machine, route, bytes).provenance);
      }
    }
  }
  return worst;
}

// The order of updates in the form that the accuracy replay reads (results/schedule.hpp). Its
// workers are ranks, and its messages are pieces of the model's parameters.
UpdateSchedule schedule_of(const Job& job, const ParameterServerOptions& options,
                           const PsSystem& system, PsTrace& trace) {
  UpdateSchedule schedule;
  schedule.workers = job.mesh.gpus();
  schedule.local_steps = system.batches;
  if (options.consistency == Consistency::elastic) {
    schedule.exchange = Exchange::elastic;
    // The default of alpha in fact 88: W * alpha = 0.9.
    schedule.elasticity = options.elasticity > 0 ? options.elasticity : 0.9 / job.mesh.gpus();
  }
  if (options.push == PushedValues::parameters) {
    schedule.exchange = Exchange::differences;
    schedule.shares = data_shares(job, options);
    schedule.class_concentration = options.data.classes;
    if (const auto* outer = std::get_if<NesterovOuter>(&options.outer)) {
      schedule.outer_rate = outer->learning_rate;
      schedule.outer_momentum = outer->momentum;
    }
  }
  schedule.weighting = weighting(options);
  schedule.weighting_parameter = options.weighting_strength;
  if (std::holds_alternative<HalfPush>(options.compression)) {
    schedule.pushed_as = PushedAs::halves;
  } else if (const auto* top = std::get_if<TopK>(&options.compression)) {
    schedule.pushed_as = PushedAs::largest;
    schedule.largest_share = top->share;
  }
  for (const PsMessage& message : system.messages) schedule.messages.push_back(message.pieces);
  schedule.pushes = std::move(trace.updates);
  return schedule;
}

}  // namespace

// Seconds and parts of the trace are for a step of the system, which is `batches` optimizer steps;
// they are divided by `batches`.
StrategyResult ParameterServer::simulate(const Job& job) const {
  PsJob ps = build_parameter_server(job, options_);
  const PsSystem& system = ps.system;
  // Links that are still simulated may carry several transfers at the same time.
  const bool meet = !system.links.empty();
  const double transfers =
      2.0 * static_cast<double>(system.workers.size() * system.messages.size());
  const Engine engine = choose_engine(job, meet, transfers, system.steady);
  PsTrace trace = run_parameter_server(system, make_executor(engine));

  if (!job.simulation.schedule_file.empty()) {
    write_schedule(schedule_of(job, options_, system, trace), job.simulation.schedule_file);
  }
  // A single worker waits for no other worker, so it does not count as running in step.
  const bool in_step = job.mesh.gpus() > 1 && keeps_step(system, job.mesh.gpus());
  // A step of the system is `batches` optimizer steps of the scenario.
  const double batches = system.batches;
  StrategyResult result;
  result.first_step_seconds = trace.step_ends.front() / batches;
  for (std::size_t i = trace.step_ends.size() - trace.reported; i < trace.step_ends.size(); ++i) {
    result.step_seconds.push_back((trace.step_ends[i] - trace.step_ends[i - 1]) / batches);
  }
  result.engine = engine;
  result.extrapolated = trace.extrapolated;
  result.simulated_steps = static_cast<int>(trace.step_ends.size()) * system.batches;
  result.simulated_micro_batches = job.accumulation;
  add(result.split, trace.split, 1 / batches);
  for (RankTimes& times : trace.workers) {
    for (double* part : {&times.own, &times.communicating, &times.waiting}) *part /= batches;
    if (in_step) times.steps = 1;
  }
  result.ranks = ascending(std::move(trace.workers), system.worker_of_rank);
  result.device_busy = busy_seconds(result.split, result.step_seconds);
  result.samples_per_step = static_cast<double>(job.mesh.gpus()) *
                            static_cast<double>(job.step->samples) * job.accumulation;
  result.traffic = traffic_of(ps, trace);
  result.staleness = staleness_of(trace.staleness);
  // If workers are drawn, their numbers of steps are unequal by design. Only other inequality is
  // reported.
  const bool all_take_part = drawn_workers(options_, job.mesh.gpus()) == job.mesh.gpus();
  if (!in_step && all_take_part) result.worker_steps = worker_steps_of(trace.worker_steps);
  result.phases = !system.later.empty();
  if (trace.dropped > 0) {
    ps.notes.push_back(
        fmt::format("{:.1f} % of the pushes came too late and were dropped: a step is as many "
                    "samples that were used",
                    100 * trace.dropped));
  }
  if (system.controller) {
    ps.notes.push_back(fmt::format(
        "the controller let the workers go on by themselves for {:.0f} % "
        "of the run, in {} stretch{}",
        100 * trace.asynchronous_share, trace.stretches, trace.stretches == 1 ? "" : "es"));
  }
  ps.provenance.add(transfer_provenance(job, ps.system), result.split.exposed_communication);
  result.provenance = ps.provenance.share();
  result.notes = std::move(ps.notes);
  return result;
}

nlohmann::ordered_json ParameterServer::communication(const Job&) const {
  return nlohmann::ordered_json::object();
}

// On CPUs, a server is a process like a rank's, and its update has the cost of a device's.
Updater ParameterServer::updater(const Job& job) const {
  const bool on_cpu = job.machine.device.architecture == Architecture::cpu;
  const bool on_gpu = options_.placement == ServerPlacement::gpu || workers_update(options_);
  return on_cpu || on_gpu ? Updater::device : Updater::servers_host;
}

int ParameterServer::server_hosts() const {
  const bool both = options_.placement == ServerPlacement::worker_and_own_hosts;
  if (both) return options_.own_hosts;
  return options_.placement == ServerPlacement::own_hosts ? options_.servers : 0;
}

// Counts the nodes with ranks on which servers run. If workers update, each worker holds all
// parameters, so one node can write the checkpoint.
int ParameterServer::state_nodes(const Job& job) const {
  if (workers_update(options_)) return 1;
  std::set<int> nodes;
  for (const ServerPlace& place : server_places(job.machine, job.mesh.gpus(), options_)) {
    if (place.node * job.machine.gpus_per_node < job.mesh.gpus()) nodes.insert(place.node);
  }
  return static_cast<int>(nodes.size());
}

// A synchronous update waits for all workers, so the loss of one worker stops the others. This is
// the case for `sync` without backup workers, for a bound of 0, which is equal to `sync`, and for a
// switch or a controller, which are synchronous for a part of the run.
bool ParameterServer::outlives_workers() const {
  const ParameterServerOptions& o = options_;
  const bool sync = o.consistency == Consistency::sync && o.backup_workers == 0;
  const bool bounded =
      o.consistency == Consistency::ssp || o.consistency == Consistency::modified_async;
  const bool bulk = bounded && o.staleness_bound == 0 && o.highest_staleness_bound == 0;
  return !sync && !bulk && !o.switches && !o.controller;
}

// One call of idle_if() for each option that may have no effect: the option, whether it differs
// from its default, whether it is idle, and the reason. learnt_if() names options that change
// accuracy but no time.
std::vector<IdleOption> ParameterServer::idle_options(const Job& job) const {
  IdleOptions idle;
  const ParameterServerOptions usual, &o = options_;
  const bool alone = job.mesh.gpus() == 1;
  const bool on_gpu = o.placement == ServerPlacement::gpu;
  const bool bounded =
      o.consistency == Consistency::ssp || o.consistency == Consistency::modified_async;
  const std::string unbounded = "consistency is not ssp or modified-async";
  idle.idle_if("staleness_bound", o.staleness_bound != usual.staleness_bound, !bounded, unbounded);
  idle.idle_if("highest_staleness_bound", o.highest_staleness_bound > 0, !bounded || alone,
               bounded ? "one worker waits for nobody" : unbounded);
  idle.idle_if("backup_workers", o.backup_workers > 0, o.consistency != Consistency::sync,
               "consistency is not sync");
  const bool splits = o.consistency == Consistency::softsync;
  idle.idle_if("splitting", o.splitting != usual.splitting, !splits || alone,
               splits ? "one worker's pushes are all there is" : "consistency is not softsync");
  const bool elastic = o.consistency == Consistency::elastic;
  idle.idle_if("elasticity", o.elasticity > 0, !elastic, "consistency is not elastic");
  idle.learnt_if("elasticity", o.elasticity > 0, elastic);
  const bool gradients = o.push == PushedValues::gradients;
  const std::string pushes_gradients = "workers push gradients";
  idle.idle_if("outer", steps_outward(o), gradients, pushes_gradients);
  if (const auto* outer = std::get_if<NesterovOuter>(&o.outer)) {
    const NesterovOuter standard;
    idle.learnt_if("outer.nesterov.learning_rate", outer->learning_rate != standard.learning_rate,
                   !gradients);
    idle.learnt_if("outer.nesterov.momentum", outer->momentum != standard.momentum, !gradients);
  }
  idle.idle_if("data.sizes", o.data.sizes > 0, gradients || alone,
               gradients ? pushes_gradients : "one worker has all samples");
  idle.idle_if("data.classes", o.data.classes > 0, gradients || alone,
               gradients ? pushes_gradients : "one worker has all samples");
  idle.learnt_if("data.classes", o.data.classes > 0, !gradients && !alone);
  idle.idle_if("secure_aggregation", o.secure_aggregation > 1, gradients, pushes_gradients);
  idle.idle_if("participants", o.participants.has_value(),
               drawn_workers(o, job.mesh.gpus()) == job.mesh.gpus(), "all workers take part");
  // Without staleness, every weight is 1, and there is no delay to compensate.
  const bool fresh = alone || (o.consistency == Consistency::sync && o.backup_workers == 0 &&
                               !o.switches && !o.controller);
  const Weighting by = weighting(o);
  const bool has_strength = by == Weighting::age || compensates(by);
  const bool strength = o.weighting_strength != usual.weighting_strength;
  idle.idle_if("weighting", o.weighting.has_value(), fresh && !compensates(by),
               "no gradient is stale");
  idle.learnt_if("weighting", o.weighting.has_value(), !fresh && !compensates(by));
  idle.idle_if("weighting_strength", strength, fresh || !has_strength,
               has_strength ? "no gradient is stale" : "weighting is not age nor compensated");
  idle.learnt_if("weighting_strength", strength, !fresh && has_strength);
  idle.idle_if("priority", o.priority, !travel_by_key(job, o),
               "one message is all that waits: it needs overlap, pull_overlap or partition_size");
  const bool halves = std::holds_alternative<HalfPush>(o.compression);
  idle.idle_if("push_compression", halves, gradient_bytes(job.step->precision) <= 2,
               "gradients are of 2 bytes anyway");
  idle.idle_if("switch", o.switches.has_value(), alone, "one worker waits for nobody");
  idle.idle_if("controller", o.controller.has_value(), alone, "one worker waits for nobody");
  const int servers = server_count(job.machine, job.mesh.gpus(), o);
  const bool both = o.placement == ServerPlacement::worker_and_own_hosts;
  idle.idle_if("keys", o.keys != usual.keys, servers == 1, "there is one server");
  idle.idle_if("servers", o.servers != usual.servers, both, "there is one on each host");
  idle.idle_if("own_hosts", o.own_hosts != usual.own_hosts, !both,
               "placement is not worker-and-own-hosts");
  idle.idle_if("server_nic_rate", o.server_nic_rate.has_value(), server_hosts() == 0,
               "no server has a host of its own");
  idle.idle_if("local_reduction", o.local_reduction, alone || job.machine.gpus_per_node == 1,
               "no node has two GPUs");
  idle.idle_if("credit", o.credit > 0, push_window(job, o) == 0,
               o.serial ? "a serial server takes one message at a time"
                        : "one message is all there is: it needs overlap, pull_overlap, "
                          "partition_size or servers");
  // Servers on GPUs need memory for messages under way, and both options change this memory.
  idle.idle_if("consistency", o.consistency != usual.consistency,
               alone && !(on_gpu && o.serial) && o.consistency != Consistency::elastic,
               "one worker waits for nobody");
  idle.idle_if("serial", o.serial, alone && !on_gpu, "one worker meets nobody at the server");
  idle.idle_if("placement", o.placement == ServerPlacement::worker_host,
               o.servers == 1 || job.mesh.gpus() <= job.machine.gpus_per_node,
               "all servers are on the first node's host, as with cpu");
  return idle.take();
}

std::vector<std::string> ParameterServer::not_replayed(const Job&) const {
  if (options_.element_bytes == 2) return {"element_size"};
  return {};
}

// Refuses optimizers that need whole matrices (Muon) if servers update and a matrix may be cut over
// several servers, or if the cost of products on a host is unknown. A rule that may cut tensors is
// refused even if it cuts no tensor of this model.
std::optional<Diagnostic> ParameterServer::optimizer_misfit(const OptimizerSpec& optimizer,
                                                            const Device& device) const {
  if (workers_step(options_) || workers_update(options_)) {
    return std::nullopt;  // the workers update
  }
  const bool on_cores = device.architecture == Architecture::cpu;
  if (options_.placement != ServerPlacement::gpu && !on_cores) {
    return without_whole_matrices(optimizer, "parameter_server.placement",
                                  "nothing says how fast the host's cores multiply them",
                                  "placement: gpu, or consistency: elastic");
  }
  if (options_.partition_bytes > 0) {
    return without_whole_matrices(optimizer, "parameter_server.partition_size",
                                  "partitions cut them", "leave it out");
  }
  const bool cuts = options_.keys == KeyRule::split_large || options_.keys == KeyRule::ranges;
  if (options_.servers > 1 && cuts) {
    return without_whole_matrices(optimizer, "parameter_server.keys",
                                  enum_name(options_.keys) + " cuts them",
                                  "keys: balanced, or hash");
  }
  return std::nullopt;
}

std::unique_ptr<Strategy> make_strategy(const ParameterServerOptions& options) {
  return std::make_unique<ParameterServer>(options);
}

}  // namespace lockstep
