// Do all threads of the process move to one core, and back?
#include "launch/one_core.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <stdexcept>
#include <thread>

namespace lockstep::one_core_test {
namespace {

cpu_set_t cores_of(int thread) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(::sched_getaffinity(thread, sizeof cores, &cores), 0);
  return cores;
}

TEST(OneCore, AllThreadsGoThereAndBack) {
  std::promise<void> end;
  std::promise<int> started;
  std::thread other([&] {
    started.set_value(::gettid());
    end.get_future().wait();
  });
  const int thread = started.get_future().get();
  const cpu_set_t before = cores_of(0);
  const int core = current_core();
  {
    const OnOneCore there(core);
    for (const int id : {0, thread}) {
      const cpu_set_t cores = cores_of(id);
      EXPECT_EQ(CPU_COUNT(&cores), 1);
      EXPECT_TRUE(CPU_ISSET(core, &cores));
    }
    EXPECT_EQ(current_core(), core);
  }
  for (const int id : {0, thread}) {
    const cpu_set_t cores = cores_of(id);
    EXPECT_TRUE(CPU_EQUAL(&cores, &before));
  }
  end.set_value();
  other.join();
}

TEST(OneCore, ThatIsNotThereIsAnError) {
  EXPECT_THROW(OnOneCore(-1), std::runtime_error);
  EXPECT_THROW(OnOneCore(CPU_SETSIZE - 1), std::runtime_error);
}

}  // namespace
}  // namespace lockstep::one_core_test
