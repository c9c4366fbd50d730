// Couriers carry parcels over routes of the executor, lane by lane. A lane is the queue of one copy
// engine or one connection. With `credit`, a lane of pushes has that many couriers, like BytePS'
// window of pushes (fact 76).
#include "strategies/parameter_server/wire.hpp"

#include <stdexcept>

#include "core/index.hpp"

namespace lockstep {

namespace {

// Whether `credit` limits the number of pushes that the worker has under way. If so, a worker's
// pushes to all servers share one lane.
bool has_window(const PsSystem& system, const PsParcel& parcel) {
  return system.credit > 0 && parcel.direction == Direction::push;
}

}  // namespace

Wire::Wire(PsRun& run, Books& books)
    : run_(run), books_(books), local_(run, books, [this](const PsParcel& parcel) {
        parcel.direction == Direction::push ? leave(parcel, false) : is_back(parcel);
      }) {
  const PsSystem& system = run.system;
  for (const PsMessage& m : system.messages) {
    if (m.server >= system.servers || m.place >= system.places) {
      throw std::logic_error("a message to a server that is not there");
    }
  }
  for (const PsRoute& r : system.routes)
    routes_.push_back(run.executor.add_route({r.links, r.cap}));
  for (int server = 0; server < system.servers; ++server) inboxes_.emplace_back(run.executor);
  for (std::size_t w = 0; w < system.workers.size(); ++w) {
    returns_.emplace_back(run.executor, system.segments.size() + 1);
  }
  lanes_.resize(system.workers.size() * at(2 * (system.places + system.servers)));
}

// A pushed message counts as missing until its weights have come back.
void Wire::send(PsParcel parcel, bool first) {
  const bool push = parcel.direction == Direction::push;
  if (push) ++missing_with(parcel);
  if (run_.watch) run_.watch->leaves(parcel);
  push ? local_.put(parcel) : leave(parcel, first);
}

void Wire::leave(const PsParcel& parcel, bool first) {
  const PsSystem& system = run_.system;
  if (system.serial_servers) {
    Inbox<PsParcel>& server = inbox(run_.message(parcel.message).server);
    first ? server.post_first(parcel) : server.post(parcel);
    return;
  }
  ParcelLane& lane = lane_of(parcel);
  lane.add(run_.priority(parcel), parcel);
  if (lane.couriers >= (has_window(system, parcel) ? system.credit : 1)) return;
  ++lane.couriers;
  run_.executor.start("courier", courier(lane));
}

// Carries parcels until the lane is empty. leave() starts a courier if a parcel arrives while the
// lane has fewer couriers than allowed.
Program Wire::courier(ParcelLane& lane) {
  while (!lane.empty()) {
    const PsParcel parcel = lane.take();
    co_await carry(parcel);
    if (parcel.direction == Direction::push) {
      inbox(run_.message(parcel.message).server).post(parcel);
    } else {
      local_.put(parcel);
    }
  }
  --lane.couriers;
}

// First the latency, then the flow of the bytes. On CPUs, the server's process works on the
// transfer (PsRoute::cores); if a worker uses the same core, the transfer takes longer. An answer
// of a serial server is carried until the server has written everything to the buffers on the
// route. drain() carries the rest, without the server's core.
Program Wire::carry(PsParcel parcel) {
  Executor& executor = run_.executor;
  const int id = way(parcel).route(parcel.direction);
  const PsRoute& route = run_.system.routes[at(id)];
  books_.transfer(parcel, +1);
  const double start = executor.now();
  ServerDemand demand(run_.core_of_server(run_.message(parcel.message).server), route.cores, start);
  co_await executor.sleep_for(route.latency);
  const PsFlow flowing = flow(parcel);
  co_await executor.carry(routes_[at(id)], (1 - flowing.held) * flowing.bytes,
                          run_.ranks(parcel.worker));
  while (const double missed = demand.missed(executor.now())) co_await executor.sleep_for(missed);
  if (run_.watch) run_.watch->arrives(parcel, start, executor.now());
  if (run_.system.serial_servers && parcel.direction == Direction::pull) {
    executor.start("drain", drain(parcel));
  } else {
    books_.transfer(parcel, -1);
  }
}

// Carries the bytes that are still in buffers on the route when a serial server has sent its whole
// answer.
Program Wire::drain(PsParcel parcel) {
  const double start = run_.executor.now();
  const PsFlow flowing = flow(parcel);
  co_await run_.executor.carry(routes_[at(way(parcel).pull)], flowing.held * flowing.bytes,
                               run_.ranks(parcel.worker));
  books_.transfer(parcel, -1);
  if (run_.watch) run_.watch->drains(parcel, start, run_.executor.now());
  local_.put(parcel);
}

// The routes between the parcel's worker and the place of its server.
const PsWay& Wire::way(const PsParcel& parcel) const {
  return run_.system.workers[at(parcel.worker)].ways[at(run_.message(parcel.message).place)];
}

// The parcel's bytes, and the share that is still in buffers when the sender has finished. Only a
// serial server continues before its answer has arrived, so the share is 0 in all other cases.
PsFlow Wire::flow(const PsParcel& parcel) const {
  const PsSystem& system = run_.system;
  const PsMessage& message = run_.message(parcel.message);
  const double bytes = message.bytes(parcel.direction);
  if (!system.flow) return {bytes, 0};
  const bool one_core = at(message.server) < system.core_of_server.size() &&
                        system.core_of_server[at(message.server)] == parcel.worker;
  PsFlow result = system.flow(way(parcel).route(parcel.direction), bytes, one_core);
  if (parcel.direction == Direction::push || !system.serial_servers) result.held = 0;
  return result;
}

// The lane of the parcel among its worker's lanes: the first lane for pushes with a window; the
// lane of the place if all its messages travel one after the other; otherwise the lane of the
// server.
ParcelLane& Wire::lane_of(const PsParcel& parcel) {
  const PsSystem& system = run_.system;
  const PsMessage& message = run_.message(parcel.message);
  const int number = has_window(system, parcel) ? 0
                     : way(parcel).one_lane     ? message.place
                                                : system.places + message.server;
  const int back = parcel.direction == Direction::pull ? 1 : 0;
  return lanes_[at(2 * (parcel.worker * (system.places + system.servers) + number) + back)];
}

// The counter of missing messages that includes the parcel's message.
int& Wire::missing_with(const PsParcel& parcel) {
  const int segment = run_.system.pull_overlap ? run_.message(parcel.message).needed_by : 0;
  return returns_[at(parcel.worker)].missing[at(segment)];
}

void Wire::is_back(const PsParcel& parcel) {
  if (--missing_with(parcel) == 0) returned(parcel.worker).ring();
}

}  // namespace lockstep
