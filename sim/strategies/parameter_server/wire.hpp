// The wire carries messages between workers and servers over routes. A worker or a server sends a
// parcel (a message of one worker; system.hpp) and puts it into a lane, which is a queue of one
// worker's parcels (ParcelLane). A program, the lane's courier, carries the parcels of a lane one
// after the other; with `credit`, a lane of pushes has several couriers. A push ends in the
// server's inbox. An answer (the weights that a server sends back) reduces the worker's count of
// missing messages. Private to sim/strategies/parameter_server.
//
//   push  Wire::send -> node's reduce-scatter -> lane, courier -> inbox of the server
//   pull  Wire::send -> lane, courier -> node's all-gather -> missing() falls, the bell rings
// A serial server carries its messages itself: pushes and pulls enter its inbox, not a lane.
#pragma once

#include <deque>
#include <vector>

#include "strategies/parameter_server/local.hpp"

namespace lockstep {

class Wire {
 public:
  Wire(PsRun& run, Books& books);

  // Sends the parcel. The message travels when it is the parcel's turn in its lane, or when a
  // serial server takes it. `first`: the parcel goes in front of all others that wait for a serial
  // server.
  void send(PsParcel parcel, bool first = false);
  // Counts an answer as missing although the worker has pushed nothing. Used for a worker that
  // waits before its first step.
  void expect(const PsParcel& answer) { ++missing_with(answer); }
  // Moves the parcel over its route. Returns when the parcel has arrived, or for an answer of a
  // serial server, when the server has sent it.
  Program carry(PsParcel parcel);
  // Parcels that have arrived at a server. For a serial server: parcels that wait to be carried.
  Inbox<PsParcel>& inbox(int server) { return inboxes_[at(server)]; }

  // Number of pushed messages whose weights have not come back, although `segment` of the worker's
  // next step needs them. Without PsSystem::pull_overlap, all messages count for segment 0.
  int missing(int worker, std::size_t segment) const {
    return returns_[at(worker)].missing[segment];
  }
  // Rings whenever the last missing message of one of the worker's segments has come back.
  Bell& returned(int worker) { return returns_[at(worker)].bell; }

 private:
  // The answers for which a worker waits: their number by segment, and a bell.
  struct Returns {
    Returns(Executor& executor, std::size_t segments) : bell(executor), missing(segments, 0) {}
    Bell bell;
    std::vector<int> missing;
  };

  Program courier(ParcelLane& lane);
  Program drain(PsParcel parcel);
  // Puts the parcel into its lane, or into the inbox of a serial server. Called for a push after
  // the node has reduced it.
  void leave(const PsParcel& parcel, bool first);
  const PsWay& way(const PsParcel& parcel) const;
  PsFlow flow(const PsParcel& parcel) const;
  ParcelLane& lane_of(const PsParcel& parcel);
  int& missing_with(const PsParcel& parcel);
  void is_back(const PsParcel& parcel);

  PsRun& run_;
  Books& books_;
  std::vector<RouteId> routes_;  // by route of the system: its number in the executor
  // For each worker: one pair of lanes (pushes, pulls) for each place, then one pair for each
  // server. lane_of() chooses a lane.
  std::vector<ParcelLane> lanes_;
  LocalStage local_;
  std::deque<Inbox<PsParcel>> inboxes_;
  std::deque<Returns> returns_;  // by worker
};

}  // namespace lockstep
