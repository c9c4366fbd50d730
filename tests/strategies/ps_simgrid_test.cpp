// Does the event-driven parameter server agree with a program of SimGrid actors? The reference is
// written in direct style, as the papers describe the algorithms: workers compute, push, wait for
// the pull; the server applies or accumulates. Asynchronous trajectories are chaotic (amplified
// rounding), so beyond short runs only statistics can agree.
#include <gtest/gtest.h>

#include "../engine/in_child.hpp"
#include "engine/world.hpp"
#include "ps_fixture.hpp"

namespace lockstep::testing {
namespace {

struct Reference {
  std::vector<double> step_ends;  // every W worker steps
  double mean_staleness = 0;
};

// One server, one message per push.
Reference play(const PsSystem& system, bool sync) {
  World world;
  const LinkId up = world.add_link("in", "NIC", system.links[0]);
  const LinkId down = world.add_link("out", "NIC", system.links[1]);
  const PsMessage& part = system.messages.front();
  const int workers = static_cast<int>(system.workers.size());
  const EndpointId server = world.add_endpoint("server", {down}, {up});
  Mailbox& inbox = world.add_mailbox();
  std::vector<EndpointId> ends;
  std::vector<Mailbox*> answers;
  for (int w = 0; w < workers; ++w) {
    ends.push_back(world.add_endpoint("worker " + std::to_string(w), {}, {}));
    answers.push_back(&world.add_mailbox());
  }
  const SendSpec push{system.routes[0].latency, part.push_bytes};
  const SendSpec pull{system.routes[1].latency, part.pull_bytes};
  const std::int64_t total = static_cast<std::int64_t>(system.steps) * workers;
  Reference result;
  std::int64_t completed = 0, counted = 0;
  double staleness = 0;

  for (int w = 0; w < workers; ++w) {
    world.spawn("worker", [&, w] {
      std::int64_t version = 0;
      for (int step = 0; sync ? step < system.steps : completed < total; ++step) {
        double compute = 0;
        for (const PsSegment& segment : system.segments) compute += segment.work.busy;
        world.sleep_for(compute * system.factor(w, step));
        world.send(ends[static_cast<std::size_t>(w)], server, push,
                   {.kind = 0, .source = w, .key = 0, .version = version}, inbox);
        version = answers[static_cast<std::size_t>(w)]->receive().version;
        if (++completed % workers == 0) result.step_ends.push_back(world.now());
      }
      inbox.post({.kind = 1, .source = w});
    });
  }
  world.spawn("server", [&] {
    std::int64_t version = 0;
    int left = workers;
    std::vector<int> waiting;
    while (left > 0) {
      const Message message = inbox.receive();
      if (message.kind == 1) {
        --left;
        continue;
      }
      const auto answer = [&](int w) {
        world.send_async(server, ends[static_cast<std::size_t>(w)], pull,
                         {.kind = 0, .source = w, .key = 0, .version = version},
                         *answers[static_cast<std::size_t>(w)]);
      };
      if (!sync) {
        world.sleep_for(part.update_seconds);
        if (completed >= workers) {
          staleness += static_cast<double>(version - message.version);
          ++counted;
        }
        ++version;
        answer(message.source);
        continue;
      }
      world.sleep_for(waiting.empty() ? part.keep_seconds : part.accumulate_seconds);
      waiting.push_back(message.source);
      if (static_cast<int>(waiting.size()) < workers) continue;
      world.sleep_for(part.update_seconds);
      ++version;
      for (const int w : waiting) answer(w);
      waiting.clear();
    }
  });
  world.run();
  result.mean_staleness = counted > 0 ? staleness / static_cast<double>(counted) : 0;
  return result;
}

ToySystem async_toy(int workers, int steps) {
  ToySystem toy;  // the case of facts/simgrid.md: 100 MB, 50 GB/s, 20 ms, sigma 0.3, 50 us
  toy.workers = workers;
  toy.forward = 0.020;
  toy.backward = 0;
  toy.bandwidth = 50e9;
  toy.update = 50e-6;
  toy.sigma = 0.3;
  toy.steps = steps;
  toy.rule = {1, PsRule::kUnbounded};
  return toy;
}

TEST(AgainstSimGrid, SynchronousStepsWithJitterAreEqual) {
  ToySystem toy;
  toy.workers = 8;
  toy.sigma = 0.2;
  toy.keep = 1e-3;
  toy.accumulate = 2e-3;
  toy.update = 3e-3;
  toy.latency = 1e-4;
  toy.rule = {8, 0};
  const PsSystem system = make_system(toy);
  const Reference reference = play(system, true);
  const PsTrace trace = run_parameter_server(system);
  ASSERT_GE(reference.step_ends.size(), trace.step_ends.size());
  for (std::size_t i = 0; i < trace.step_ends.size(); ++i) {
    EXPECT_NEAR(trace.step_ends[i] / reference.step_ends[i], 1, 1e-9) << i;
  }
}

TEST(AgainstSimGrid, AsynchronousRunsBeginEqual) {
  const PsSystem system = make_system(async_toy(4, 10));
  const Reference reference = play(system, false);
  const PsTrace trace = run_parameter_server(system);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_NEAR(trace.step_ends[i] / reference.step_ends[i], 1, 1e-6) << i;
  }
}

// Single runs differ by 1 to 2 % either way; their mean over seeds does not.
TEST(AgainstSimGrid, AsynchronousStatisticsAgree) {
  const int steps = 100, workers = 16, seeds = 10;
  double time_ratio = 0, staleness_ratio = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    ToySystem toy = async_toy(workers, steps);
    toy.seed = static_cast<std::uint64_t>(seed);
    const PsSystem system = make_system(toy);
    const std::vector<double> reference = in_child([&] {
      const Reference r = play(system, false);
      return std::vector<double>{r.step_ends[steps - 1] - r.step_ends[0], r.mean_staleness};
    });
    const PsTrace trace = run_parameter_server(system);
    time_ratio += mean_step(trace) * (steps - 1) / reference[0] / seeds;
    staleness_ratio += mean_staleness(trace) / reference[1] / seeds;
  }
  EXPECT_NEAR(time_ratio, 1, 0.01);
  EXPECT_NEAR(staleness_ratio, 1, 0.005);
}

}  // namespace
}  // namespace lockstep::testing
