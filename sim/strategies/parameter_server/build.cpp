// A parameter-server system from a job (see build.hpp).
#include "strategies/parameter_server/build.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/index.hpp"
#include "strategies/parameter_server/messages.hpp"
#include "strategies/parameter_server/workers.hpp"

namespace lockstep {

namespace {

constexpr std::size_t kMostMessages = 4096;  // of one worker and step
// Route updates that a whole run may cost: about a second.
constexpr double kWorkBudget = 3e7;
constexpr int kFewestSteps = 4;

// An update takes whole pushes: where they are no n-th of the workers, another n is meant as well.
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

}  // namespace

PsJob build_parameter_server(const Job& job, const ParameterServerOptions& options) {
  PsJob result;
  PsSystem& system = result.system;
  const double push_bytes = push_element_bytes(options, job.step->precision);
  const bool overlap = options.overlap && job.gradient_clipping == 0;
  if (options.overlap && !overlap) {
    result.notes.push_back(
        "gradients are pushed after backward: clipping needs the norm of all of them");
  }

  KeyLayout layout{options.servers, options.keys, 0};
  if (options.partition_bytes > 0) {
    layout.partition_elements =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(options.partition_bytes / push_bytes));
    const auto smallest = job.step->parameter_count / static_cast<std::int64_t>(kMostMessages) + 1;
    if (layout.partition_elements < smallest) {
      layout.partition_elements = smallest;
      result.notes.push_back(fmt::format(
          "keys are cut into parts of {:.0f} bytes, not smaller: at most {} messages a step "
          "are simulated",
          static_cast<double>(smallest) * push_bytes, kMostMessages));
    }
  }
  result.keys = make_keys(*job.step, layout);
  result.places = server_places(job.machine, job.gpus, options);
  result.links = server_links(job, result.places);
  result.simulated = simplify(result.links, job.simulation.network != NetworkKind::analytic);

  system.rule = consistency_rule(options, job.gpus);
  note_uneven_splitting(options, job.gpus, result);
  if (options.switches && job.gpus > 1) {
    ParameterServerOptions to;
    to.consistency = options.switches->to;
    system.later.push_back({options.switches->at, consistency_rule(to, job.gpus)});
  }
  if (options.controller && job.gpus > 1) {
    system.controller = options.controller;
  }
  system.batches = options.exchange_every;
  system.pull_overlap = options.pull_overlap;
  system.priorities = options.priority;
  system.progress = job.simulation.progress;
  system.observer = job.simulation.observer;
  system.records_updates = !job.simulation.schedule_file.empty();
  system.servers = options.servers;
  system.places = static_cast<int>(result.places.size());
  system.serial_servers = options.serial;
  system.input_seconds = job.data_loading_seconds;
  if (!job.input_on_device && job.step->input_bytes > 0 &&
      job.machine.device.architecture != Architecture::cpu) {
    system.input_copy_seconds =
        job.communication_scale *
        host_device_copy(job.machine, job.step->input_bytes).seconds(job.step->input_bytes);
  }
  system.links = result.simulated.capacity;
  std::vector<PsLink> links;
  for (const int link : result.simulated.original) {
    links.push_back(result.links.links[at(link)]);
    const auto kind = static_cast<std::size_t>(links.back().kind);
    system.link_names.push_back(EnumNames<LinkClass>::names[kind]);
  }
  add_changes(job, links, system);
  system.routes = result.simulated.routes;

  const bool measured = std::any_of(system.routes.begin(), system.routes.end(),
                                    [](const PsRoute& route) { return route.measured > 0; });
  if (measured) {
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
  // Without interference everybody computes as if alone.
  if (job.interference) {
    system.core_of_server = shared_cores(job, result.places, options.servers);
  }
  add_workers(job, result.simulated, system);

  const bool by_key = overlap || options.pull_overlap || options.partition_bytes > 0;
  const bool join = options.partition_bytes == 0;
  const double work_of_a_message =
      4.0 * static_cast<double>(system.workers.size()) * static_cast<double>(system.routes.size());
  const double most = std::max(1.0, kWorkBudget / (kFewestSteps + 1) / work_of_a_message);
  std::vector<Bundle> sent = bundles(result.keys, options.servers, by_key, join, 0);
  if (by_key && static_cast<double>(sent.size()) > most) {
    const std::size_t wanted = sent.size();
    sent = bundles(result.keys, options.servers, by_key, join,
                   static_cast<double>(job.step->parameter_count) / most);
    result.notes.push_back(
        fmt::format("keys travel in {} messages instead of {}: so many take long "
                    "to simulate",
                    sent.size(), wanted));
  }
  const int pushes_per_update = system.rule(job.gpus)->pushes_per_update(0);
  for (const Bundle& bundle : sent) {
    PricedMessage priced = price_message(job, options, result.places, bundle);
    PsMessage& message = priced.message;
    message.name = by_key ? std::string_view(job.step->layers[at(bundle.layer)].name) : "all keys";
    // In the step of all workers, on the mean server.
    const double share = 1.0 / options.servers;
    if (pushes_per_update == 1) {
      result.provenance.add(priced.update, share * job.gpus * message.update_seconds);
    } else {
      result.provenance.add(priced.sums, share * (message.keep_seconds +
                                                  (job.gpus - 1) * message.accumulate_seconds));
      result.provenance.add(priced.update, share * message.update_seconds);
    }
    system.messages.push_back(message);
  }
  const int micro_batches = system.batches * job.accumulation;
  result.provenance.add(Provenance::modelled, micro_batches * system.input_copy_seconds);
  const StepCosts costs = step_costs(job);
  for (const LayerCost& layer : costs.layers) {
    result.provenance.add(layer.forward, micro_batches);
    result.provenance.add(layer.backward, micro_batches);
  }
  add_segments(job, options, costs, sent, system);
  for (const PsSegment& segment : system.segments) {
    if (segment.phase == Phase::copies || segment.phase == Phase::optimizer) {
      result.provenance.add(segment.work);
    }
  }

  const double work =
      work_of_a_message * static_cast<double>(std::max<std::size_t>(1, system.messages.size()));
  const int affordable =
      std::max(kFewestSteps, static_cast<int>(std::min(1e9, kWorkBudget / work)));
  const int wanted =
      std::max(kFewestSteps, (job.simulation.steps + system.batches - 1) / system.batches);
  system.steps =
      std::min(system.batches > 1 ? wanted : std::max(1, job.simulation.steps), affordable) + 1;
  if (!system.steady && affordable < wanted) {
    result.notes.push_back(
        fmt::format("{} steps are simulated instead of {}: so many messages take "
                    "long",
                    affordable * system.batches, job.simulation.steps));
  }
  const double uneven = imbalance(result.keys, options.servers);
  if (uneven > 1.05) {
    result.notes.push_back(
        fmt::format("the fullest server holds {:.2f} times its share of the parameters", uneven));
  }
  return result;
}

}  // namespace lockstep
