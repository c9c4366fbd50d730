// Collectives among the ranks of a node (`local_reduction`): a reduce-scatter before the ranks push
// a message, and an all-gather after they have pulled it (BytePS, facts 74 and H128). Wire passes
// each parcel through this stage; without the option, the stage does nothing. Private to
// sim/strategies/parameter_server.
#pragma once

#include <functional>
#include <vector>

#include "engine/least_first.hpp"
#include "strategies/parameter_server/books.hpp"

namespace lockstep {

// A queue of one worker's parcels: by priority, the smallest value first, then in order of arrival.
class ParcelLane {
 public:
  void add(int priority, const PsParcel& parcel) { waiting_.push({priority, added_++, parcel}); }
  bool empty() const { return waiting_.empty(); }
  PsParcel take() {
    const PsParcel parcel = waiting_.top().parcel;
    waiting_.pop();
    return parcel;
  }

  int couriers = 0;  // number of running programs that take parcels from this lane

 private:
  struct Queued {
    int priority = 0;
    std::int64_t number = 0;
    PsParcel parcel;
    bool operator<(const Queued& other) const {
      return priority != other.priority ? priority < other.priority : number < other.number;
    }
  };
  LeastFirst<Queued> waiting_;
  std::int64_t added_ = 0;
};

class LocalStage {
 public:
  // `done` is called with each parcel after its collective has ended.
  LocalStage(PsRun& run, Books& books, std::function<void(const PsParcel&)> done);
  // Queues the parcel's collective in the lane of its worker and direction. If the collective
  // takes no time, calls `done` at once.
  void put(const PsParcel& parcel);

 private:
  // Runs the collectives of a lane one after the other. Returns when the lane is empty.
  Program collect(ParcelLane& lane);
  double seconds(const PsParcel& parcel) const;

  PsRun& run_;
  Books& books_;
  std::function<void(const PsParcel&)> done_;
  std::vector<ParcelLane> lanes_;  // by worker: one lane for pushes, one for pulls
};

}  // namespace lockstep
