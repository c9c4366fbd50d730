// The wire: what carries messages between workers and servers. Couriers carry the messages of one
// lane one after the other. Private to the room.
#pragma once

#include <deque>
#include <vector>

#include "engine/least_first.hpp"
#include "strategies/parameter_server/books.hpp"

namespace lockstep {

class Wire {
 public:
  Wire(PsRun& run, Books& books);

  // The message travels when it is its turn in its lane, or when a serial server takes it up;
  // `first`: before all others that wait for this server.
  void send(PsParcel parcel, bool first = false);
  // Until it has arrived; an answer of a serial server: until the server has sent it.
  Program carry(PsParcel parcel);
  // Parcels that have arrived at a server; for a serial server those that want to be carried.
  Inbox<PsParcel>& inbox(int server) { return inboxes_[at(server)]; }

  // Messages that the worker pushed, that are not back, and that `segment` of the next step needs;
  // without PsSystem::pull_overlap segment 0 needs all.
  int missing(int worker, std::size_t segment) const {
    return returns_[at(worker)].missing[segment];
  }
  // Rings when none is missing any more for some segment.
  Bell& returned(int worker) { return returns_[at(worker)].bell; }

 private:
  struct Queued {
    int priority = 0;
    std::int64_t number = 0;  // in the order in which they came
    PsParcel parcel;
    bool operator<(const Queued& other) const {
      return priority != other.priority ? priority < other.priority : number < other.number;
    }
  };
  // Messages of one worker that travel one after the other: by priority, then as they came.
  struct Lane {
    LeastFirst<Queued> waiting;
    bool has_courier = false;
  };
  struct Returns {
    Returns(Executor& executor, std::size_t segments) : bell(executor), missing(segments, 0) {}
    Bell bell;
    std::vector<int> missing;
  };

  Program courier(Lane& lane);
  Program drain(PsParcel parcel);
  const PsWay& way(const PsParcel& parcel) const;
  PsFlow flow(const PsParcel& parcel) const;
  Lane& lane_of(const PsParcel& parcel);
  int& missing_with(const PsParcel& parcel);
  void arrive(const PsParcel& parcel);

  PsRun& run_;
  Books& books_;
  std::vector<RouteId> routes_;
  std::vector<Lane> lanes_;  // by worker, then places, then servers: there and back
  std::deque<Inbox<PsParcel>> inboxes_;
  std::deque<Returns> returns_;  // by worker
  std::int64_t queued_ = 0;      // messages so far
};

}  // namespace lockstep
