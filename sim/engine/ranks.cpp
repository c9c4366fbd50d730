#include "engine/ranks.hpp"

#include <algorithm>

#include "engine/rank_group.hpp"

namespace lockstep {

bool Event::known() const {
  return state_ == nullptr || state_->known;
}

double Event::seconds(int lane) const {
  return state_ ? state_->at(static_cast<std::size_t>(lane)) : 0;
}

RankGroup::Impl::Impl(RankGroupSpec spec, Links& all_links)
    : name(std::move(spec.name)),
      one_thread(spec.one_thread),
      links(all_links),
      interference(std::move(spec.slowdown)),
      stream(std::move(spec.ranks_per_lane), interference, program),
      factors(stream.make_factors(std::vector<double>(stream.lanes(), 1.0))) {}

void RankGroup::Impl::start(Network& network, sg::s4u::Host* where) {
  for (Communicator& communicator : communicators) {
    sg::make_actor(communicator.name(), where,
                   [&communicator, &network] { communicator.serve(network); });
  }
  if (interference.on() && !communicators.empty()) {
    stream.pace_with_time();
    sg::make_actor(name + " stream", where, [this] { stream.serve(); });
  }
}

void RankGroup::Impl::start_alone(NetworkKind network) {
  alone = network;
  if (interference.on() && !communicators.empty()) stream.pace_with_time();
}

bool RankGroup::Impl::advance() {
  double first = stream.compute_end();
  Communicator* next = nullptr;
  for (Communicator& communicator : communicators) {
    const double time = communicator.next_change();
    if (time >= first) continue;
    first = time;
    next = &communicator;
  }
  if (first == never) return false;
  now = std::max(now, first);
  if (next != nullptr) {
    next->change(now, *alone, links);
  } else {
    now = std::max(now, stream.end_compute());
  }
  stream.settle(now);
  return true;
}

void RankGroup::Impl::close() {
  if (alone) {
    stream.settle(now);
    while (advance()) {
    }
    return;
  }
  for (Communicator& communicator : communicators) communicator.close();
  stream.close();
}

void RankGroup::Impl::await(const Event& event) {
  if (known_or_wake(event, *this)) return;
  wait_until([&] { return event.known(); });
}

RankGroup::RankGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankGroup::~RankGroup() = default;

int RankGroup::lanes() const {
  return static_cast<int>(impl_->stream.lanes());
}

void RankGroup::set_factors(const std::vector<double>& factors) {
  assert(factors.size() == impl_->stream.lanes());
  impl_->factors = impl_->stream.make_factors(factors);
}

void RankGroup::host(double seconds) {
  if (!impl_->one_thread) impl_->host.offset += seconds;
}

void RankGroup::host_wait(const Event& event, double resume) {
  if (impl_->one_thread) {
    wait(event);
    return;
  }
  impl_->await(event);
  if (!event.state()) return;
  std::vector<double> base(impl_->stream.lanes());
  for (std::size_t lane = 0; lane < base.size(); ++lane) {
    base[lane] = std::max(impl_->host.at(lane), event.state()->at(lane) + resume);
  }
  impl_->host = host_clock(std::move(base));
}

Event RankGroup::host_position() {
  if (impl_->one_thread) return record();
  auto state = std::make_shared<Event::State>();
  state->known = true;
  state->cause = WaitCause::host_bound;
  if (impl_->host.base) {
    state->lanes.resize(impl_->stream.lanes());
    for (std::size_t lane = 0; lane < state->lanes.size(); ++lane) {
      state->lanes[lane] = impl_->host.at(lane);
    }
  } else {
    state->common = impl_->host.offset;
  }
  return Event(state);
}

void RankGroup::compute(Phase phase, const QueuedWork& work) {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::compute;
  item.phase = phase;
  item.work = impl_->one_thread ? QueuedWork{0, work.busy, work.busy} : work;
  item.factors = impl_->factors;
  item.host = impl_->host;
  host(work.host);
  impl_->stream.push(std::move(item));
}

void RankGroup::wait(const Event& event) {
  if (!event.state()) return;
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::wait;
  item.event = event;
  impl_->stream.push(std::move(item));
}

Event RankGroup::record() {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::record;
  item.event = Event(std::make_shared<Event::State>());
  item.event.state()->cause = WaitCause::waiting;
  Event event = item.event;
  impl_->stream.push(std::move(item));
  return event;
}

Communicator& RankGroup::add_communicator(const std::string& name,
                                          std::vector<std::vector<int>> groups) {
  return impl_->communicators.emplace_back(name, lanes(), std::move(groups), impl_->interference);
}

Event RankGroup::start(Communicator& communicator, const TransferSpec& spec, const Event& after) {
  return communicator.start(spec, impl_->host, after, impl_->one_thread ? record() : Event{});
}

void RankGroup::barrier() {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::barrier;
  impl_->stream.push(std::move(item));
}

void RankGroup::synchronize() {
  const Event event = record();
  host_wait(event);
  impl_->await(event);
  const double ahead =
      std::max(impl_->host.latest(), event.state()->latest()) - sg::s4u::Engine::get_clock();
  if (ahead > 0) sg::s4u::this_actor::sleep_for(ahead);
}

void RankGroup::idle_until(double time, WaitCause cause) {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::idle;
  item.until = time;
  item.cause = cause;
  impl_->stream.push(std::move(item));
  if (impl_->one_thread) return;
  std::vector<double> base(impl_->stream.lanes());
  for (std::size_t lane = 0; lane < base.size(); ++lane) {
    base[lane] = std::max(impl_->host.at(lane), time);
  }
  impl_->host = host_clock(std::move(base));
}

StreamId RankGroup::add_stream(const std::string&, WaitCause cause) {
  impl_->side_streams.emplace_back(impl_->stream.lanes(), cause);
  return static_cast<StreamId>(impl_->side_streams.size()) - 1;
}

Event RankGroup::enqueue(StreamId stream, double seconds, const Event& after, bool after_host) {
  SideStream& side = impl_->side_streams.at(static_cast<std::size_t>(stream));
  return side.push(seconds, after_host ? &impl_->host : nullptr, after);
}

Event RankGroup::copy(StreamId stream, const TransferSpec& spec, const Event& after) {
  const double seconds = lone_seconds(spec, impl_->links);
  impl_->links.count(spec, seconds - spec.latency_seconds);
  return enqueue(stream, seconds, after);
}

void RankGroup::end_step() {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::end_step;
  impl_->stream.push(std::move(item));
  for (Communicator& communicator : impl_->communicators) {
    communicator.forget(impl_->stream.earliest());
  }
}

void RankGroup::await_step(int index) {
  impl_->wait_until([&] { return static_cast<int>(steps().size()) > index; });
}

const std::vector<StepRecord>& RankGroup::steps() const {
  return impl_->stream.steps();
}

}  // namespace lockstep
