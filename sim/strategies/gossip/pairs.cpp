// AD-PSGD: each rank is a program of its own. After its update a rank of even number asks a rank of
// odd number, drawn at random, for an average. Both send their parameters at the same time, by
// threads that take no multiprocessors. Odd ranks answer one request after the other, so that no
// circle of waiting ranks arises (section 4.2 of the paper). Gradients wait for nothing: a rank
// whose average is still under way asks after a later step.
//
//   rank 0 (even)  | step | asks rank 1, waits its turn | exchange | average at the next gradients
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

// Kind of event in the keys of random draws: the next after the kinds of stragglers.cpp.
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

// State that a rank's steps and its averages share.
struct GossipRank {
  explicit GossipRank(Executor& executor) : free(executor), arrived(executor) {}
  TrainingContext* context = nullptr;
  Bell free, arrived;  // an odd rank has answered; an even rank's average has arrived
  // An exchange is under way: of an odd rank that answers, of an even rank that has asked.
  bool answers = false, asks = false;
  double began = 0, ended = 0;  // simulated time of the latest exchange that it asked for
  int next = 0;                 // first step after which it may ask for another average
  int open = 0;                 // arrived averages whose arithmetic its device has yet to do
  std::int64_t read = 0;        // number of averages in the run before its step in progress
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

  // Introduces a rank: each rank is a stage of the world.
  void enter(TrainingContext& context) { ranks_[at(context.stage.stage)].context = &context; }
  // Waits until the rank's gradients are complete, and issues the arithmetic of the averages that
  // have arrived since the previous gradients.
  Program average(int rank) {
    GossipRank& self = ranks_[at(rank)];
    const Event gradients = self.context->ranks.record();
    co_await world_.executor().sleep_until(gradients.state()->at(0));
    for (; self.open > 0; --self.open) self.context->copies(arithmetic_, "average parameters");
  }
  // After the update: an even rank without a request under way asks for an average.
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
  // Price of an exchange inside a node. A pair shares no link with other pairs there.
  void price_inside() {
    inside_ = network_.collective({.ranks_per_node = 2}, Collective::send_recv, bytes_);
    for (LinkUse& use : inside_.spec.uses) {
      use.total_bytes = 2 * bytes_;
      use.bytes = use.total_bytes / job_.mesh.gpus();
      world_.meet(use.link, false);
    }
  }
  // NICs and uplink of a node, on which exchanges of several pairs may meet.
  void add_links(int node) {
    const FabricSpec& fabric = job_.machine.fabric;
    const int nics = std::max(1, fabric.nics_per_node), leaf = fabric.nodes_per_leaf;
    nics_.push_back(
        {network_.link(LinkClass::nic, node, nic_payload_rate(job_.machine), nics), bytes_ / nics});
    if (leaf <= 0) return;
    uplinks_.push_back(
        {network_.link(LinkClass::uplink, node / leaf, uplink_rate(job_.machine)), bytes_});
  }
  // The transfer between two ranks, both directions at once.
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
  // Without overlap: host and compute stream wait for the average. The time until the exchange
  // began is waiting for the partner, the rest is communication.
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
  PricedTransfer inside_, across_;       // an exchange inside a node, and between nodes
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
  // Averages arrive in simulated time at any moment of a step, so each micro-batch is simulated.
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
