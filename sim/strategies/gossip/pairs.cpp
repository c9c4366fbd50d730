// AD-PSGD: each rank is a program of its own. After its update, an even rank asks an odd rank,
// which is drawn at random, for an average. Both send their parameters at the same time; the
// threads that send take no multiprocessors. Odd ranks answer one request after the other, so that
// ranks never wait for each other in a circle (section 4.2 of the paper). Gradients wait for
// nothing: if the average of a rank is still under way, the rank asks after a later step.
//
//   rank 0 (even)  | step | asks rank 1, waits          | exchange | average at the next gradients
//   rank 1 (odd)   | step | exchange with another rank  | exchange | average at the next gradients
#include "strategies/gossip/pairs.hpp"

#include <deque>
#include <optional>

#include "core/index.hpp"
#include "core/random.hpp"
#include "costs/collective_links.hpp"
#include "engine/event_state.hpp"

namespace lockstep {

namespace {

// The kind of event in the keys of random draws: the number after the last one of stragglers.cpp.
constexpr std::uint32_t partner_event = 6;

// The odd ranks that an even rank may ask.
std::vector<int> partners_of(PairPartners partners, int rank, int ranks) {
  std::vector<int> result;
  for (int other = 1; other < ranks; other += 2) {
    const bool beside = (other + 1) % ranks == rank || (rank + 1) % ranks == other;
    if (partners == PairPartners::any || beside) result.push_back(other);
  }
  return result;
}

// The state that a rank's steps and its averages share.
struct GossipRank {
  explicit GossipRank(Executor& executor) : free(executor), arrived(executor) {}
  TrainingContext* context = nullptr;
  Bell free, arrived;  // an odd rank is free again; an even rank's average has arrived
  // An exchange is under way that an odd rank answers; an exchange is under way that an even rank
  // asked for.
  bool answers = false, asks = false;
  double began = 0, ended = 0;  // simulated times of the latest exchange that it asked for
  int next = 0;                 // first step after which the rank may ask for another average
  int open = 0;                 // number of arrived averages that its device has not computed yet
  std::int64_t read = 0;  // number of averages of the run that precede the rank's step in progress
};

// All ranks of a run, and the links between them.
class Pairs {
 public:
  Pairs(TrainingWorld& world, const Job& job, const GossipOptions& options, double bytes,
        UpdateSchedule& schedule)
      : job_(job),
        options_(options),
        bytes_(bytes),
        schedule_(schedule),
        world_(world.world),
        network_(world.world, job) {
    const int tensors =
        static_cast<int>(gradient_tensors(*job.step, gradient_bytes(job.step->precision)).size());
    // The arithmetic of an average: flatten the parameters (two streams), then read two tensors and
    // write one.
    arithmetic_ =
        append(job.costs->stream(2 * bytes, tensors), job.costs->stream(3 * bytes, tensors));
    for (int rank = 0; rank < job.mesh.gpus(); ++rank) ranks_.emplace_back(world_.executor());
    const int nodes = nodes_of(job.mesh.gpus(), job.machine);
    if (job.machine.gpus_per_node > 1) price_inside();
    if (nodes == 1) return;
    across_ = network_.collective({.nodes = 2}, Collective::send_recv, bytes);
    for (int node = 0; node < nodes; ++node) add_links(node);
  }

  // Registers a rank. Each rank is a stage of the world.
  void enter(TrainingContext& context) { ranks_[at(context.stage.stage)].context = &context; }
  // Waits until the rank's gradients are complete. Then issues the arithmetic of the averages that
  // have arrived since the previous gradients.
  Program average(int rank) {
    GossipRank& self = ranks_[at(rank)];
    const Event gradients = self.context->ranks.record();
    co_await world_.executor().sleep_until(gradients.state()->at(0));
    for (; self.open > 0; --self.open) self.context->copies(arithmetic_, "average parameters");
  }
  // Called after the update. An even rank that has no request under way asks for an average.
  Program after_step(int rank, int step) {
    GossipRank& self = ranks_[at(rank)];
    const auto steps = static_cast<std::int64_t>(schedule_.pushes.size());
    schedule_.pushes.push_back({world_.now(), rank, 0, self.read, 1 + steps / job_.mesh.gpus()});
    if (rank % 2 == 0 && !self.asks && step >= self.next) {
      self.asks = true;
      self.next = step + options_.every;
      world_.spawn("averaging", exchange(rank, step));
      if (!options_.overlap) co_await arrival(self);
    }
    self.read = static_cast<std::int64_t>(schedule_.averages.size());
  }

 private:
  // The cost of an exchange inside a node, where a pair shares no link with other pairs.
  void price_inside() {
    inside_ = network_.collective({.ranks_per_node = 2}, Collective::send_recv, bytes_);
    for (LinkUse& use : inside_.spec.uses) {
      use.total_bytes = 2 * bytes_;
      use.bytes = use.total_bytes / job_.mesh.gpus();
      world_.meet(use.link, false);
    }
  }
  // Adds the NICs and the uplink of a node, on which exchanges of several pairs may meet.
  void add_links(int node) {
    const FabricSpec& fabric = job_.machine.fabric;
    const int nics = std::max(1, fabric.nics_per_node), leaf = fabric.nodes_per_leaf;
    nics_.push_back(
        {network_.link(LinkClass::nic, node, nic_payload_rate(job_.machine), nics), bytes_ / nics});
    if (leaf <= 0) return;
    uplinks_.push_back(
        {network_.link(LinkClass::uplink, node / leaf, uplink_rate(job_.machine)), bytes_});
  }
  // The transfer between two ranks, in both directions at the same time.
  TransferSpec between(int one, int other) const {
    const int leaf = job_.machine.fabric.nodes_per_leaf;
    const int from = one / job_.machine.gpus_per_node, to = other / job_.machine.gpus_per_node;
    if (from == to) return inside_.spec;
    TransferSpec spec = across_.spec;
    spec.uses = {nics_[at(from)], nics_[at(to)]};
    if (leaf > 0 && from / leaf != to / leaf) {
      spec.uses.insert(spec.uses.end(), {uplinks_[at(from)], uplinks_[at(to)]});
    }
    return spec;
  }
  // Without overlap, host and compute stream wait for the average. The time until the exchange
  // began is waiting for the partner; the rest is communication.
  Program arrival(GossipRank& self) {
    RankGroup& ranks = self.context->ranks;
    while (self.asks) co_await self.arrived.rung();
    const Event arrived = RankGroup::happened(self.ended, WaitCause::communication);
    ranks.wait(RankGroup::happened(self.began, WaitCause::waiting));
    ranks.wait(arrived);
    co_await ranks.host_wait(arrived);
  }
  // A request: draws the partner, waits until it is free, and exchanges parameters with it.
  Program exchange(int rank, int step) {
    const std::vector<int> partners =
        partners_of(options_.pairs()->partners, rank, job_.mesh.gpus());
    const double drawn = uniform_draw({job_.simulation.seed, static_cast<std::uint32_t>(rank),
                                       static_cast<std::uint32_t>(step), partner_event});
    const int partner =
        partners[static_cast<std::size_t>(drawn * static_cast<double>(partners.size()))];
    GossipRank &self = ranks_[at(rank)], &other = ranks_[at(partner)];
    while (other.answers) co_await other.free.rung();
    other.answers = true;
    self.began = world_.now();
    co_await world_.transfer(between(rank, partner));
    self.ended = world_.now();
    self.asks = other.answers = false;
    ++self.open;
    ++other.open;
    const auto steps = static_cast<std::int64_t>(schedule_.pushes.size());
    schedule_.averages.push_back({steps, {{rank, {partner}}, {partner, {rank}}}});
    self.arrived.ring();
    other.free.ring();
  }

  const Job& job_;
  const GossipOptions& options_;
  const double bytes_;
  UpdateSchedule& schedule_;
  World& world_;
  JobNetwork network_;
  PricedTransfer inside_, across_;       // costs of an exchange inside a node, and between nodes
  QueuedWork arithmetic_;                // of one average on one rank
  std::vector<LinkUse> nics_, uplinks_;  // by node
  std::deque<GossipRank> ranks_;
};

// The steps of one rank.
class PairHooks final : public TrainingHooks {
 public:
  PairHooks(TrainingContext& context, Pairs& pairs)
      : pairs_(pairs),
        rank_(context.stage.stage),
        replica_(context,
                 gradient_tensors(*context.job.step, gradient_bytes(context.job.step->precision))) {
    pairs.enter(context);
  }
  const UpdateWork& update() const override { return replica_.update; }
  const Passes& passes(const MicroBatch& batch) const override {
    return batch.first ? replica_.alone : replica_.alone_adding;
  }
  // Averages can arrive at any time within a step, so every micro-batch is simulated.
  bool outlasts_micro_batches() const override { return true; }
  Program end_micro_batches() override { return pairs_.average(rank_); }

 private:
  Pairs& pairs_;
  const int rank_;
  const Replica replica_;
};

}  // namespace

StrategyResult simulate_pairs(const Job& job, const GossipOptions& options, double bytes,
                              UpdateSchedule& schedule) {
  std::optional<Pairs> pairs;
  return train_apart(job, "gossip", [&](TrainingWorld& world) {
    pairs.emplace(world, job, options, bytes, schedule);
    return Apart{
        [&](TrainingContext& context) { return std::make_unique<PairHooks>(context, *pairs); },
        [&](int rank, int step) { return pairs->after_step(rank, step); }};
  });
}

}  // namespace lockstep
