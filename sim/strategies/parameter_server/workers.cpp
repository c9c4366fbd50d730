// See workers.hpp.
#include "strategies/parameter_server/workers.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/index.hpp"
#include "strategies/common/stragglers.hpp"

namespace lockstep {

namespace {

// What travels of each layer, and of the whole model.
struct Sent {
  Sent(const Job& job, const ParameterServerOptions& options, const std::vector<Bundle>& bundles)
      : here(job.step->layers.size(), false), compression(job.step->layers.size()) {
    for (const Bundle& bundle : bundles) {
      here[at(bundle.layer)] = true;
      QueuedWork& work = compression[at(bundle.layer)];
      work = append(work, compression_work(job, options, bundle));
      elements += bundle.elements;
      tensors += bundle.tensors;
    }
  }
  std::vector<bool> here;               // by layer
  std::vector<QueuedWork> compression;  // of its gradients
  double elements = 0;
  int tensors = 0;
};

// Segments of one step, one after the other.
class Segments {
 public:
  Segments(PsSystem& system, int batch) : system_(system), batch_(batch) {}
  // To the present segment, or a new one.
  void add(Phase phase, std::string_view name, const QueuedWork& work) {
    if (!open_ || system_.segments.back().phase != phase) begin(phase);
    PsSegment& segment = system_.segments.back();
    segment.work = append(segment.work, work);
    if (system_.observer) segment.parts.push_back({name, work});
  }
  // The latest micro-batch, which is a forward and a backward, once more.
  void add_again() {
    for (const std::size_t before : {system_.segments.size() - 2, system_.segments.size() - 1}) {
      PsSegment segment = system_.segments[before];
      segment.batch = batch_;
      system_.segments.push_back(std::move(segment));
    }
  }
  void begin(Phase phase, bool needs_input = false) {
    system_.segments.push_back({phase, {}, needs_input, batch_});
    open_ = true;
  }
  void end() { open_ = false; }
  int present() const { return static_cast<int>(system_.segments.size()) - 1; }

 private:
  PsSystem& system_;
  int batch_;
  bool open_ = false;
};

}  // namespace

void add_segments(const Job& job, const ParameterServerOptions& options, const StepCosts& costs,
                  const std::vector<Bundle>& sent, PsSystem& system) {
  const int layers = static_cast<int>(job.step->layers.size());
  const Sent whole(job, options, sent);
  const bool overlap = options.overlap && job.gradient_clipping == 0;
  const bool elastic = options.consistency == Consistency::elastic;
  const double weights = whole.elements * parameter_bytes(job.step->precision);
  std::vector<int> ready(at(layers), 0), needed(at(layers), 0);
  if (elastic) {  // what came back moves the worker: two read, one written
    Segments(system, 0).add(Phase::copies, "move", job.costs->stream(3 * weights, whole.tensors));
  }
  const int micro_batches = system.batches * job.accumulation;
  bool plain_before = false;
  for (int micro = 0; micro < micro_batches; ++micro) {
    Segments segments(system, micro / job.accumulation);
    const bool first = micro == 0, last = micro == micro_batches - 1;
    const bool updates = elastic && (micro + 1) % job.accumulation == 0;
    const bool plain = !first && !last && !updates;
    if (std::exchange(plain_before, plain) && plain) {
      segments.add_again();
      continue;
    }
    segments.begin(Phase::forward, true);
    for (int layer = 0; layer < layers; ++layer) {
      if (first && system.pull_overlap && whole.here[at(layer)] && layer > 0) {
        segments.begin(Phase::forward);
      }
      if (first) needed[at(layer)] = segments.present();
      segments.add(Phase::forward, costs.layers[at(layer)].name, costs.layers[at(layer)].forward);
    }
    segments.begin(Phase::backward);
    for (int layer = layers - 1; layer >= 0; --layer) {
      segments.add(Phase::backward, costs.layers[at(layer)].name, costs.layers[at(layer)].backward);
      ready[at(layer)] = segments.present();
      if (!last || !overlap || !whole.here[at(layer)]) continue;
      if (whole.compression[at(layer)].busy > 0) {
        segments.add(Phase::copies, "compress", whole.compression[at(layer)]);
        ready[at(layer)] = segments.present();
      }
      if (layer > 0) segments.begin(Phase::backward);
    }
    if (job.gradient_clipping > 0 && (last || updates)) {
      segments.begin(Phase::copies);
      segments.add(Phase::copies, "clip_grad_norm_",
                   job.costs->stream(clipping_bytes(job.step->precision, whole.elements),
                                     clipping_launches(whole.elements, whole.tensors)));
    }
    if (updates) {
      segments.add(
          Phase::optimizer, "optimizer",
          job.costs->optimizer(job.optimizer, job.step->precision, whole.elements, whole.tensors));
    }
  }
  Segments segments(system, system.batches - 1);
  if (!overlap && !std::holds_alternative<UncompressedPush>(options.compression)) {
    for (const QueuedWork& work : whole.compression) segments.add(Phase::copies, "compress", work);
    segments.end();
  }
  if (job.machine.device.architecture == Architecture::cpu && !overlap) {
    // One message for all tensors is one piece of memory: no copy engine gathers them on the way.
    const double bytes = whole.elements * gradient_bytes(job.step->precision);
    segments.add(Phase::copies, "gradients to message",
                 job.costs->stream(2 * bytes, whole.tensors));
  }
  const int end = static_cast<int>(system.segments.size()) - 1;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    system.messages[i].segment = overlap ? ready[at(sent[i].layer)] : end;
    system.messages[i].needed_by = needed[at(sent[i].layer)];
  }
}

// Ranks with the same routes and speed move in step when they wait for each other and nothing is
// random.
void add_workers(const Job& job, const SimulatedLinks& links, PsSystem& system) {
  const RankSpeeds speeds(job);
  const auto lane_of = [&](int rank) { return at(speeds.lane_of_rank()[at(rank)]); };
  const auto speed_of = [&](int rank) { return speeds.fixed()[lane_of(rank)]; };
  const auto device_of = [&](int rank) { return speeds.device_of_lane()[lane_of(rank)]; };
  const bool fold = keeps_step(system.rule, job.gpus) && system.later.empty() &&
                    !system.controller && !random(job.stragglers);
  system.steady = fold && !system.records_updates && !changes(job.stragglers);

  std::vector<int>& cores = system.core_of_server;
  const auto shares_core = [&, ranks = std::set<int>(cores.begin(), cores.end())](int rank) {
    return ranks.contains(rank) ? rank : -1;
  };
  std::map<std::tuple<std::vector<PsWay>, double, int, int>, int> known;
  std::vector<int> representative;
  for (int rank = 0; rank < job.gpus; ++rank) {
    const std::vector<PsWay>& ways = links.ways[at(rank)];
    const int worker = static_cast<int>(system.workers.size());
    const auto [entry, fresh] =
        known.try_emplace({ways, speed_of(rank), device_of(rank), shares_core(rank)}, worker);
    system.worker_of_rank.push_back(fold ? entry->second : worker);
    if (fold && !fresh) {
      ++system.workers[at(entry->second)].ranks;
      continue;
    }
    system.workers.push_back({1, ways, device_of(rank)});
    representative.push_back(rank);
  }
  for (int& core : cores) {
    if (core >= 0) core = system.worker_of_rank[at(core)];
  }
  std::vector<double> speed;
  for (const int rank : representative) speed.push_back(speed_of(rank));
  const Stragglers& stragglers = job.stragglers;
  system.factor = [speed, representative, stragglers, seed = job.simulation.seed](int worker,
                                                                                  int step) {
    return speed[at(worker)] * varying_factor(stragglers, seed, representative[at(worker)], step);
  };
  if (stragglers.loader_hiccups) {
    system.late_input = [representative, hiccups = *stragglers.loader_hiccups,
                         seed = job.simulation.seed](int worker, int batch) {
      return hiccup(hiccups, seed, representative[at(worker)], batch);
    };
  }
}

}  // namespace lockstep
