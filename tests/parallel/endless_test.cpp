// Are programs of schedules that never drain complete, and as far ahead as they should be?
#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/schedule.hpp"

namespace lockstep::endless_test {
namespace {

int count(const RankProgram& program, Deed deed) {
  return static_cast<int>(std::count_if(program.begin(), program.end(),
                                        [&](const Action& a) { return a.deed == deed; }));
}

// Every message that a stage sends in some steps is asked for by its neighbour in the same steps, but for the
// forwards by which the sender is ahead.
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
      // One of each is asked for ahead.
      EXPECT_EQ(count(program.opening, Deed::receive_activation), rank > 0 ? 4 - rank : 0);
      EXPECT_EQ(count(program.opening, Deed::receive_gradient), rank < 3);
    }
  }
}

// A backward has the micro-batch whose forward was so many forwards before.
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
