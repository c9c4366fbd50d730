// The wire carries messages between workers and servers. Workers and servers send parcels by it and
// take them from its inboxes. The messages of one lane are carried one after the other. Private to
// the room.
#pragma once

#include <deque>
#include <vector>

#include "strategies/parameter_server/local.hpp"

namespace lockstep {

class Wire {
 public:
  Wire(PsRun& run, Books& books);

  // The message travels when its turn comes in its lane, or when a serial server takes it up.
  // `first`: ahead of all others that wait for this server.
  void send(PsParcel parcel, bool first = false);
  // The worker waits for this answer although it has pushed nothing yet.
  void expect(const PsParcel& answer) { ++missing_with(answer); }
  // Returns when the parcel has arrived; for an answer of a serial server, when the server has sent
  // it.
  Program carry(PsParcel parcel);
  // Parcels that have arrived at a server; for a serial server, parcels that wait to be carried.
  Inbox<PsParcel>& inbox(int server) { return inboxes_[at(server)]; }

  // Number of pushed messages that are not back and that `segment` of the next step needs. Without
  // PsSystem::pull_overlap segment 0 needs all messages.
  int missing(int worker, std::size_t segment) const {
    return returns_[at(worker)].missing[segment];
  }
  // Rings when no message is missing for some segment.
  Bell& returned(int worker) { return returns_[at(worker)].bell; }

 private:
  struct Returns {
    Returns(Executor& executor, std::size_t segments) : bell(executor), missing(segments, 0) {}
    Bell bell;
    std::vector<int> missing;
  };

  Program courier(ParcelLane& lane);
  Program drain(PsParcel parcel);
  // Starts the transfer: pushes leave when the node has reduced them; answers are back when it has
  // gathered them.
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
