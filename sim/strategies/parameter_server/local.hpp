// Collectives of a node's ranks, one after the other: before they push and after they have pulled.
// Used with the option local_reduction. Private to the room.
#pragma once

#include <functional>
#include <vector>

#include "engine/least_first.hpp"
#include "strategies/parameter_server/books.hpp"

namespace lockstep {

// Messages of one worker that take turns: by priority, then in order of arrival.
class ParcelLane {
 public:
  void add(int priority, const PsParcel& parcel) { waiting_.push({priority, added_++, parcel}); }
  bool empty() const { return waiting_.empty(); }
  PsParcel take() {
    const PsParcel parcel = waiting_.top().parcel;
    waiting_.pop();
    return parcel;
  }

  int couriers = 0;  // programs that take them

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
  // `done` takes a parcel that is reduced or gathered.
  LocalStage(PsRun& run, Books& books, std::function<void(const PsParcel&)> done);
  // Takes the parcel; it is done at once if its message needs no time for the collective.
  void put(const PsParcel& parcel);

 private:
  Program collect(ParcelLane& lane);
  double seconds(const PsParcel& parcel) const;

  PsRun& run_;
  Books& books_;
  std::function<void(const PsParcel&)> done_;
  std::vector<ParcelLane> lanes_;  // by worker: there and back
};

}  // namespace lockstep
