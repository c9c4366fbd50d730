// Does every collective of a Group compute its result? The ranks are threads here; each has a Group
// of its own, and they communicate over loopback as processes would.
#include "torch/process_group.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>

#include "launch/processes.hpp"

namespace lockstep::process_group_test {
namespace {

// Runs `work` on `ranks` threads. Throws the first exception of any thread.
void on_ranks(int ranks, const std::function<void(Group&)>& work) {
  const RunFolder folder;
  std::vector<std::thread> threads;
  std::exception_ptr failure;
  std::mutex mutex;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        GroupOptions options;
        options.rank = rank;
        options.size = ranks;
        options.store_file = folder.file("store");
        options.timeout_seconds = 30;
        Group group(options);
        work(group);
        group.barrier();
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

// A tensor whose elements are exact in float and differ for every rank and index.
at::Tensor numbers(int rank, std::int64_t count) {
  return at::arange(count, at::kFloat).remainder(1000) + 1000 * (rank + 1);
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, AllReduceIsTheSum) {
  on_ranks(GetParam(), [](Group& group) {
    for (const std::int64_t count : {1, 7, 1000, 300000}) {
      at::Tensor expected = at::zeros(count);
      for (int r = 0; r < group.size(); ++r) expected += numbers(r, count);
      at::Tensor tensor = numbers(group.rank(), count);
      group.all_reduce(tensor);
      EXPECT_TRUE(at::equal(tensor, expected)) << count;
    }
  });
}

// The sizes lie around the ring's segment boundaries: 1 MiB is 262144 floats.
TEST_P(Ranks, ReduceScatterIsOnePartOfTheSum) {
  on_ranks(GetParam(), [](Group& group) {
    for (const std::int64_t part : {1, 2, 3, 1001, 262143, 262144, 600001}) {
      const std::int64_t all = part * group.size();
      at::Tensor expected = at::zeros(all);
      for (int r = 0; r < group.size(); ++r) expected += numbers(r, all);
      at::Tensor output = at::full({part}, -1.0);
      const at::Tensor input = numbers(group.rank(), all);
      group.reduce_scatter(output, input);
      EXPECT_TRUE(at::equal(output, expected.narrow(0, group.rank() * part, part))) << part;
      EXPECT_TRUE(at::equal(input, numbers(group.rank(), all))) << "input changed";
    }
  });
}

TEST_P(Ranks, AllGatherIsEverybodysInRankOrder) {
  on_ranks(GetParam(), [](Group& group) {
    for (const std::int64_t count : {1, 1001, 300000}) {
      at::Tensor output = at::empty(count * group.size());
      group.all_gather(output, numbers(group.rank(), count));
      for (int r = 0; r < group.size(); ++r) {
        EXPECT_TRUE(at::equal(output.narrow(0, r * count, count), numbers(r, count)));
      }
    }
  });
}

TEST_P(Ranks, BroadcastIsTheRootsTensor) {
  on_ranks(GetParam(), [](Group& group) {
    for (int root = 0; root < group.size(); ++root) {
      at::Tensor tensor = numbers(group.rank(), 5000);
      group.broadcast(tensor, root);
      EXPECT_TRUE(at::equal(tensor, numbers(root, 5000)));
    }
  });
}

TEST_P(Ranks, MessagesGoRoundAndServersTakeWhoeverComes) {
  if (GetParam() == 1) GTEST_SKIP() << "nobody to talk to";
  on_ranks(GetParam(), [](Group& group) {
    const int right = (group.rank() + 1) % group.size();
    const int left = (group.rank() + group.size() - 1) % group.size();
    at::Tensor got = at::zeros(5000);
    Pending sending = group.send_async(numbers(group.rank(), 5000), right, 3);
    group.recv(got, left, 3);
    sending.wait();
    EXPECT_TRUE(at::equal(got, numbers(left, 5000)));

    if (group.rank() > 0) {
      group.send(numbers(group.rank(), 10), 0, 4);
      return;
    }
    std::vector<bool> seen(static_cast<std::size_t>(group.size()));
    for (int i = 1; i < group.size(); ++i) {
      at::Tensor message = at::zeros(10);
      const int from = group.recv_any(message, 4);
      EXPECT_TRUE(at::equal(message, numbers(from, 10)));
      EXPECT_FALSE(seen.at(static_cast<std::size_t>(from)));
      seen[static_cast<std::size_t>(from)] = true;
    }
  });
}

// FSDP has several collectives in flight, which must keep their order.
TEST_P(Ranks, AsynchronousCollectivesOverlapWithoutMixing) {
  on_ranks(GetParam(), [](Group& group) {
    const int n = group.size();
    std::vector<at::Tensor> gathered, scattered;
    std::vector<Pending> pending;
    for (int i = 0; i < 5; ++i) {
      gathered.push_back(at::empty(1000 * n));
      scattered.push_back(at::empty(50000));
      pending.push_back(group.all_gather_async(gathered.back(), numbers(group.rank() + i, 1000)));
      pending.push_back(
          group.reduce_scatter_async(scattered.back(), at::full({50000 * n}, i + 1.0)));
    }
    for (auto& operation : pending) operation.wait();
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      EXPECT_TRUE(at::equal(gathered[i].narrow(0, 0, 1000), numbers(static_cast<int>(i), 1000)));
      EXPECT_TRUE(at::equal(scattered[i], at::full({50000}, n * (static_cast<double>(i) + 1.0))));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Of, Ranks, testing::Values(1, 2, 3, 4));

TEST(Group, WrongSizesAreRefused) {
  on_ranks(1, [](Group& group) {
    at::Tensor output = at::empty(3);
    EXPECT_THROW(group.reduce_scatter(output, at::empty(4)), std::exception);
  });
}

TEST(Group, PeerThatHasGoneIsAnErrorAtOnce) {
  EXPECT_THROW(on_ranks(2,
                        [](Group& group) {
                          if (group.rank() == 1) throw std::logic_error("rank 1 leaves");
                          at::Tensor tensor = at::ones(1000);
                          group.all_reduce(tensor);
                        }),
               std::exception);
}

}  // namespace
}  // namespace lockstep::process_group_test
