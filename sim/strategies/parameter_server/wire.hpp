// The wire carries messages between workers and servers over routes. A worker or a server sends a
// parcel; couriers carry the parcels of each lane one after the other; pushes end in the server's
// inbox, and answers end in the worker's count of missing messages. Private to the room.
//
//   push  Wire::send -> node's reduce-scatter -> lane, courier -> inbox of the server
//   pull  Wire::send -> lane, courier -> node's all-gather -> missing() falls, the bell rings
// A serial server carries its messages itself: both kinds go to its inbox in place of a lane.
#pragma once

#include <deque>
#include <vector>

#include "strategies/parameter_server/local.hpp"

namespace lockstep {

class Wire {
 public:
  Wire(PsRun& run, Books& books);

  // Sends the parcel. The message travels when its turn comes in its lane, or when a serial server
  // takes it up. `first`: the parcel goes ahead of all others that wait for a serial server.
  void send(PsParcel parcel, bool first = false);
  // Counts an answer as missing for which the worker has pushed nothing: a worker that waits before
  // its first step.
  void expect(const PsParcel& answer) { ++missing_with(answer); }
  // Moves the parcel over its route. Returns when the parcel has arrived; for an answer of a serial
  // server, when the server has sent it.
  Program carry(PsParcel parcel);
  // Parcels that have arrived at a server; for a serial server, parcels that wait to be carried.
  Inbox<PsParcel>& inbox(int server) { return inboxes_[at(server)]; }

  // Number of pushed messages that are not back and whose weights `segment` of the worker's next
  // step needs. Without PsSystem::pull_overlap all messages count for segment 0.
  int missing(int worker, std::size_t segment) const {
    return returns_[at(worker)].missing[segment];
  }
  // Rings each time that no message is missing any longer for one of the worker's segments.
  Bell& returned(int worker) { return returns_[at(worker)].bell; }

 private:
  // The answers that a worker waits for: their number by segment, and a bell.
  struct Returns {
    Returns(Executor& executor, std::size_t segments) : bell(executor), missing(segments, 0) {}
    Bell bell;
    std::vector<int> missing;
  };

  Program courier(ParcelLane& lane);
  Program drain(PsParcel parcel);
  // Puts the parcel into its lane, or into the inbox of a serial server. A push gets here when the
  // node has reduced it.
  void leave(const PsParcel& parcel, bool first);
  const PsWay& way(const PsParcel& parcel) const;
  PsFlow flow(const PsParcel& parcel) const;
  ParcelLane& lane_of(const PsParcel& parcel);
  int& missing_with(const PsParcel& parcel);
  void is_back(const PsParcel& parcel);

  PsRun& run_;
  Books& books_;
  std::vector<RouteId> routes_;  // by route of the system, its number in the executor
  // For each worker one pair of lanes (pushes, pulls) for each place, then one pair for each
  // server. lane_of() chooses.
  std::vector<ParcelLane> lanes_;
  LocalStage local_;
  std::deque<Inbox<PsParcel>> inboxes_;
  std::deque<Returns> returns_;  // by worker
};

}  // namespace lockstep
