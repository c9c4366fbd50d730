// How one actor waits for another: wait(condition) blocks until ring() finds the condition true.
// Actors take turns, so there are no races; a doorbell has one waiter.
#pragma once

#include "engine/sg_compat.hpp"

namespace lockstep {

class Doorbell {
 public:
  template <class Condition>
  void wait(Condition&& condition) {
    while (!condition()) {
      waiting_ = true;
      bell_->acquire();
    }
  }
  // Blocks until ring(), or for so many seconds; whether they are over.
  bool wait_for(double seconds) {
    waiting_ = true;
    const bool timed_out = bell_->acquire_timeout(seconds);
    waiting_ = false;
    return timed_out;
  }
  void ring() {
    if (!waiting_) return;
    waiting_ = false;
    bell_->release();
  }

 private:
  sg::s4u::SemaphorePtr bell_ = sg::s4u::Semaphore::create(0);
  bool waiting_ = false;
};

}  // namespace lockstep
