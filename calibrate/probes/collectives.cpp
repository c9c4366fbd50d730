// Measures collectives between processes over Gloo. A repetition is a series of calls. Its time
// runs from the moment at which the last rank starts to the moment at which the last rank ends, on
// the clock that all processes of a machine share. Results are checked element by element, as
// nccl-tests does.
#include "probes/collectives.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>
#include <stdexcept>

#include "core/statistics.hpp"
#include "launch/one_core.hpp"
#include "probes/other_memory.hpp"
#include "torch/process_group.hpp"

namespace lockstep {

namespace {

constexpr std::int64_t element_bytes = 4;  // float, the default of nccl-tests
constexpr int attempts = 3;                // if other processes disturb

double seconds_of(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One collective at one size: its tensors, one call, and the expected contents afterwards.
class Case {
 public:
  Case(Group& group, Collective collective, double bytes) : group_(group), collective_(collective) {
    const int ranks = group.size();
    const bool parts =
        collective == Collective::all_gather || collective == Collective::reduce_scatter;
    const double per_rank = bytes / element_bytes / (parts ? ranks : 1);
    count_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(per_rank));
    bytes_ = static_cast<double>(count_ * element_bytes * (parts ? ranks : 1));
    input_ = at::empty({collective == Collective::reduce_scatter ? count_ * ranks : count_});
    output_ = at::empty({collective == Collective::all_gather ? count_ * ranks : count_});
  }

  std::int64_t count() const { return count_; }
  double bytes() const { return bytes_; }

  // Call number `i` of a series. All-reduce and broadcast are in place.
  void call(int i) {
    if (collective_ != Collective::send_recv) {
      start(i).wait();
    } else if (group_.rank() == 0) {  // there and back
      group_.send(input_, 1);
      group_.recv(output_, 1);
    } else if (group_.rank() == 1) {
      group_.recv(output_, 0);
      group_.send(input_, 0);
    }
  }
  // Prepares send_recv like a message to or from a server: its data has just been written, and a
  // step's work has passed through the caches since the last message. Other collectives reuse their
  // buffers, so nothing is done for them.
  void refresh() {
    if (collective_ != Collective::send_recv || group_.rank() > 1) return;
    others_.pass();
    input_.add_(1);
  }
  // send_recv: from rank 0 to rank 1.
  void one_way() {
    if (group_.rank() == 0) group_.send(input_, 1);
    if (group_.rank() == 1) group_.recv(output_, 0);
  }
  // Starts a call.
  // REQUIRES: the collective is not send_recv.
  Pending start(int i) {
    switch (collective_) {
      case Collective::all_reduce:
        return group_.all_reduce_async(input_);
      case Collective::broadcast:
        return group_.broadcast_async(input_, i % group_.size());
      case Collective::all_gather:
        return group_.all_gather_async(output_, input_);
      default:
        return group_.reduce_scatter_async(output_, input_);
    }
  }
  // The least number of calls in a series. In training, collectives follow each other directly. A
  // collective that begins while other ranks still end the previous one may behave differently than
  // after a barrier, for example Gloo's all-gather over rate-limited links (docs/closed-loop-method.md).
  int least_calls() const { return collective_ == Collective::send_recv ? 1 : 3; }
  int messages_per_call() const { return collective_ == Collective::send_recv ? 2 : 1; }

  // Runs one call on known numbers, and returns the number of wrong elements on this rank.
  std::int64_t count_wrong() {
    const int ranks = group_.size(), rank = group_.rank();
    input_.copy_(numbers(rank, input_.numel()));
    output_.fill_(-1);
    call(0);
    at::Tensor got = output_, expected;
    if (collective_ == Collective::all_reduce) {
      got = input_;
      expected = sum(count_);
    } else if (collective_ == Collective::broadcast) {
      got = input_;
      expected = numbers(0, count_);
    } else if (collective_ == Collective::all_gather) {
      std::vector<at::Tensor> all;
      for (int r = 0; r < ranks; ++r) all.push_back(numbers(r, count_));
      expected = at::cat(all);
    } else if (collective_ == Collective::reduce_scatter) {
      expected = sum(count_ * ranks).narrow(0, rank * count_, count_);
    } else if (rank < 2) {
      expected = numbers(1 - rank, count_);
    } else {
      return 0;
    }
    const std::int64_t wrong = at::ne(got, expected).sum().item<std::int64_t>();
    input_.zero_();  // sums of sums would grow without bound
    return wrong;
  }

 private:
  // The data of a rank: whole numbers, so that sums are exact.
  static at::Tensor numbers(int rank, std::int64_t n) {
    return at::arange(n, at::kFloat).remainder(1021) + 1021 * rank;
  }
  at::Tensor sum(std::int64_t n) const {
    at::Tensor all = at::zeros({n});
    for (int r = 0; r < group_.size(); ++r) all += numbers(r, n);
    return all;
  }

  Group& group_;
  Collective collective_;
  std::int64_t count_ = 0;
  double bytes_ = 0;
  at::Tensor input_, output_;
  OtherMemory others_;
};

struct Series {
  double seconds = 0;      // seconds of one message or collective
  double cpu_seconds = 0;  // CPU seconds of one rank, for one message or collective
  double end = 0;          // end of the series on the clock that the ranks share
};

// Runs a series of calls. Every rank gets the same result, because the ranks exchange their clocks.
Series run_series(Group& group, Case& measured, int calls) {
  at::Tensor mine = at::empty({3}, at::kDouble), all = at::empty({3 * group.size()}, at::kDouble);
  measured.refresh();
  group.barrier();
  double* const clocks = mine.data_ptr<double>();
  const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  clocks[0] = seconds_of(CLOCK_MONOTONIC);
  for (int i = 0; i < calls; ++i) measured.call(i);
  clocks[1] = seconds_of(CLOCK_MONOTONIC);
  clocks[2] = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
  group.all_gather(all, mine);
  const at::Tensor table = all.view({group.size(), 3});
  const double messages = calls * measured.messages_per_call();
  const double start = table.select(1, 0).max().item<double>();
  const double end = table.select(1, 1).max().item<double>();
  return {(end - start) / messages, table.select(1, 2).mean().item<double>() / messages, end};
}

double total_of(Group& group, double mine) {
  at::Tensor value = at::full({1}, mine, at::kDouble);
  group.all_reduce(value);
  return value.item<double>();
}

// The compute of a rank during a collective, similar to a layer of a network: a product of one or
// two milliseconds with a matrix of weights that exceeds the second-level cache.
class StandIn {
 public:
  void run() { at::mm_out(result_, input_, weights_); }
  // Runs it for `at_least` seconds, and returns the median seconds of one run.
  double time(double at_least) {
    std::vector<double> seconds;
    const double begin = seconds_of(CLOCK_MONOTONIC);
    for (double now = begin, next = 0; now < begin + at_least; now = next) {
      run();
      next = seconds_of(CLOCK_MONOTONIC);
      seconds.push_back(next - now);
    }
    return median(seconds);
  }

 private:
  at::Tensor input_ = at::ones({32, 1024}), weights_ = at::ones({1024, 1024}),
             result_ = at::empty({32, 1024});
};

struct Speeds {
  double compute = 0, collective = 0;  // relative to the speed without the other; 0 = not measured
};

// Starts several calls, and computes on every rank until the last call has ended.
Speeds run_beside_compute(Group& group, Case& measured, double alone_seconds) {
  // Time of the calls without compute, long enough for many runs of the stand-in.
  constexpr double busy_seconds = 0.06;
  const int calls =
      static_cast<int>(std::clamp(std::ceil(busy_seconds / alone_seconds), 1.0, 64.0));
  StandIn compute;
  compute.time(busy_seconds / 3);
  group.barrier();
  const double compute_alone = compute.time(busy_seconds);
  group.barrier();
  std::vector<Pending> under_way;
  const double begin = seconds_of(CLOCK_MONOTONIC);
  for (int i = 0; i < calls; ++i) under_way.push_back(measured.start(i));
  // Another thread waits for the calls, because some Work objects of LibTorch 2 complete only after
  // a wait.
  std::future<void> waiting = std::async(std::launch::async, [&] {
    for (Pending& call : under_way) call.wait();
  });
  int runs = 0;
  for (; waiting.wait_for(std::chrono::seconds(0)) != std::future_status::ready; ++runs) {
    compute.run();
  }
  const double took = seconds_of(CLOCK_MONOTONIC) - begin;
  waiting.get();
  at::Tensor mine = at::empty({2}, at::kDouble), all = at::empty({2 * group.size()}, at::kDouble);
  mine.data_ptr<double>()[0] = std::min(1.0, runs * compute_alone / took);
  mine.data_ptr<double>()[1] = took;
  group.all_gather(all, mine);
  const at::Tensor table = all.view({group.size(), 2});
  return {table.select(1, 0).mean().item<double>(),
          std::min(1.0, calls * alone_seconds / table.select(1, 1).min().item<double>())};
}

Speeds measure_beside_compute(Group& group, Case& measured, double alone_seconds) {
  constexpr int repetitions = 7;
  std::vector<double> compute, collective;
  for (int i = 0; i < repetitions; ++i) {
    const Speeds one = run_beside_compute(group, measured, alone_seconds);
    compute.push_back(one.compute);
    collective.push_back(one.collective);
  }
  return {median(compute), median(collective)};
}

// Seconds between the moment at which a sender is free and the moment at which its message has
// arrived; kernels and token buckets buffer the rest of the message. Before the message, the sender
// receives one, like a server that answers: a connection that was idle in one direction buffers
// less than one that sends continuously, because TCP begins with a slow start.
double measure_early(Group& group, Case& measured) {
  constexpr int repetitions = 5;
  std::vector<double> early;
  at::Tensor mine = at::zeros({1}, at::kDouble), all = at::empty({group.size()}, at::kDouble);
  for (int i = 0; i < repetitions; ++i) {
    group.barrier();
    measured.call(0);
    measured.one_way();
    mine.fill_(seconds_of(CLOCK_MONOTONIC));
    group.all_gather(all, mine);
    early.push_back(all[1].item<double>() - all[0].item<double>());
  }
  return std::max(0.0, median(early));
}

// Seconds of one message with both processes on rank 0's core, where the two ends copy in turn
// instead of at the same time. Only rank 0's clock is used, because rank 0 begins and ends the
// exchange, and the other rank cannot read its clock while rank 0 runs.
double measure_on_one_core(Group& group, Case& measured, const CollectivePlan& plan,
                           double alone_seconds) {
  constexpr int repetitions = 15;
  at::Tensor value = at::full({1}, current_core(), at::kDouble);
  group.broadcast(value, 0);
  std::optional<OnOneCore> there;
  if (group.rank() < 2) there.emplace(static_cast<int>(value.item<double>()));
  const int calls =
      static_cast<int>(std::clamp(std::ceil(plan.series_seconds / (2 * alone_seconds)), 1.0, 32.0));
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {  // the first is a warm-up
    measured.refresh();
    group.barrier();
    const double begin = seconds_of(CLOCK_MONOTONIC);
    for (int call = 0; call < calls; ++call) measured.call(call);
    const double took = seconds_of(CLOCK_MONOTONIC) - begin;
    if (i > 0) seconds.push_back(took / (calls * measured.messages_per_call()));
  }
  value.fill_(median(seconds));
  group.broadcast(value, 0);
  return value.item<double>();
}

// Returns rank 0's answer on every rank.
bool agree(Group& group, bool yes) {
  at::Tensor value = at::full({1}, yes ? 1.0 : 0.0);
  group.broadcast(value, 0);
  return value.item<float>() != 0;
}

// Measures one point. `deadline`, a time on the shared clock, is set by the first attempt. `late`
// tells whether it has passed.
CollectivePoint measure(Group& group, Case& measured, const CollectivePlan& plan,
                        std::optional<double>& deadline, bool& late) {
  const CpuClocks before = read_cpu_clocks();
  Series first = run_series(group, measured, 1);
  first = run_series(group, measured, 2);
  if (!deadline) deadline = first.end + plan.seconds_per_point;
  const double one = std::max(first.seconds * measured.messages_per_call(), 1e-7);
  const int calls = static_cast<int>(std::clamp(std::ceil(plan.series_seconds / one),
                                                static_cast<double>(measured.least_calls()), 32.0));
  // Brings caches and token bucket into the state that they have during the repetitions.
  run_series(group, measured, calls);

  std::vector<double> seconds, cpu_seconds;
  do {
    const Series series = run_series(group, measured, calls);
    seconds.push_back(series.seconds);
    cpu_seconds.push_back(series.cpu_seconds);
    late = series.end >= *deadline;
  } while (!enough(seconds, plan.rule) &&
           (!late || static_cast<int>(seconds.size()) < plan.rule.minimum));

  CollectivePoint point;
  point.seconds = median(seconds);
  point.relative_iqr = (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / point.seconds;
  point.relative_spread = (quantile(seconds, 0.9) - point.seconds) / point.seconds;
  point.cpu_seconds = median(cpu_seconds);
  point.repetitions = static_cast<int>(seconds.size());
  const CpuClocks after = read_cpu_clocks();
  const double own = total_of(group, after.own_seconds - before.own_seconds);
  point.disturbance = disturbance(before, after, own);
  return point;
}

}  // namespace

void probe_collectives(Group& group, const CollectivePlan& plan,
                       const std::function<void(const CollectivePoint&)>& on_point) {
  const at::NoGradGuard no_grad;
  for (const Collective collective : plan.collectives) {
    for (const double bytes : plan.sizes) {
      Case measured(group, collective, bytes);
      const double wrong = total_of(group, static_cast<double>(measured.count_wrong()));
      std::optional<CollectivePoint> best;
      std::optional<double> deadline;
      bool late = false;
      for (int attempt = 0; attempt < attempts && !late; ++attempt) {
        CollectivePoint point = measure(group, measured, plan, deadline, late);
        point.disturbed = agree(group, disturbed(point.disturbance));
        const bool quieter = !best || point.disturbance.foreign + point.disturbance.stolen <
                                          best->disturbance.foreign + best->disturbance.stolen;
        if (agree(group, quieter)) best = point;
        if (!point.disturbed) break;
      }
      if (collective != Collective::send_recv && bytes >= plan.least_beside_compute) {
        const Speeds speeds = measure_beside_compute(group, measured, best->seconds);
        best->compute_speed = speeds.compute;
        best->speed_beside_compute = speeds.collective;
      }
      if (collective == Collective::send_recv && bytes >= plan.least_beside_compute) {
        // At least 1e-9, because 0 means not measured.
        best->sender_seconds = std::max(1e-9, best->seconds - measure_early(group, measured));
        if (plan.one_core) {
          best->one_core_seconds = measure_on_one_core(group, measured, plan, best->seconds);
        }
      }
      best->collective = collective;
      best->bytes = measured.bytes();
      best->count = measured.count();
      best->wrong = static_cast<std::int64_t>(wrong);
      on_point(*best);
    }
  }
}

}  // namespace lockstep
