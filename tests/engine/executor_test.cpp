// Do the two executors run the same programs at the same times and in the same order?
#include "engine/executor.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <deque>
#include <functional>
#include <optional>

#include "engine/frames.hpp"
#include "on_both.hpp"

namespace lockstep::executor_test {
namespace {

// Numbers that the programs note, in the order in which the programs reach them.
using Notes = std::vector<double>;
using Play = std::function<void(Executor&, Notes&)>;

Notes notes(Engine engine, const Play& play) {
  const std::unique_ptr<Executor> executor = make_executor(engine);
  Notes result;
  play(*executor, result);
  executor->run();
  return result;
}

Notes both(const Play& play) {
  return on_both([&](Engine engine) { return notes(engine, play); });
}

void expect_notes(const Notes& seen, const Notes& expected) {
  ASSERT_EQ(seen.size(), expected.size());
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_NEAR(seen[i], expected[i], 1e-9) << i;
}

Program sleeper(Executor& world, Notes& notes, double number, double seconds) {
  for (int i = 0; i < 3; ++i) {
    co_await world.sleep_for(seconds);
    notes.push_back(number);
    notes.push_back(world.now());
  }
}

TEST(Executors, SleepAlike) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    world.start("a", sleeper(world, notes, 1, 2));
    world.start("b", sleeper(world, notes, 2, 3));
  });
  // Both programs wake at 6 s; the program that began its sleep first runs first.
  expect_notes(seen, {1, 2, 2, 3, 1, 4, 2, 6, 1, 6, 2, 9});
}

Program ping(Bell& mine, Bell& other, Notes& notes, double number) {
  for (int i = 0; i < 2; ++i) {
    notes.push_back(number);
    other.ring();
    co_await mine.rung();
  }
  other.ring();
}

TEST(Executors, TakeTurnsAlikeAtOneMoment) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    auto a = std::make_shared<Bell>(world), b = std::make_shared<Bell>(world);
    const auto hold = [](std::shared_ptr<Bell> x, std::shared_ptr<Bell> y, Notes& n,
                         double number) -> Program { co_await ping(*x, *y, n, number); };
    world.start("a", hold(a, b, notes, 1));
    world.start("b", hold(b, a, notes, 2));
    for (const double number : {3, 4, 5}) world.start("c", sleeper(world, notes, number, 1));
  });
  expect_notes(seen, {1, 2, 1, 2, 3, 1, 4, 1, 5, 1, 3, 2, 4, 2, 5, 2, 3, 3, 4, 3, 5, 3});
}

Program waiter(Executor& world, Bell& bell, Notes& notes, double until) {
  const bool rung = co_await bell.rung(until);
  notes.push_back(rung ? 1 : 0);
  notes.push_back(world.now());
}

Program ringer(Executor& world, Bell& bell, double at) {
  co_await world.sleep_until(at);
  bell.ring();
}

TEST(Executors, WaitForABellUntilAMoment) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    static std::optional<Bell> bell;
    bell.emplace(world);
    world.start("in time", waiter(world, *bell, notes, 3));
    world.start("too late", waiter(world, *bell, notes, 1));
    world.start("for ever", waiter(world, *bell, notes, never));
    world.start("ringer", ringer(world, *bell, 2));
  });
  expect_notes(seen, {0, 1, 1, 2, 1, 2});
}

Program numbered(Bell& bell, Notes& notes, double number) {
  co_await bell.rung();
  notes.push_back(number);
}

// A bell wakes its waiting programs in order of arrival, also after some of these have left.
TEST(Executors, ABellWakesInOrder) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    static std::optional<Bell> bell;
    bell.emplace(world);
    const auto ring = [](Executor& w, Notes& n) -> Program {
      for (const std::vector<std::size_t>& leave :
           {std::vector<std::size_t>{}, {0, 3}, {1}, {0, 1, 2, 3}}) {
        std::vector<ProgramId> waiting;
        for (const double number : {1, 2, 3, 4}) {
          waiting.push_back(w.start("waits", numbered(*bell, n, number)));
        }
        co_await w.sleep_for(1);
        for (const std::size_t who : leave) w.cancel(waiting[who]);
        bell->ring();
        co_await w.sleep_for(1);
        n.push_back(0);
      }
    };
    world.start("ring", ring(world, notes));
  });
  expect_notes(seen, {1, 2, 3, 4, 0, 2, 3, 0, 1, 3, 4, 0, 0});
}

Program consumer(Executor& world, Inbox<int>& inbox, Notes& notes, int items) {
  for (int i = 0; i < items; ++i) {
    notes.push_back(co_await inbox.receive());
    notes.push_back(world.now());
    co_await world.sleep_for(1);
  }
}

TEST(Executors, HandOnItemsInOrder) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    static std::optional<Inbox<int>> inbox;
    inbox.emplace(world);
    world.start("consumer", consumer(world, *inbox, notes, 4));
    const auto producer = [](Executor& w, Inbox<int>& to) -> Program {
      to.post(1);
      to.post(2);
      co_await w.sleep_for(0.5);
      to.post(3);
      to.post_first(4);
    };
    world.start("producer", producer(world, *inbox));
  });
  expect_notes(seen, {1, 0, 4, 1, 2, 2, 3, 3});
}

Program sender(Executor& world, Notes& notes, RouteId route, double bytes, int weight,
               double from) {
  co_await world.sleep_until(from);
  co_await world.carry(route, bytes, weight);
  notes.push_back(bytes);
  notes.push_back(world.now());
}

TEST(Executors, ShareLinksAlike) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    const LinkId wide = world.add_link(10), narrow = world.add_link(3);
    const RouteId both = world.add_route({{wide, narrow}}), twice = world.add_route({{wide, wide}});
    const RouteId capped = world.add_route({{wide}, 1}), alone = world.add_route({{}, 4});
    world.start("a", sender(world, notes, both, 30, 1, 0));   // 2.5 bytes/s, later 1, then 3
    world.start("b", sender(world, notes, twice, 20, 1, 0));  // the same rate as `a`
    world.start("c", sender(world, notes, capped, 6, 2, 4));  // two flows of 1 byte/s
    world.start("d", sender(world, notes, alone, 8, 1, 1));
    const auto reporter = [](Executor& w, Notes& n, LinkId link) -> Program {
      for (const double time : {2.0, 20.0}) {
        co_await w.sleep_until(time);
        n.push_back(w.traffic(link).bytes);
        n.push_back(w.traffic(link).busy_seconds);
      }
    };
    world.start("reporter", reporter(world, notes, wide));
  });
  // On `wide`, `a` crosses once and `b` twice: max-min fairness gives each 10/3. `narrow` limits
  // `a` to 3, and `b` takes the rest.
  EXPECT_NEAR(seen.at(0), 2 * 10, 1e-9);
  EXPECT_NEAR(seen.at(1), 2, 1e-9);
}

// 0.1 + 0.2 exceeds 0.3 in floating point, but both are the same moment; the program that began to
// wait first must go first.
TEST(Executors, TakeWhatRoundingSetsApartAsOneMoment) {
  const auto sleeper = [](Executor& world, Notes& notes, double number, double until) -> Program {
    co_await world.sleep_until(until);
    notes.push_back(number);
  };
  const auto carrier = [](Executor& world, Notes& notes, RouteId route, double number,
                          double bytes) -> Program {
    co_await world.carry(route, bytes);
    notes.push_back(number);
  };
  const Notes seen = both([&](Executor& world, Notes& notes) {
    const RouteId a = world.add_route({{world.add_link(1)}}),
                  b = world.add_route({{world.add_link(1)}});
    world.start("1", sleeper(world, notes, 1, 0.1 + 0.2));
    world.start("2", sleeper(world, notes, 2, 0.3), 0.2);
    world.start("3", carrier(world, notes, b, 3, 0.1 + 0.2));
    world.start("4", carrier(world, notes, a, 4, 0.3));
  });
  expect_notes(seen, {1, 2, 3, 4});
}

TEST(Executors, ChangeACapacityInTheMiddleOfAFlow) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    const LinkId link = world.add_link(10);
    world.start("a", sender(world, notes, world.add_route({{link}}), 100, 1, 0));
    const auto change = [](Executor& w, LinkId which) -> Program {
      co_await w.sleep_until(5);
      w.set_capacity(which, 2);
      co_await w.sleep_until(15);
      w.set_capacity(which, 30);
    };
    world.start("change", change(world, link));
  });
  expect_notes(seen, {100, 16});  // 50 + 20 + 30
}

// Several links of a flow change several times at one moment: only their final capacities count.
TEST(Executors, ChangeCapacitiesOfAFlowTogether) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    const LinkId first = world.add_link(10), second = world.add_link(20);
    const auto change = [](Executor& w, LinkId which, double bandwidth) -> Program {
      co_await w.sleep_until(1);
      w.set_capacity(which, bandwidth);
    };
    world.start("a", sender(world, notes, world.add_route({{first, second}}), 100, 1, 0));
    for (const double bandwidth : {9.0, 8.0, 7.0, 6.0}) {
      world.start("first", change(world, first, bandwidth));
      world.start("second", change(world, second, bandwidth / 2));
    }
  });
  expect_notes(seen, {100, 31});  // 10 in the first second, then 3 a second
}

TEST(Executors, StartProgramsAtATime) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    const auto late = [](Executor& w, Notes& n) -> Program {
      n.push_back(w.now());
      w.start("child", sleeper(w, n, 7, 0.25), w.now() + 1);
      co_return;
    };
    world.start("late", late(world, notes), 2);
    world.start("now", sleeper(world, notes, 1, 2));
  });
  expect_notes(seen, {2, 1, 2, 7, 3.25, 7, 3.5, 7, 3.75, 1, 4, 1, 6});
}

// Notes a number and the time when its scope is left.
struct Farewell {
  Executor& world;
  Notes& notes;
  double number;
  ~Farewell() {
    notes.push_back(number);
    notes.push_back(world.now());
  }
};

Program outer(Executor& world, Notes& notes, Program inner) {
  const Farewell farewell{world, notes, 90};
  co_await inner;
  notes.push_back(-1);
}

// Canceling destroys the frames of a program, in every kind of wait and at every depth of nested
// programs.
TEST(Executors, CancelProgramsThatLeaveNothingBehind) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    static std::optional<Bell> bell;
    static std::optional<Inbox<int>> inbox;
    bell.emplace(world);
    inbox.emplace(world);
    const LinkId link = world.add_link(10);
    const RouteId route = world.add_route({{link}});
    std::vector<ProgramId> victims{
        world.start("flow", outer(world, notes, sender(world, notes, route, 1000, 1, 0))),
        world.start("bell", outer(world, notes, waiter(world, *bell, notes, never))),
        world.start("inbox", outer(world, notes, consumer(world, *inbox, notes, 1))),
        world.start("sleep", outer(world, notes, sleeper(world, notes, 1, 100))),
        world.start("not begun", outer(world, notes, sleeper(world, notes, 2, 1)), 50)};
    world.start("other flow", sender(world, notes, route, 40, 1, 0));
    const auto killer = [](Executor& w, Notes& n, std::vector<ProgramId> who,
                           LinkId way) -> Program {
      co_await w.sleep_until(2);
      for (const ProgramId victim : who) w.cancel(victim);
      w.cancel(who[0]);
      bell->ring();
      inbox->post(5);
      n.push_back(w.traffic(way).bytes);
    };
    world.start("killer", killer(world, notes, victims, link));
  });
  // The other flow has sent 10 of its 40 bytes by 2 s and has the link to itself afterwards.
  expect_notes(seen, {90, 2, 90, 2, 90, 2, 90, 2, 20, 40, 5});
}

// A program may be canceled after it was woken or started and before its turn. Its slot may then
// belong to another program, which must not be affected.
TEST(Executors, CancelProgramsWhoseTurnHasCome) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    static std::optional<Bell> bell;
    bell.emplace(world);
    const ProgramId woken =
        world.start("woken", outer(world, notes, waiter(world, *bell, notes, never)));
    const auto killer = [](Executor& w, Notes& n, ProgramId victim) -> Program {
      co_await w.sleep_until(2);
      bell->ring();
      w.cancel(victim);
      const ProgramId begun = w.start("begun", outer(w, n, sleeper(w, n, 5, 1)));
      w.cancel(begun);
      w.start("next", sleeper(w, n, 6, 1));
      co_await w.sleep_for(10);
      n.push_back(w.now());
    };
    world.start("killer", killer(world, notes, woken));
  });
  expect_notes(seen, {90, 2, 6, 3, 6, 4, 6, 5, 12});
}

// A slot that is not reused would hold a fiber of at least 64 bytes. Sanitizers' allocators report
// no memory use here.
TEST(Loop, APlaceThatIsFreeIsTheNextProgramsPlace) {
  constexpr int programs = 20000;
  const std::unique_ptr<Executor> world = make_executor(Engine::loop);
  const auto one = [](Executor& in) -> Program { co_await in.sleep_for(0.1); };
  std::size_t before = 0, after = 0;
  const auto all = [&]() -> Program {
    for (int i = 0; i < programs; ++i) {
      world->start("one", one(*world));
      co_await world->sleep_for(1);
      if (i == 10) before = mallinfo2().uordblks;
    }
    after = mallinfo2().uordblks;
  };
  world->start("all", all());
  world->run();
  EXPECT_LT(after, before + 10 * programs);
}

// A freed frame is reused for frames of about its size; a frame in use never is.
TEST(Frames, AreKeptForTheNextProgram) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "given back at once, so that a frame that is gone is seen to be used";
#endif
  void* first = take_frame(100);
  void* second = take_frame(100);
  EXPECT_NE(first, second);
  keep_frame(first, 100);
  keep_frame(second, 100);
  EXPECT_EQ(take_frame(120), second);
  EXPECT_EQ(take_frame(70), first);
  keep_frame(first, 70);
  keep_frame(second, 120);
}

TEST(Executors, HandOnAProgramsException) {
  const auto play = [](Executor& world, Notes& notes) {
    const auto broken = [](Executor& w) -> Program {
      co_await w.sleep_for(1);
      throw std::runtime_error("broken on purpose");
    };
    const auto caller = [](Executor& w, Notes& n, Program inner) -> Program {
      const Farewell farewell{w, n, 1};
      co_await inner;
    };
    world.start("caller", caller(world, notes, broken(world)));
    world.start("other", sleeper(world, notes, 1, 100));
  };
  EXPECT_THROW(notes(Engine::loop, play), std::runtime_error);
  try {
    in_child([&] { return notes(Engine::simgrid, play); });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "broken on purpose");
  }
}

TEST(Executors, ReportADeadlock) {
  const auto play = [](Executor& world, Notes& notes) {
    static std::optional<Bell> bell;
    bell.emplace(world);
    world.start("client", waiter(world, *bell, notes, never));
  };
  EXPECT_THROW(notes(Engine::loop, play), std::logic_error);
  EXPECT_THROW(in_child([&] { return notes(Engine::simgrid, play); }), std::runtime_error);
}

TEST(Executors, StopInTheMiddle) {
  const Notes seen = both([](Executor& world, Notes& notes) {
    const auto end = [](Executor& w, Notes& n) -> Program {
      const Farewell farewell{w, n, 9};
      co_await w.sleep_for(5);
      w.stop();
    };
    world.start("sleeper", sleeper(world, notes, 1, 2));
    world.start("end", end(world, notes));
  });
  expect_notes(seen, {1, 2, 1, 4, 9, 5});
}

TEST(SimGrid, StartsOnlyOnce) {
  EXPECT_THROW(in_child([] {
                 make_simgrid();
                 make_simgrid();
                 return Notes{};
               }),
               std::runtime_error);
}

// The order holds for any number of items that were posted first or last and received since.
TEST(Inbox, KeepsItsOrder) {
  const std::unique_ptr<Executor> loop = make_executor(Engine::loop);
  Inbox<int> inbox(*loop);
  const auto use = [&]() -> Program {
    std::deque<int> expected;
    for (int round = 0; round < 40; ++round) {
      for (int i = 0; i < 1 + round % 7; ++i) {
        const int item = 10 * round + i;
        if (i % 3 == 2) {
          inbox.post_first(item);
          expected.push_front(item);
        } else {
          inbox.post(item);
          expected.push_back(item);
        }
      }
      for (int i = 0; i < 1 + round * 5 % 6 && !expected.empty(); ++i) {
        EXPECT_EQ(co_await inbox.receive(), expected.front()) << round;
        expected.pop_front();
      }
    }
    while (!expected.empty()) {
      EXPECT_EQ(co_await inbox.receive(), expected.front());
      expected.pop_front();
    }
  };
  loop->start("user", use());
  loop->run();
}

}  // namespace
}  // namespace lockstep::executor_test
