// The workers of a system. Class Segments cuts the compute of a step where messages become ready
// (in backward, with `overlap`) or are needed (in forward, with `pull_overlap`). Without both
// options, a step has one segment for each forward, backward and update. fold_workers() replaces
// ranks that always behave alike by one worker.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "core/index.hpp"
#include "core/random.hpp"
#include "core/statistics.hpp"
#include "strategies/common/stragglers.hpp"
#include "strategies/common/update.hpp"
#include "strategies/parameter_server/build.hpp"
#include "strategies/parameter_server/messages.hpp"
#include "strategies/parameter_server/rules/change.hpp"

namespace lockstep {

namespace {

// The messages of a layer: their gradients are ready after one segment, and another segment needs
// their weights.
struct LayerMessages {
  bool travel = false;        // whether the layer has messages
  QueuedWork compression;     // work that compresses the layer's gradients
  int ready = 0, needed = 0;  // indices of segments
};

// The key of the random draws of data_shares(): "data" in ASCII.
constexpr std::uint32_t data_draw = 0x64617461;

// Appends the segments of one step to the system, in program order.
class Segments {
 public:
  Segments(const Job& job, const ParameterServerOptions& options, const StepCosts& costs,
           PsSystem& system)
      : job_(job),
        options_(options),
        costs_(costs),
        system_(system),
        overlap_(pushes_overlap(job, options)),
        elastic_(options.consistency == Consistency::elastic),
        steps_(workers_step(options)),
        updates_(workers_update(options)),
        layers_(job.step->layers.size()) {
    for (const PsMessage& message : system.messages) {
      LayerMessages& layer = layers_[at(message.layer)];
      layer.travel = true;
      layer.compression = append(layer.compression, compression_work(job, options, message));
      elements_ += message.elements;
      tensors_ += message.tensors;
    }
  }
  void step();

 private:
  // The index of the last segment so far.
  int present() const { return static_cast<int>(system_.segments.size()) - 1; }
  // Begins a segment, to which add() appends work.
  void begin(Phase phase, bool needs_input = false) {
    system_.segments.push_back({phase, {}, needs_input, batch_});
    open_ = true;
  }
  // Appends work to the present segment. If the phase changes, begins a segment first.
  void add(Phase phase, std::string_view name, const QueuedWork& work) {
    if (!open_ || system_.segments.back().phase != phase) begin(phase);
    PsSegment& segment = system_.segments.back();
    segment.work = append(segment.work, work);
    if (system_.observer) segment.parts.push_back({name, work});
  }
  void clip();
  void forward(bool first);
  void backward(bool last);
  void gradients_to_messages();

  const Job& job_;
  const ParameterServerOptions& options_;
  const StepCosts& costs_;
  PsSystem& system_;
  // Whether pushes overlap backward; whether averaging is elastic; whether the worker makes its own
  // optimizer step on each batch; whether the worker updates with the sum of all gradients.
  bool overlap_, elastic_, steps_, updates_;
  std::vector<LayerMessages> layers_;  // by layer of the model
  double elements_ = 0;                // of all messages together
  int tensors_ = 0;
  int batch_ = 0;      // number of the optimizer batch in the step
  bool open_ = false;  // whether work may be appended to the present segment
};

// The whole step: work on the pulled weights or sums; then the micro-batches, with the worker's own
// updates; then the work that makes messages.
void Segments::step() {
  if (elastic_) {  // the worker moves by the answer: reads two sets of weights and writes one
    const double weights = elements_ * parameter_bytes(job_.step->precision);
    add(Phase::copies, "move", job_.costs->stream(3 * weights, tensors_));
  }
  if (updates_) {  // the worker updates with the pulled sum of gradients
    clip();
    add(Phase::optimizer, "optimizer", optimizer_work(job_, {elements_, tensors_}));
  }
  const int micro_batches = system_.batches * job_.accumulation;
  for (int micro = 0; micro < micro_batches; ++micro) {
    batch_ = micro / job_.accumulation;
    const bool first = micro == 0, last = micro == micro_batches - 1;
    const bool updates = steps_ && (micro + 1) % job_.accumulation == 0;
    forward(first);
    backward(last);
    if (!updates_ && (last || updates)) clip();
    if (!updates) continue;
    add(Phase::optimizer, "optimizer", optimizer_work(job_, {elements_, tensors_}));
  }
  // The distance to push: reads pulled and own weights and writes one set.
  if (steps_ && !elastic_) {
    const double weights = elements_ * parameter_bytes(job_.step->precision);
    add(Phase::copies, "difference", job_.costs->stream(3 * weights, tensors_));
  }
  if (!overlap_) gradients_to_messages();
  for (PsMessage& message : system_.messages) {
    const LayerMessages& layer = layers_[at(message.layer)];
    message.segment = overlap_ ? layer.ready : present();
    message.needed_by = layer.needed;
  }
}

// Clipping needs the norm of all gradients, so it is a separate segment.
void Segments::clip() {
  if (job_.gradient_clipping == 0) return;
  begin(Phase::copies);
  add(Phase::copies, "clip_grad_norm_", clipping_work(job_, {elements_, tensors_}));
}

// With pull_overlap, the first forward of a step waits for weights at each layer that has messages,
// so a segment begins at each of these layers. In later micro-batches, all weights have arrived.
void Segments::forward(bool first) {
  begin(Phase::forward, true);
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    if (first && system_.pull_overlap && layers_[layer].travel && layer > 0) begin(Phase::forward);
    if (first) layers_[layer].needed = present();
    add(Phase::forward, costs_.layers[layer].name, costs_.layers[layer].forward);
  }
}

// With overlap, in the last micro-batch, the segment of a layer that has messages ends after the
// layer's backward and the compression of its gradients.
void Segments::backward(bool last) {
  begin(Phase::backward);
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    LayerMessages& messages = layers_[layer];
    add(Phase::backward, costs_.layers[layer].name, costs_.layers[layer].backward);
    messages.ready = present();
    if (!last || !overlap_ || !messages.travel) continue;
    if (messages.compression.busy > 0) {
      add(Phase::copies, "compress", messages.compression);
      messages.ready = present();
    }
    if (layer > 0) begin(Phase::backward);
  }
}

// Without overlap: the work between the last backward and the pushes.
void Segments::gradients_to_messages() {
  open_ = false;
  if (!std::holds_alternative<UncompressedPush>(options_.compression)) {
    for (const LayerMessages& layer : layers_) add(Phase::copies, "compress", layer.compression);
    open_ = false;
  }
  if (job_.machine.device.architecture != Architecture::cpu) return;
  // A CPU worker copies all gradients into one contiguous message, because it has no copy engine
  // that could gather them during the transfer.
  const double bytes = elements_ * gradient_bytes(job_.step->precision);
  add(Phase::copies, "gradients to message", job_.costs->stream(2 * bytes, tensors_));
}

}  // namespace

void add_segments(const Job& job, const ParameterServerOptions& options, const StepCosts& costs,
                  PsSystem& system) {
  Segments(job, options, costs, system).step();
}

// Lognormal draws, keyed by seed and rank, and divided by their mean.
std::vector<double> data_shares(const Job& job, const ParameterServerOptions& options) {
  const bool uneven = options.data.sizes > 0 || options.data.classes > 0;
  if (!uneven || options.push == PushedValues::gradients || job.mesh.gpus() == 1) return {};
  std::vector<double> shares;
  for (int rank = 0; rank < job.mesh.gpus(); ++rank) {
    shares.push_back(lognormal_draw(
        {job.simulation.seed, static_cast<std::uint32_t>(rank), 0, data_draw}, options.data.sizes));
  }
  const double average = mean(shares);
  for (double& share : shares) share /= average;
  return shares;
}

// Ranks are equal if they have the same routes, speed and kind of device, and no server on their
// core. Equal ranks are one worker if all ranks wait for the same update and nothing is random. If,
// in addition, nothing changes over time, steps may repeat (`steady`).
void fold_workers(const Job& job, const ParameterServerOptions& options, PsSystem& system) {
  const RankSpeeds speeds(job);
  const auto lane_of = [&](int rank) { return at(speeds.lane_of_rank()[at(rank)]); };
  const auto speed_of = [&](int rank) { return speeds.fixed()[lane_of(rank)]; };
  const auto device_of = [&](int rank) { return speeds.device_of_lane()[lane_of(rank)]; };
  const bool fold = keeps_step(system, job.mesh.gpus()) && !random(job.stragglers) &&
                    (options.data.sizes == 0 || data_shares(job, options).empty());
  system.steady = fold && !system.records_updates && !changes(job.stragglers);

  // A rank with a server on its core is equal to no other rank. The result is its own number; for
  // all other ranks, -1.
  std::vector<int>& cores = system.core_of_server;
  const auto shares_core = [&, ranks = std::set<int>(cores.begin(), cores.end())](int rank) {
    return ranks.contains(rank) ? rank : -1;
  };
  std::map<std::tuple<std::vector<PsWay>, double, int, int>, int> known;
  std::vector<int> representative;
  std::vector<double> speed;
  const std::vector<PsWorker> ranks = std::move(system.workers);
  system.workers.clear();
  for (int rank = 0; rank < job.mesh.gpus(); ++rank) {
    const std::vector<PsWay>& ways = ranks[at(rank)].ways;
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
    speed.push_back(speed_of(rank));
  }
  for (int& core : cores) {
    if (core >= 0) core = system.worker_of_rank[at(core)];
  }
  const Stragglers& stragglers = job.stragglers;
  system.factor = [speed, representative, stragglers, shares = data_shares(job, options),
                   seed = job.simulation.seed](int worker, int step) {
    const int rank = representative[at(worker)];
    // Number of the rank's batches, divided by the mean number.
    const double share = shares.empty() ? 1 : shares[at(rank)];
    return share * speed[at(worker)] * varying_factor(stragglers, seed, rank, step);
  };
  if (stragglers.loader_hiccups) {
    system.late_input = [representative, hiccups = *stragglers.loader_hiccups,
                         seed = job.simulation.seed](int worker, int batch) {
      return hiccup(hiccups, seed, representative[at(worker)], batch);
    };
  }
}

}  // namespace lockstep
