// Do the invariants find every kind of contradictory prediction?
#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "results/record.hpp"
#include "sample_record.hpp"

namespace lockstep::invariants_test {
namespace {

using testing::HasSubstr;

Prediction right() {
  Prediction p = sample_record().predictions[0];
  p.split = {};
  p.split.forward = p.step_seconds;
  return p;
}

TEST(Invariants, HoldForARightPrediction) {
  EXPECT_EQ(broken_invariant(right()), "");
}

TEST(Invariants, FindWhatIsWrong) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const struct {
    std::function<void(Prediction&)> spoil;
    const char* says;
  } cases[] = {
      {[](Prediction& p) { p.step_seconds = 0; }, "step 0 s"},
      {[](Prediction& p) { p.step_seconds = nan; }, "step_seconds nan"},
      {[](Prediction& p) { p.total_seconds = infinite; }, "total_seconds inf"},
      {[](Prediction& p) { p.dollars = -1; }, "dollars -1"},
      {[](Prediction& p) { p.split.waiting = 1e6; }, "a part of 1000000 s"},
      {[](Prediction& p) { p.split.waiting = nan; }, "waiting nan"},
      {[](Prediction& p) {
         p.split.host_bound = -0.01;
         p.split.waiting = 0.01;
       },
       "a part of -0.01 s"},
      {[](Prediction& p) { p.split.copies = 0.01; }, "the parts add up to"},
      {[](Prediction& p) {
         p.mesh = MeshRecord{.tensor = 2};
         p.split.exposed.tensor = 0.01;
       },
       "0.01 s of exposed communication by axis"},
      {[](Prediction& p) { p.step_interval.low = 2 * p.step_seconds; }, "outside its interval"},
      {[](Prediction& p) { p.gpu_utilisation = 1.5; }, "GPU utilisation 1.5"},
      {[](Prediction& p) { p.memory.reserved = p.memory.allocated / 2; }, "memory allocated"},
      {[](Prediction& p) { p.memory.device = p.memory.reserved / 2; }, "memory allocated"},
      {[](Prediction& p) {
         p.traffic = {{"NIC", 1, 1, 1.5}};
       },
       "NIC busy 1.5"},
      {[](Prediction& p) {
         p.traffic = {{"NIC", infinite, 1, 0}};
       },
       "busiest_link_bytes inf"},
  };
  for (const auto& each : cases) {
    Prediction p = right();
    each.spoil(p);
    EXPECT_THAT(broken_invariant(p), HasSubstr(each.says));
  }
}

}  // namespace
}  // namespace lockstep::invariants_test
