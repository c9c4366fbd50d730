// Gossip among synchronous ranks (ring and exponential graph), and the parts that all graphs share:
// memory, options, and the schedule of averages for the accuracy replay. Asynchronous pairs are in
// pairs.cpp.
//
//   step     | gradients         | average | update | flatten | gradients ...
//   exchange | parameters travel |                            | parameters travel ...
#include "strategies/gossip/gossip.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/index.hpp"
#include "core/statistics.hpp"
#include "results/schedule.hpp"
#include "strategies/common/replica.hpp"
#include "strategies/common/stage_memory.hpp"
#include "strategies/gossip/graph.hpp"
#include "strategies/gossip/pairs.hpp"

namespace lockstep {

namespace {

std::vector<GradientTensor> replica_gradients(const Job& job) {
  return gradient_tensors(*job.step, gradient_bytes(job.step->precision));
}

// Bytes of the parameters that a rank averages.
double model_bytes(const Job& job) {
  double elements = 0;
  for (const GradientTensor& tensor : replica_gradients(job)) elements += tensor.elements;
  return elements * parameter_bytes(job.step->precision);
}

// Averages with neighbours after every `every` steps. A rank's exchange begins when its senders and
// receivers are ready; other ranks may be late. Therefore each lane is a group of its own on the
// communicator, and is ready when the latest of its lanes in beside_ is ready.
class NeighbourAverager final : public TrainingHooks {
 public:
  NeighbourAverager(TrainingContext& context, const GossipOptions& options)
      : context_(context),
        ranks_(context.ranks),
        replica_(context, replica_gradients(context.job)),
        options_(options),
        shifts_(shifts_of(options.graph, context.job.mesh.gpus())) {
    const Job& job = context.job;
    const std::vector<int>& lane_of_rank = context.speeds.lane_of_rank();
    const int tensors = static_cast<int>(replica_.tensors.size()), all = job.mesh.gpus();
    std::vector<int> rank_of_lane(at(ranks_.lanes()));
    std::vector<std::vector<int>> each;
    for (int rank = all - 1; rank >= 0; --rank) rank_of_lane[at(lane_of_rank[at(rank)])] = rank;
    for (int lane = 0; lane < ranks_.lanes(); ++lane) each.push_back({lane});
    communicator_ = &ranks_.add_communicator("averaging", each);
    flatten_ = job.costs->stream(2 * model_bytes(job), tensors);
    // For each exchange of the graph: its cost, and the lanes for which each lane waits.
    for (const Shift& shift : shifts_) {
      transfers_.push_back(price(job, context.network, shift, model_bytes(job)));
      // A single communicator carries all transfers, so that they never meet on a link.
      for (const LinkUse& use : transfers_.back().spec.uses) context.world.meet(use.link, false);
      std::vector<std::vector<int>>& beside = beside_.emplace_back();
      for (const int rank : rank_of_lane) {
        std::vector<int>& lanes = beside.emplace_back();
        for (const int other : {rank, rank + shift.distance, rank + all - shift.distance}) {
          lanes.push_back(lane_of_rank[at(other % all)]);
        }
      }
      average_ = job.costs->stream((shift.messages() + 2) * model_bytes(job), tensors);
    }
  }

  const UpdateWork& update() const override { return replica_.update; }
  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }
  bool outlasts_micro_batches() const override { return options_.overlap; }
  // With overlap, the average comes between the gradients and the update (algorithm 1 of the
  // papers).
  Program end_micro_batches() override {
    average();
    co_return;
  }
  // Sends the updated parameters. Without overlap, the average follows at once.
  Program after_update(int step) override {
    if (shifts_.empty() || step % options_.every != 0) co_return;
    const std::size_t which = at(step / options_.every) % shifts_.size();
    context_.copies(flatten_, "flatten parameters");
    ready_ = ranks_.record(beside_[which]);
    travels_ = context_.collective(*communicator_, transfers_[which], ready_);
    if (!options_.overlap) average();
  }

 private:
  // Waits for the exchange under way, if any: first for late neighbours, then for the transfer, so
  // that both waits are booked by their causes.
  void average() {
    if (!travels_.state()) return;
    ranks_.wait(ready_);
    ranks_.wait(travels_);
    travels_ = {};
    context_.copies(average_, "average parameters");
  }

  TrainingContext& context_;
  RankGroup& ranks_;
  const Replica replica_;
  const GossipOptions options_;
  const std::vector<Shift> shifts_;
  std::vector<PricedTransfer> transfers_;  // by shift
  // [shift][lane]: the lanes with which it exchanges.
  std::vector<std::vector<std::vector<int>>> beside_;
  Communicator* communicator_ = nullptr;
  QueuedWork flatten_, average_;
  Event ready_, travels_;  // all senders and receivers are ready; the parameters have arrived
};

// The groups for the division into lanes (lane_classes.hpp). If some rank is different, all other
// ranks are distinguished by their distance to it on the ring. Two divisions of the ring into pairs
// of neighbours have this effect.
std::vector<RankGroups> neighbours_of(const Job& job) {
  std::vector<RankGroups> axes;
  const int ranks = job.mesh.gpus();
  const bool alike = job.stragglers.per_rank_sigma.value_or(0) == 0 &&
                     job.stragglers.slow_ranks.empty() && job.device_of_rank.empty();
  if (alike) return axes;
  for (const int first : {0, 1}) {
    RankGroups& groups = axes.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) groups.push_back((rank + first) % ranks / 2);
  }
  return axes;
}

// The steps and averages of a synchronous run, for the accuracy replay.
UpdateSchedule gossip_schedule(const Job& job, const GossipOptions& options,
                               const StrategyResult& result) {
  const int ranks = job.mesh.gpus(), steps = job.simulation.steps;
  UpdateSchedule schedule =
      synchronous_schedule(ranks, steps, result.first_step_seconds, mean(result.step_seconds));
  const std::vector<Shift> shifts = shifts_of(options.graph, ranks);
  for (int step = 0; step < steps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto averages = static_cast<std::int64_t>(schedule.averages.size());
      schedule.pushes[at(step * ranks + rank)].read = averages;
    }
    // With overlap, the parameters of the previous step travel during this step.
    const int sent = options.overlap ? step - 1 : step;
    if (sent < 0 || sent % options.every != 0) continue;
    const Shift& shift = shifts[at(sent / options.every) % shifts.size()];
    ScheduledAverage& average = schedule.averages.emplace_back();
    average.steps_before = static_cast<std::int64_t>(options.overlap ? step : step + 1) * ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      average.mixes.push_back({rank, senders(shift, rank, ranks)});
    }
  }
  return schedule;
}

}  // namespace

// The program of synchronous ranks repeats after all exchanges of the graph, which are `every`
// steps apart.
StrategyResult Gossip::simulate(const Job& job) const {
  UpdateSchedule schedule;
  const bool alone = job.mesh.gpus() == 1, apart = options_.pairs() && !alone;
  StrategyResult result;
  if (apart) {
    result = simulate_pairs(job, options_, model_bytes(job), schedule);
  } else {
    TrainingWorld world(job, "gossip", choose_engine(job, false, 0, false), neighbours_of(job));
    const std::size_t shifts = shifts_of(options_.graph, job.mesh.gpus()).size();
    result = train(
        world,
        [&](TrainingContext& context) {
          return std::make_unique<NeighbourAverager>(context, options_);
        },
        alone ? 1 : options_.every * static_cast<int>(shifts));
  }
  if (job.simulation.schedule_file.empty() || alone) return result;
  if (!apart) schedule = gossip_schedule(job, options_, result);
  schedule.workers = job.mesh.gpus();
  schedule.exchange = Exchange::gossip;
  write_schedule(schedule, job.simulation.schedule_file);
  return result;
}

// A replica, plus its own parameters as one tensor and the received parameters. With overlap they
// are held during the whole step, otherwise only during the exchange.
std::vector<MemoryUse> Gossip::stage_memory(const Job& job, const MemoryQuery& query) const {
  return replica_memory_of_stages(job, query, [this](const Job& rank) {
    MemoryPlan plan = replica_memory_plan(rank);
    if (rank.mesh.gpus() == 1) return plan;
    const std::vector<Shift> shifts = shifts_of(options_.graph, rank.mesh.gpus());
    const int received = shifts.empty() ? 1 : shifts.front().messages();
    (options_.overlap ? plan.replicated.hook_state_bytes : plan.replicated.flat_copy_bytes) =
        (1 + received) * model_bytes(rank);
    plan.communication_bytes = communicator_bytes(rank.machine, gradient_group(rank));
    return plan;
  });
}

nlohmann::ordered_json Gossip::communication(const Job& job) const {
  return {{"every", options_.every},
          {"averaged_bytes", static_cast<std::int64_t>(model_bytes(job))}};
}

std::vector<IdleOption> Gossip::idle_options(const Job& job) const {
  IdleOptions idle;
  const int ranks = job.mesh.gpus();
  const bool alone = ranks == 1;
  const std::string nobody = "one GPU averages nothing";
  const bool exponential = std::holds_alternative<ExponentialGraph>(options_.graph);
  idle.idle_if("graph", options_.graph.index() != 0, alone || (exponential && ranks == 2),
               alone ? nobody : "two ranks are a ring");
  if (const PairsGraph* pairs = options_.pairs()) {
    const bool ring = pairs->partners == PairPartners::ring;
    idle.idle_if("graph.pairs.partners", ring, ranks <= 4,
                 alone ? nobody : "all ranks that may be drawn are beside it");
  }
  idle.idle_if("every", options_.every != GossipOptions{}.every, alone, nobody);
  idle.idle_if("overlap", !options_.overlap, alone, nobody);
  return idle.take();
}

std::unique_ptr<Strategy> make_strategy(const GossipOptions& options) {
  return std::make_unique<Gossip>(options);
}

}  // namespace lockstep
