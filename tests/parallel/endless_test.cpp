// Are the programs of schedules that never drain complete, and do they run ahead by the right
// number of micro-batches?
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/schedule.hpp"

namespace lockstep::endless_test {
namespace {

int count(const RankProgram& program, Deed deed) {
  return static_cast<int>(std::count_if(program.begin(), program.end(),
                                        [&](const Action& a) { return a.deed == deed; }));
}

// In every step each stage receives as many messages as its neighbor sends. The opening has the
// forwards by which the stage runs ahead.
TEST(EndlessProgram, SendsWhatTheNextStageReceives) {
  for (const int micro : {1, 3, 8}) {
    const PipelineShape shape{4, 1, micro, 0};
    for (int rank = 0; rank < 4; ++rank) {
      const EndlessProgram program = endless_program(shape, rank);
      EXPECT_EQ(count(program.opening, Deed::forward), 3 - rank);
      EXPECT_EQ(count(program.opening, Deed::backward), 0);
      for (const Deed deed : {Deed::forward, Deed::backward}) {
        EXPECT_EQ(count(program.step, deed), micro);
      }
      const int activations = rank < 3 ? micro : 0, gradients = rank > 0 ? micro : 0;
      EXPECT_EQ(count(program.step, Deed::send_activation), activations);
      EXPECT_EQ(count(program.step, Deed::send_gradient), gradients);
      EXPECT_EQ(count(program.step, Deed::receive_activation), rank > 0 ? micro : 0);
      EXPECT_EQ(count(program.step, Deed::receive_gradient), rank < 3 ? micro : 0);
      // The first receive of each kind is posted one message ahead.
      EXPECT_EQ(count(program.opening, Deed::receive_activation), rank > 0 ? 4 - rank : 0);
      EXPECT_EQ(count(program.opening, Deed::receive_gradient), rank < 3);
    }
  }
}

// A backward belongs to the micro-batch whose forward ran as many forwards earlier as stages
// follow.
TEST(EndlessProgram, RunsAheadByTheStagesBehind) {
  const PipelineShape shape{4, 1, 3, 0};
  for (int rank = 0; rank < 4; ++rank) {
    const EndlessProgram program = endless_program(shape, rank);
    int forwards = count(program.opening, Deed::forward), backwards = 0;
    for (int step = 0; step < 3; ++step) {
      for (const Action& action : program.step) {
        if (action.deed == Deed::forward) {
          EXPECT_EQ(action.micro, forwards++ % 3);
        }
        if (action.deed != Deed::backward) continue;
        EXPECT_EQ(action.micro, backwards++ % 3);
        EXPECT_EQ(forwards - backwards, 3 - rank);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::endless_test
