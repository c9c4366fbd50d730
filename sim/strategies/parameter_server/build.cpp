// Builds a parameter-server system from a job: servers and their places, keys, links, rules,
// workers, messages, compute, and the number of steps, in this order (build_parameter_server()).
// Limits on messages and steps keep the duration of a run at about a second. Each limit that
// applies adds a note for the user.
#include "strategies/parameter_server/build.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/index.hpp"
#include "strategies/parameter_server/messages.hpp"

namespace lockstep {

namespace {

constexpr std::size_t most_messages = 4096;  // of one worker in a step
// Number of updates of a route's rate that a whole run may need: about a second.
constexpr double kWorkBudget = 3e7;
constexpr int fewest_steps = 4;

// n-softsync updates after floor(workers / n) pushes. If n does not divide the number of workers,
// several n are the same rule. The note reports the number of updates in a round, and an equal n.
void note_uneven_splitting(const ParameterServerOptions& options, int workers, PsJob& result) {
  if (options.consistency != Consistency::softsync || workers == 1) return;
  if (workers % options.splitting == 0) return;
  const int pushes = std::max(1, workers / options.splitting);
  const std::string each = pushes == 1 ? "each push" : fmt::format("every {} pushes", pushes);
  const std::string same =
      workers % pushes == 0 ? fmt::format(", as splitting {}", workers / pushes) : "";
  result.notes.push_back(
      fmt::format("splitting {} of {} workers is an update for {}: {:.3g} in a round of all "
                  "workers{}",
                  options.splitting, workers, each, static_cast<double>(workers) / pushes, same));
}

// Sets the key layout and the keys. If there would be more than most_messages parts of keys, the
// parts are made larger than the user's size.
void choose_keys(const Job& job, const ParameterServerOptions& options, PsJob& ps) {
  KeyLayout& layout = ps.layout;
  layout = {ps.servers, options.keys};
  if (options.placement == ServerPlacement::worker_and_own_hosts && options.own_hosts > 0) {
    layout.own = options.own_hosts;
    layout.own_share = share_of_cpu_machine(ps.servers - layout.own, layout.own);
  }
  if (options.partition_bytes > 0) {
    const double bytes = push_element_bytes(options, job.step->precision);
    layout.partition_elements =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(options.partition_bytes / bytes));
    const auto smallest = job.step->parameter_count / static_cast<std::int64_t>(most_messages) + 1;
    if (layout.partition_elements < smallest) {
      layout.partition_elements = smallest;
      ps.notes.push_back(fmt::format(
          "keys are cut into parts of {:.0f} bytes, not smaller: at most {} messages a step "
          "are simulated",
          static_cast<double>(smallest) * bytes, most_messages));
    }
  }
  ps.keys = make_keys(*job.step, layout);
}

// Sets the rule and its changes during the run. A single worker waits for no other worker, so its
// rule never changes.
void add_rules(const Job& job, const ParameterServerOptions& options, PsSystem& system) {
  const std::uint64_t seed = job.simulation.seed;
  system.rule = consistency_rule(options, job.mesh.gpus(), seed);
  if (job.mesh.gpus() == 1) return;
  system.controller = options.controller;
  if (!options.switches) return;
  ParameterServerOptions next;
  next.consistency = options.switches->to;
  system.later.push_back({options.switches->at, consistency_rule(next, job.mesh.gpus(), seed)});
}

// Sets the loader's time, and the copy of a micro-batch to the device. There is no copy on CPUs, or
// if the input is made on the device.
void add_input(const Job& job, PsSystem& system) {
  const double bytes = job.step->input_bytes;
  system.input_seconds = job.data_loading_seconds;
  if (job.input_on_device || bytes <= 0) return;
  if (job.machine.device.architecture == Architecture::cpu) return;
  system.input_copy_seconds =
      job.communication_scale * host_device_copy(job.machine, bytes).seconds(bytes);
}

// Names the simulated links, adds the changes of their capacity, and sets PsSystem::flow if a route
// has a measured curve. The number of a flow's bytes is chosen such that the flow takes the
// measured seconds at the route's cap: bytes = seconds * cap.
void describe_links(const Job& job, const PsJob& ps, PsSystem& system) {
  std::vector<PsLink> links;
  for (const int link : ps.simulated) {
    links.push_back(ps.links.links[at(link)]);
    const auto kind = static_cast<std::size_t>(links.back().kind);
    system.link_names.push_back(EnumNames<LinkClass>::names[kind]);
  }
  add_changes(job, links, system);
  const bool measured = std::any_of(system.routes.begin(), system.routes.end(),
                                    [](const PsRoute& route) { return route.measured > 0; });
  if (!measured) return;
  system.flow = [machine = job.machine, routes = system.routes, scale = job.communication_scale](
                    int id, double bytes, bool one_core) {
    const PsRoute& route = routes[at(id)];
    if (route.measured == 0) return PsFlow{bytes, 0};
    const CopyCost copy = measured_copy(machine, route, bytes);
    const double slowdown = one_core ? copy.one_core_slowdown : 1;
    return PsFlow{copy.seconds(bytes) * slowdown * scale * route.cap,
                  bytes > 0 ? copy.buffered_bytes / bytes : 0};
  };
}

// Number of updates of route rates that a message causes in a step of all workers. A push and a
// pull of each worker begin and end, and each of these four events may change the rates of all
// routes.
double work_of_a_message(const PsSystem& system) {
  return 4.0 * static_cast<double>(system.workers.size()) *
         static_cast<double>(system.routes.size());
}

// Divides the keys into messages and computes their costs. If fewest_steps steps with so many
// messages would exceed the work budget, keys of a server are joined into larger messages.
void add_messages(const Job& job, const ParameterServerOptions& options, PsJob& ps) {
  const bool by_key = travel_by_key(job, options), join = options.partition_bytes == 0;
  const double most =
      std::max(1.0, kWorkBudget / (fewest_steps + 1) / work_of_a_message(ps.system));
  std::vector<PsMessage>& messages = ps.system.messages;
  messages = make_messages(ps.keys, ps.servers, by_key, join, 0);
  if (by_key && static_cast<double>(messages.size()) > most) {
    const std::size_t wanted = messages.size();
    messages = make_messages(ps.keys, ps.servers, by_key, join,
                             static_cast<double>(job.step->parameter_count) / most);
    ps.notes.push_back(
        fmt::format("keys travel in {} messages instead of {}: so many take long to simulate",
                    messages.size(), wanted));
  }
  // Provenance counts the seconds of the mean server in a step of all workers: one gradient is
  // stored and the others are added, unless each push is an update.
  const bool each_updates = ps.system.rule(job.mesh.gpus())->pushes_per_update(0) == 1;
  const double share = 1.0 / ps.servers;
  for (PsMessage& message : messages) {
    const ServiceProvenance provenance = price(job, options, ps.places, message);
    message.name = by_key ? std::string_view(job.step->layers[at(message.layer)].name) : "all keys";
    if (!each_updates) {
      ps.provenance.add(
          provenance.sums,
          share * (message.keep_seconds + (job.mesh.gpus() - 1) * message.accumulate_seconds));
    }
    ps.provenance.add(provenance.update,
                      share * (each_updates ? job.mesh.gpus() : 1) * message.update_seconds);
  }
}

// Adds the segments of a step, and counts the provenance of their seconds.
void add_compute(const Job& job, const ParameterServerOptions& options, PsJob& ps) {
  const int micro_batches = ps.system.batches * job.accumulation;
  ps.provenance.add(Provenance::modelled, micro_batches * ps.system.input_copy_seconds);
  const StepCosts costs = step_costs(job);
  for (const LayerCost& layer : costs.layers) {
    ps.provenance.add(layer.forward, micro_batches);
    ps.provenance.add(layer.backward, micro_batches);
  }
  add_segments(job, options, costs, ps.system);
  for (const PsSegment& segment : ps.system.segments) {
    if (segment.phase == Phase::copies || segment.phase == Phase::optimizer) {
      ps.provenance.add(segment.work);
    }
  }
}

// Sets the number of steps: as many as the scenario requests, but at most as many as the work
// budget allows, and one more for the first step. A step of the system is system.batches optimizer
// steps of the scenario.
void choose_steps(const Job& job, PsJob& ps) {
  PsSystem& system = ps.system;
  const double work = work_of_a_message(system) *
                      static_cast<double>(std::max<std::size_t>(1, system.messages.size()));
  const int affordable =
      std::max(fewest_steps, static_cast<int>(std::min(1e9, kWorkBudget / work)));
  const int wanted =
      std::max(fewest_steps, (job.simulation.steps + system.batches - 1) / system.batches);
  system.steps =
      std::min(system.batches > 1 ? wanted : std::max(1, job.simulation.steps), affordable) + 1;
  if (system.steady || affordable >= wanted) return;
  ps.notes.push_back(fmt::format("{} steps are simulated instead of {}: so many messages take long",
                                 affordable * system.batches, job.simulation.steps));
}

}  // namespace

PsJob build_parameter_server(const Job& job, const ParameterServerOptions& options) {
  PsJob result;
  PsSystem& system = result.system;
  if (options.overlap && !pushes_overlap(job, options)) {
    result.notes.push_back(
        "gradients are pushed after backward: clipping needs the norm of the whole gradient");
  }
  result.servers = server_count(job.machine, job.mesh.gpus(), options);
  result.places = server_places(job.machine, job.mesh.gpus(), options);
  choose_keys(job, options, result);
  result.links = server_links(job, options, result.places, push_window(job, options) < 2);
  result.simulated =
      simplify(result.links, job.simulation.network != NetworkKind::analytic, system);

  system.batches = options.exchange_every;
  system.pull_overlap = options.pull_overlap;
  system.priorities = options.priority;
  system.progress = job.simulation.progress;
  system.observer = job.simulation.observer;
  system.records_updates = !job.simulation.schedule_file.empty();
  system.credit = push_window(job, options);
  system.servers = result.servers;
  system.places = static_cast<int>(result.places.size());
  system.serial_servers = options.serial;
  add_rules(job, options, system);
  note_uneven_splitting(options, job.mesh.gpus(), result);
  add_input(job, system);
  describe_links(job, result, system);
  // Without interference, each worker and each server has a core of its own.
  if (job.simulation.interference) {
    system.core_of_server = shared_cores(job, result.places, result.servers);
  }
  fold_workers(job, options, system);
  add_messages(job, options, result);
  add_compute(job, options, result);
  choose_steps(job, result);
  const double uneven = imbalance(result.keys, result.layout);
  if (uneven > 1.05) {
    result.notes.push_back(
        fmt::format("the fullest server holds {:.2f} times its share of the parameters", uneven));
  }
  return result;
}

}  // namespace lockstep
