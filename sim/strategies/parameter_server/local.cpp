// Reduce-scatters and all-gathers within a node, which take the time of NCCL's cost model
// (messages.cpp) and are played as plain delays. A worker has one queue for pushes and one for
// pulls. The collectives of a queue run one after the other and slow down nothing else.
#include "strategies/parameter_server/local.hpp"

#include <utility>

#include "core/index.hpp"

namespace lockstep {

LocalStage::LocalStage(PsRun& run, Books& books, std::function<void(const PsParcel&)> done)
    : run_(run), books_(books), done_(std::move(done)), lanes_(2 * run.system.workers.size()) {}

void LocalStage::put(const PsParcel& parcel) {
  if (seconds(parcel) == 0) {
    done_(parcel);
    return;
  }
  const int back = parcel.direction == Direction::pull ? 1 : 0;
  ParcelLane& lane = lanes_[at(2 * parcel.worker + back)];
  lane.add(run_.priority(parcel), parcel);
  if (lane.couriers > 0) return;
  ++lane.couriers;
  run_.executor.start("local", collect(lane));
}

Program LocalStage::collect(ParcelLane& lane) {
  while (!lane.empty()) {
    const PsParcel parcel = lane.take();
    books_.communicate(parcel, +1);
    co_await run_.executor.sleep_for(seconds(parcel));
    books_.communicate(parcel, -1);
    done_(parcel);
  }
  --lane.couriers;
}

double LocalStage::seconds(const PsParcel& parcel) const {
  const PsMessage& message = run_.message(parcel.message);
  return parcel.direction == Direction::push ? message.reduce_seconds : message.gather_seconds;
}

}  // namespace lockstep
