// The wire: what carries messages between workers and servers. Couriers carry the messages of one
// lane one after the other. Private to the room.
#pragma once

#include <deque>
#include <vector>

#include "strategies/parameter_server/local.hpp"

namespace lockstep {

class Wire {
 public:
  Wire(PsRun& run, Books& books);

  // The message travels when it is its turn in its lane, or when a serial server takes it up;
  // `first`: before all others that wait for this server.
  void send(PsParcel parcel, bool first = false);
  // An answer that the worker waits for before it has pushed anything.
  void expect(const PsParcel& answer) { ++missing_with(answer); }
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
  struct Returns {
    Returns(Executor& executor, std::size_t segments) : bell(executor), missing(segments, 0) {}
    Bell bell;
    std::vector<int> missing;
  };

  Program courier(ParcelLane& lane);
  Program drain(PsParcel parcel);
  // Pushes leave when the node has reduced them; answers are back when it has gathered them.
  void leave(const PsParcel& parcel, bool first);
  const PsWay& way(const PsParcel& parcel) const;
  PsFlow flow(const PsParcel& parcel) const;
  ParcelLane& lane_of(const PsParcel& parcel);
  int& missing_with(const PsParcel& parcel);
  void is_back(const PsParcel& parcel);

  PsRun& run_;
  Books& books_;
  std::vector<RouteId> routes_;
  std::vector<ParcelLane> lanes_;  // by worker, then places, then servers: there and back
  LocalStage local_;
  std::deque<Inbox<PsParcel>> inboxes_;
  std::deque<Returns> returns_;  // by worker
};

}  // namespace lockstep
