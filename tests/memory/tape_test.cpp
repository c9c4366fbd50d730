// Does the memory tape report the same figures with a log and without one?
#include "memory/tape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::tape_test {
namespace {

// A second touch of the same size needs no new block, and must be reported with a log all the same.
TEST(Tape, WhatIsTouchedIsAtThePeakAndInTheLog) {
  constexpr std::int64_t mebi = 1024 * 1024;
  MemoryLog log;
  Tape plain({}), told({}, &log);
  for (Tape* tape : {&plain, &told}) {
    tape->micro_batch(0, 0);
    tape->at(MemoryPhase::inputs);
    tape->touch(MemoryKind::temporaries, 4 * mebi, {"scratch"});
    tape->at(MemoryPhase::optimizer);
    tape->allocate(MemoryKind::parameters, 2 * mebi, {"weight"});
    tape->touch(MemoryKind::temporaries, 4 * mebi, {"scratch"});
  }
  const StepMemory one = plain.summary(nullptr, 0, 1e12), other = told.summary(nullptr, 0, 1e12);
  EXPECT_EQ(one.allocated, 6 * mebi);
  EXPECT_EQ(one.at_peak.at("temporaries"), 4 * mebi);
  EXPECT_EQ(other.allocated, one.allocated);
  EXPECT_EQ(other.at_peak, one.at_peak);
  EXPECT_EQ(other.moment, one.moment);

  told.end_log({});
  ASSERT_EQ(log.moments.size(), 2u);
  EXPECT_EQ(total_bytes(log.moments[0].highest), 4 * mebi);
  EXPECT_EQ(total_bytes(log.moments[1].highest), 6 * mebi);
  EXPECT_EQ(total_bytes(log.moments[1].after), 2 * mebi);
  ASSERT_EQ(log.at_peak.size(), 2u);
  EXPECT_EQ(log.at_peak[0].name, "scratch");
  EXPECT_EQ(log.at_peak[1].name, "weight");
}

}  // namespace
}  // namespace lockstep::tape_test
