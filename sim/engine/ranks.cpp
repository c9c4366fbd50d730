// RankGroup turns a program's calls into items of the compute stream, side streams and
// communicators, and advances the host's clocks. A call only records the host's present clock with
// the work; streams.cpp, paced_stream.cpp and communicator.cpp compute the device's times.
#include "engine/ranks.hpp"

#include <algorithm>

#include "engine/rank_group.hpp"

namespace lockstep {

bool Event::known() const {
  return state_ == nullptr || state_->known;
}

RankGroup::Impl::Impl(RankGroupSpec spec, Network& given, std::deque<Communicator>& all,
                      Observer* observer)
    : watch(Watch::make(observer, spec)),
      name(std::move(spec.name)),
      one_thread(spec.one_thread),
      network(given),
      all_communicators(all),
      interference(std::move(spec.slowdown), spec.ranks_per_lane.size(), given.executor()),
      program(given.executor()),
      stream(std::move(spec.ranks_per_lane), interference, given.executor(), program, watch.get()),
      factors(stream.make_factors(std::vector<double>(stream.lanes(), 1.0))),
      device_of_lane(std::move(spec.device_of_lane)) {}

// Called when the world runs, so that all links and communicators exist.
void RankGroup::Impl::start() {
  links = network.links();
  for (Communicator* communicator : communicators) {
    network.executor().start(communicator->name(), communicator->serve());
  }
  if (interference.on() && !communicators.empty()) {
    stream.pace_with_time();
    network.executor().start(name + " stream", stream.serve());
  }
}

void RankGroup::Impl::close() {
  for (Communicator* communicator : communicators) communicator->close();
  stream.close();
}

Program RankGroup::Impl::await(std::function<bool()> there) {
  if (there()) co_return;
  stream.go_until(there);
  while (!there()) co_await program.rung();
  stream.go_until({});
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

void RankGroup::host(double seconds, std::string_view name) {
  if (impl_->one_thread) return;
  if (impl_->watch) impl_->watch->host_work(name, impl_->host, seconds);
  impl_->host.offset += seconds;
}

// After this call the lanes' clocks differ: each lane continues when the event has happened in that
// lane.
Program RankGroup::host_wait(Event event, double resume) {
  if (impl_->one_thread) {
    wait(event);
    co_return;
  }
  if (!known_or_wake(event, *impl_)) {
    co_await impl_->await([&event] { return event.known(); });
  }
  if (!event.state()) co_return;
  std::vector<double> base(impl_->stream.lanes());
  for (std::size_t lane = 0; lane < base.size(); ++lane) {
    base[lane] = std::max(impl_->host.at(lane), event.state()->at(lane) + resume);
  }
  HostClock before = std::exchange(impl_->host, host_clock(std::move(base)));
  if (impl_->watch) impl_->watch->host_wait(before, impl_->host, *event.state());
}

Event RankGroup::host_position() {
  if (impl_->one_thread) return record();
  auto state = make_event_state();
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

void RankGroup::compute(Phase phase, const QueuedWork& work, std::string_view name) {
  impl_->compute(phase, work, {name});
}

void RankGroup::compute(Phase phase, const NamedWork& work) {
  impl_->compute(phase, work.total, {{}, &work.parts});
}

// On CPU ranks (one_thread) the work's host time is part of its device time, so the item has no
// host time.
void RankGroup::Impl::compute(Phase phase, const QueuedWork& work, WorkLabel label) {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::compute;
  item.phase = phase;
  item.work = one_thread ? QueuedWork{0, work.busy, work.busy} : work;
  item.factors = factors_of(work);
  item.host = host;
  if (watch) watch->issue(phase, work, label, host);
  if (!one_thread) host.offset += work.host;
  item.label = label;
  stream.push(std::move(item));
}

// Computes the exchanges in closed form: no exchange meets other traffic, so each takes its lone
// time.
void RankGroup::compute(Phase phase, const Communicator& communicator, const ExchangedWork& work) {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::exchanged;
  item.phase = phase;
  item.work = work.issued;
  item.factors = impl_->factors;
  item.host = impl_->host;
  impl_->host.offset += work.issued.host;
  item.exchanged = &work;
  item.groups = &communicator.windows();
  item.axis = communicator.axis();
  Links& links = impl_->network.links();
  item.exchange_seconds.reserve(work.beats.size());
  for (const ExchangedWork::Beat& beat : work.beats) {
    item.exchange_seconds.push_back(lone_seconds(*beat.exchange, links));
  }
  // Traffic is counted twice: in the ledger of the world, and in that of the group, which repeat()
  // multiplies.
  for (const auto& [spec, times] : work.transfers) {
    const double seconds = lone_seconds(*spec, links) - spec->latency_seconds;
    for (int i = 0; i < times; ++i) {
      links.count(*spec, seconds);
      impl_->links.count(*spec, seconds);
    }
  }
  impl_->stream.push(std::move(item));
}

Factors RankGroup::Impl::factors_of(const QueuedWork& work) const {
  if (device_of_lane.empty() || same_everywhere(work)) return factors;
  std::vector<double> lanes = factors->lanes;
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane] = DeviceSlowdown{lanes[lane], device_of_lane[lane]}.of(work);
  }
  return stream.make_factors(std::move(lanes));
}

void RankGroup::wait(const Event& event) {
  if (!event.state()) return;
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::wait;
  item.event = event;
  impl_->stream.push(std::move(item));
}

void RankGroup::post(const Event& event) {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::post;
  item.event = event;
  item.host = impl_->host;
  impl_->stream.push(std::move(item));
}

Event RankGroup::record(const std::vector<std::vector<int>>& of) {
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::record;
  item.event = Event(make_event_state());
  item.event.state()->cause = WaitCause::waiting;
  if (!of.empty()) item.last_of = &of;
  Event event = item.event;
  impl_->stream.push(std::move(item));
  return event;
}

Event RankGroup::happened(double time, WaitCause cause) {
  auto state = make_event_state();
  state->known = true;
  state->cause = cause;
  state->common = time;
  return Event(state);
}

Communicator& RankGroup::add_communicator(const std::string& name,
                                          std::vector<std::vector<int>> groups,
                                          double AxisSeconds::*axis) {
  Communicator& made =
      impl_->all_communicators.emplace_back(name, axis, lanes(), groups, impl_->interference,
                                            impl_->network, impl_->links, impl_->watch.get());
  impl_->communicators.push_back(&made);
  return made;
}

// On CPU ranks, a collective is issued when the compute stream reaches this place.
Event RankGroup::start(Communicator& communicator, const TransferSpec& spec, const Event& after) {
  ++impl_->collectives;
  communicator.forget_some(impl_->stream.earliest());
  return communicator.start(spec, impl_->host, after, impl_->one_thread ? record() : Event{});
}

void RankGroup::start(Communicator& communicator, const TransferSpec& spec, const Event& after,
                      const Event& posted, const Event& done) {
  ++impl_->collectives;
  communicator.forget_some(impl_->stream.earliest());
  communicator.start(spec, impl_->host, after, posted, done.state());
}

StreamId RankGroup::add_stream(const std::string& name, WaitCause cause) {
  impl_->side_streams.emplace_back(name, impl_->stream.lanes(), cause, impl_->watch.get());
  return static_cast<StreamId>(impl_->side_streams.size()) - 1;
}

Event RankGroup::enqueue(StreamId stream, double seconds, const Event& after, bool after_host,
                         std::string_view name, std::vector<double> more) {
  SideStream& side = impl_->side_streams.at(static_cast<std::size_t>(stream));
  return side.push(name, seconds, after_host ? &impl_->host : nullptr, after, std::move(more));
}

std::vector<double> RankGroup::elsewhere(const QueuedWork& work) const {
  const std::vector<int>& devices = impl_->device_of_lane;
  if (devices.empty() || same_everywhere(work)) return {};
  std::vector<double> more;
  for (const int device : devices) {
    more.push_back((DeviceSlowdown{1, device}.of(work) - 1) * work.busy);
  }
  return more;
}

Event RankGroup::copy(StreamId stream, const TransferSpec& spec, const Event& after) {
  Links& links = impl_->network.links();
  const double seconds = lone_seconds(spec, links);
  links.count(spec, seconds - spec.latency_seconds);
  impl_->links.count(spec, seconds - spec.latency_seconds);
  return enqueue(stream, seconds, after, true, spec.name);
}

// An old mark is dropped only once the compute stream has written its clocks into the mark.
int RankGroup::mark() {
  constexpr std::size_t kept = 8;
  std::deque<Impl::Marked>& marks = impl_->marks;
  for (; marks.size() > kept && !marks.front().at.device.empty(); ++impl_->first_mark) {
    marks.pop_front();
  }
  Impl::Marked& marked = marks.emplace_back();
  for (std::size_t lane = 0; lane < impl_->stream.lanes(); ++lane) {
    marked.at.host.push_back(impl_->host.at(lane));
  }
  marked.at.collectives = impl_->collectives;
  marked.links = impl_->links;
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::mark;
  item.mark = &marked.at;
  impl_->stream.push(std::move(item));
  return impl_->first_mark + static_cast<int>(marks.size()) - 1;
}

const Mark& RankGroup::marked(int number) const {
  return impl_->marked(number).at;
}

Program RankGroup::await_mark(int number) {
  co_await impl_->await([this, number] { return !marked(number).device.empty(); });
}

// Simulated time stands still. Therefore a lane's compute stream is moved only by the time that the
// lane takes beyond the fastest lane (`longer_by`), and a host clock by its own advance less that
// of the fastest lane.
std::vector<double> RankGroup::repeat(int from, int to, int times) {
  const Impl::Marked& begin = impl_->marked(from);
  const Impl::Marked& end = impl_->marked(to);
  const std::size_t lanes = impl_->stream.lanes();
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::repeat;
  item.repetition = std::make_shared<Repetition>(begin.at, end.at, times);
  const std::shared_ptr<const Repetition> repetition = item.repetition;
  impl_->stream.push(std::move(item));
  impl_->network.links().repeat(begin.links, end.links, times);
  if (impl_->one_thread) return repetition->longer_by;
  std::vector<double> moved(lanes), host(lanes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    moved[lane] = times * (end.at.host[lane] - begin.at.host[lane]) - repetition->seconds;
    host[lane] = impl_->host.at(lane) + moved[lane];
  }
  impl_->host = host_clock(std::move(host));
  return moved;
}

void RankGroup::move(StreamId stream, const std::vector<double>& seconds) {
  impl_->side_streams.at(static_cast<std::size_t>(stream)).move(seconds);
}

Event RankGroup::moved(const Event& event, const std::vector<double>& seconds) {
  auto state = make_event_state(*event.state());
  state->lanes.resize(seconds.size());
  for (std::size_t lane = 0; lane < seconds.size(); ++lane) {
    state->lanes[lane] = event.state()->at(lane) + seconds[lane];
  }
  return Event(state);
}

void RankGroup::end_step() {
  if (impl_->watch) impl_->watch->host_step(impl_->host);
  ComputeStream::Item item;
  item.kind = ComputeStream::Item::Kind::end_step;
  item.host = impl_->host;
  impl_->stream.push(std::move(item));
  for (Communicator* communicator : impl_->communicators) {
    communicator->forget(impl_->stream.earliest());
  }
}

Program RankGroup::await_step(int index) {
  co_await impl_->await([this, index] { return static_cast<int>(steps().size()) > index; });
}

const std::vector<StepRecord>& RankGroup::steps() const {
  return impl_->stream.steps();
}

}  // namespace lockstep
