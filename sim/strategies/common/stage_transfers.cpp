// Sends and receives around the actions of a pipeline's schedule. Messages use channels
// (engine/channel.hpp). A message starts when both sides have posted it, and the compute stream
// waits for a received message before the action that needs the message.
#include "strategies/common/stage_transfers.hpp"

#include <fmt/format.h>

#include "strategies/common/step_parts.hpp"

namespace lockstep {

namespace {

constexpr double scalar_bytes = 4;  // an fp32 number

// The edge between two parts or stages; null = none.
const StageEdge* find(const StageEdges& edges, int from, int to) {
  const auto found = edges.find({from, to});
  return found == edges.end() ? nullptr : &found->second;
}

// Bytes that a part sends to the next one: for each token slice, or for the whole micro-batch.
std::vector<double> messages_of(const Job& job, std::size_t part) {
  if (job.slices.empty()) return {sent_bytes(job.parts->at(part))};
  std::vector<double> bytes;
  for (const PricedStep& slice : job.slices) {
    bytes.push_back(sent_bytes(slice.parts->at(part)));
  }
  return bytes;
}

// Bytes of the gradients of trainable parameters that two parts of the model both hold, by pair of
// parts.
std::map<std::pair<std::size_t, std::size_t>, double> shared_gradients(const Job& job) {
  std::map<std::pair<std::size_t, std::size_t>, double> shared;
  if (!job.parts) return shared;
  // The first part that has a parameter owns it. Each further part that has the parameter shares
  // its gradient with the owner.
  std::map<std::string, std::size_t> owner;
  for (std::size_t part = 0; part < job.parts->size(); ++part) {
    for (const Layer& layer : (*job.parts)[part].step.layers) {
      for (const Parameter& parameter : layer.parameters) {
        const auto [known, first] = owner.try_emplace(parameter.name, part);
        if (first || known->second == part || !parameter.trainable) continue;
        shared[{known->second, part}] +=
            gradient_bytes(job.step->precision) * static_cast<double>(parameter.count);
      }
    }
  }
  return shared;
}

}  // namespace

StageTransfers::StageTransfers(TrainingWorld& world, StageRanks& stage, const Edges& edges)
    : world_(world), stage_(stage), edges_(edges), shape_(pipeline_shape(world.job)) {}

// The part of the model that is the action's chunk on this stage.
int StageTransfers::part_of(const Action& action) const {
  return part_at(world_.job.parallel.pipeline.schedule, shape_, {stage_.stage, action.chunk});
}

const StageEdge* StageTransfers::edge_in(const Action& action, bool from_before) const {
  const int part = part_of(action);
  return find(edges_.parts, from_before ? part - 1 : part + 1, part);
}

const StageEdge* StageTransfers::edge_out(const Action& action, bool to_next) const {
  const int part = part_of(action);
  return find(edges_.parts, part, to_next ? part + 1 : part - 1);
}

// The host issues the send; the message leaves when the compute stream has reached this place.
Event StageTransfers::send(const StageEdge& edge, int micro) {
  RankGroup& ranks = stage_.ranks;
  const std::size_t slice = static_cast<std::size_t>(micro) % edge.transfers.size();
  const TransferSpec& spec = edge.transfers[slice].spec;
  ranks.host(issue_before_launch, spec.name);
  const Event arrival = edge.channel->send(spec, ranks.record());
  ranks.host(issue_after_launch, spec.name);
  return arrival;
}

Event StageTransfers::receive(const StageEdge& edge) {
  stage_.ranks.host(host_issue_seconds, edge.transfers.front().spec.name);
  return edge.channel->receive();
}

// The compute stream waits. With `transfers: host` the host waits, too.
Program StageTransfers::wait(const Event& event) {
  stage_.ranks.wait(event);
  if (world_.job.parallel.pipeline.transfers == PipelineTransfers::host) {
    co_await stage_.ranks.host_wait(event);
  }
}

// A receive or a send is posted, and its arrival is stored under its key. `..._sent` waits until
// the message of the corresponding send has arrived.
Program StageTransfers::play(const Action& message) {
  const Key key{message.deed, message.chunk, message.micro};
  switch (message.deed) {
    case Deed::receive_activation:
    case Deed::receive_gradient:
      under_way_[key] = receive(*edge_in(message, message.deed == Deed::receive_activation));
      break;
    case Deed::send_activation:
    case Deed::send_gradient:
      under_way_[key] =
          send(*edge_out(message, message.deed == Deed::send_activation), message.micro);
      break;
    case Deed::activation_sent:
    case Deed::gradient_sent: {
      const Deed sent =
          message.deed == Deed::activation_sent ? Deed::send_activation : Deed::send_gradient;
      const auto known = under_way_.find({sent, message.chunk, message.micro});
      if (known == under_way_.end()) break;
      const Event event = known->second;
      under_way_.erase(known);
      co_await wait(event);
      break;
    }
    default:
      break;
  }
}

// The gradients of weights need no message, because the gradient of the output has already arrived
// for the gradients of inputs.
Program StageTransfers::arrived(const Action& action) {
  if (action.deed == Deed::backward_weight) co_return;
  const Deed receive =
      action.deed == Deed::forward ? Deed::receive_activation : Deed::receive_gradient;
  const auto known = under_way_.find({receive, action.chunk, action.micro});
  if (known == under_way_.end()) co_return;
  const Event event = known->second;
  under_way_.erase(known);
  co_await wait(event);
}

void StageTransfers::end_step() {
  for (const auto& [key, event] : under_way_) stage_.ranks.wait(event);
  under_way_.clear();
}

// Both stages send their gradient to the other stage, which is an all-reduce of two ranks.
Program StageTransfers::share_gradients() {
  for (const auto& [stages, edge] : edges_.shared) {
    if (stages.first != stage_.stage) continue;
    send(edge);
    stage_.ranks.wait(receive(*find(edges_.shared, stages.second, stages.first)));
  }
  co_return;
}

// A chain to the last stage and back: a stage sends the number on when it has arrived from the
// previous stage, and back when it has arrived from the next stage.
Program StageTransfers::meet() {
  const int stage = stage_.stage;
  const StageEdge* from_before = find(edges_.neighbours, stage - 1, stage);
  const StageEdge* to_next = find(edges_.neighbours, stage, stage + 1);
  const StageEdge* from_next = find(edges_.neighbours, stage + 1, stage);
  const StageEdge* to_before = find(edges_.neighbours, stage, stage - 1);
  if (from_before) stage_.ranks.wait(receive(*from_before));
  if (to_next) send(*to_next);
  if (from_next) stage_.ranks.wait(receive(*from_next));
  if (to_before) send(*to_before);
  co_return;
}

// Three kinds of edges: activations and gradients between consecutive parts; a single number
// between consecutive stages; gradients of parameters that two stages hold (tied embeddings).
JobTransfers::JobTransfers(TrainingWorld& world) {
  const Job& job = world.job;
  for (StageRanks& stage : world.stages) stages_.emplace_back(world, stage, edges_);
  if (!job.parts) return;
  const CommGroup pair = neighbour_group(job);
  // Adds one direction of an edge: a channel, and the costs of its messages.
  const auto connect = [&](StageEdges& edges, int from, int to, StageRanks& sender,
                           StageRanks& receiver, const std::vector<double>& messages,
                           const char* what) {
    StageEdge& edge = edges[{from, to}];
    edge.channel =
        &world.world.add_channel(fmt::format("{} {} to {}", what, sender.stage, receiver.stage),
                                 sender.ranks, receiver.ranks);
    for (const double bytes : messages) {
      edge.transfers.push_back(sender.network.collective(pair, Collective::send_recv, bytes));
      edge.transfers.back().spec.what = what;
    }
  };
  for (std::size_t part = 0; part + 1 < world.parts.size(); ++part) {
    StageRanks& sender = world.parts[part].stage;
    StageRanks& receiver = world.parts[part + 1].stage;
    if (&sender == &receiver) continue;
    const std::vector<double> bytes = messages_of(job, part);
    const int from = static_cast<int>(part);
    connect(edges_.parts, from, from + 1, sender, receiver, bytes, "activations");
    connect(edges_.parts, from + 1, from, receiver, sender, bytes, "gradients");
  }
  for (std::size_t stage = 0; stage + 1 < world.stages.size(); ++stage) {
    StageRanks& one = world.stages[stage];
    StageRanks& next = world.stages[stage + 1];
    connect(edges_.neighbours, one.stage, next.stage, one, next, {scalar_bytes}, "scalar");
    connect(edges_.neighbours, next.stage, one.stage, next, one, {scalar_bytes}, "scalar");
  }
  for (const auto& [pair_of_parts, bytes] : shared_gradients(job)) {
    StageRanks& one = world.parts[pair_of_parts.first].stage;
    StageRanks& other = world.parts[pair_of_parts.second].stage;
    if (&one == &other) continue;
    connect(edges_.shared, one.stage, other.stage, one, other, {bytes}, "shared gradients");
    connect(edges_.shared, other.stage, one.stage, other, one, {bytes}, "shared gradients");
  }
}

}  // namespace lockstep
