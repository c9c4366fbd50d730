// The parameter-server strategy: build the system, play it, say what happened.
#include "strategies/parameter_server/parameter_server.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "results/staleness.hpp"
#include "strategies/parameter_server/build.hpp"

namespace lockstep {

namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

// Every rank pushes and pulls each message once per step.
std::vector<LinkTraffic> traffic_of(const PsJob& ps, const PsTrace& trace) {
  std::vector<double> pushed(at(ps.places.count), 0), pulled(at(ps.places.count), 0);
  for (const PsMessage& message : ps.system.messages) {
    pushed[at(message.place)] += message.push_bytes;
    pulled[at(message.place)] += message.pull_bytes;
  }
  std::vector<double> bytes(ps.links.links.size(), 0);
  const auto count = [&](const std::vector<std::vector<PsRoute>>& routes,
                         const std::vector<double>& to_place) {
    for (const std::vector<PsRoute>& of_rank : routes) {
      for (std::size_t place = 0; place < of_rank.size(); ++place) {
        for (const int link : of_rank[place].links) bytes[at(link)] += to_place[place];
      }
    }
  };
  count(ps.links.push, pushed);
  count(ps.links.pull, pulled);

  // Links that are not simulated as such belong to one worker and are busy when it transfers.
  std::vector<double> busy(ps.links.links.size(), std::max(trace.push_busy, trace.pull_busy));
  for (std::size_t i = 0; i < ps.simulated.original.size(); ++i) {
    const int id = ps.simulated.original[i], carrier = ps.links.links[at(id)].part_of;
    busy[at(id)] = trace.link_busy[i];
    if (carrier >= 0) busy[at(carrier)] = std::max(busy[at(carrier)], trace.link_busy[i]);
  }
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

// Of the least certain transfer.
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

// As the replay takes it: workers are ranks, keys with their places in the model.
UpdateSchedule schedule_of(const Job& job, const PsSystem& system, PsTrace& trace) {
  UpdateSchedule schedule;
  schedule.workers = job.gpus;
  for (const PsMessage& message : system.messages) schedule.messages.push_back(message.pieces);
  schedule.pushes = std::move(trace.updates);
  return schedule;
}

}  // namespace

StrategyResult ParameterServer::simulate(const Job& job) const {
  PsJob ps = build_parameter_server(job, options_);
  const PsSystem& system = ps.system;
  // Links that are still simulated may carry several transfers at a time.
  const bool meet = !system.links.empty();
  const double transfers =
      2.0 * static_cast<double>(system.workers.size() * system.messages.size());
  const Engine engine = choose_engine(job, meet, transfers, system.steady);
  PsTrace trace = run_parameter_server(system, make_executor(engine));

  if (!job.schedule_file.empty()) {
    write_schedule(schedule_of(job, system, trace), job.schedule_file);
  }
  StrategyResult result;
  result.first_step_seconds = trace.step_ends.front();
  for (std::size_t i = trace.step_ends.size() - trace.reported; i < trace.step_ends.size(); ++i) {
    result.step_seconds.push_back(trace.step_ends[i] - trace.step_ends[i - 1]);
  }
  result.engine = engine;
  result.extrapolated = trace.extrapolated;
  result.simulated_steps = static_cast<int>(trace.step_ends.size());
  result.split = trace.split;
  result.device_busy = busy_seconds(result.split, result.step_seconds);
  result.samples_per_step =
      static_cast<double>(job.gpus) * static_cast<double>(job.step.samples) * job.accumulation;
  result.traffic = traffic_of(ps, trace);
  result.staleness = staleness_of(trace.staleness);
  if (ps.system.rule.pushes_per_update == 1) {
    result.worker_steps = worker_steps_of(trace.worker_steps);
  }
  result.memory = parameter_server_memory(job, options_, ps.keys);
  ps.provenance.add(transfer_provenance(job, ps.system), result.split.exposed_communication);
  result.provenance = ps.provenance.share();
  result.notes = std::move(ps.notes);
  return result;
}

MemoryUse ParameterServer::memory(const Job& job) const {
  return parameter_server_memory(job, options_, build_parameter_server(job, options_).keys);
}

nlohmann::ordered_json ParameterServer::communication(const Job&) const {
  return nlohmann::ordered_json::object();
}

Updater ParameterServer::updater(const Job& job) const {
  const bool on_cpu = job.machine.device.architecture == Architecture::cpu;
  return on_cpu || options_.placement == ServerPlacement::gpu ? Updater::device
                                                              : Updater::servers_host;
}

std::vector<IdleOption> ParameterServer::idle_options(const Job& job) const {
  IdleOptions idle;
  const ParameterServerOptions usual, &o = options_;
  const bool alone = job.gpus == 1;
  const bool on_gpu = o.placement == ServerPlacement::gpu;
  idle.idle_if("staleness_bound", o.staleness_bound != usual.staleness_bound,
               o.consistency != Consistency::ssp, "consistency is not ssp");
  idle.idle_if("keys", o.keys != usual.keys, o.servers == 1, "there is one server");
  // Servers on GPUs need memory for what is under way, which both decide.
  idle.idle_if("consistency", o.consistency != usual.consistency, alone && !(on_gpu && o.serial),
               "one worker waits for nobody");
  idle.idle_if("serial", o.serial, alone && !on_gpu, "one worker meets nobody at the server");
  idle.idle_if("placement", o.placement == ServerPlacement::worker_host,
               o.servers == 1 || job.gpus <= job.machine.gpus_per_node,
               "all servers are on the first node's host, as with cpu");
  return idle.take();
}

std::unique_ptr<Strategy> make_strategy(const ParameterServerOptions& options) {
  return std::make_unique<ParameterServer>(options);
}

}  // namespace lockstep
