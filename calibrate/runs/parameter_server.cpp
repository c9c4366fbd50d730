// A parameter server with send and receive: one process with one thread, and one message for all
// parameters. Pushes are served in the order of their arrival. The consistency rule determines
// which pushes an update combines, and when a worker gets its answer
// (docs/parameter-server-base.md, "Consistency").
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <deque>

#include "runs/strategy.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

at::Tensor flatten_parameters(RealNetwork& network) {
  std::int64_t count = 1;
  for (const NetworkParameter& parameter : network.parameters()) count += parameter.tensor.numel();
  at::Tensor flat = at::zeros({count}, network.parameters().front().tensor.options());
  std::int64_t offset = 0;
  for (NetworkParameter& parameter : network.parameters()) {
    const std::int64_t size = parameter.tensor.numel();
    at::Tensor place = flat.slice(0, offset, offset + size).view(parameter.tensor.sizes());
    place.copy_(parameter.tensor.detach());
    parameter.tensor.set_data(place);
    offset += size;
  }
  return flat;
}

namespace {

class PsWorker final : public RealStrategy {
 public:
  explicit PsWorker(RankContext& context)
      : context_(context),
        server_(context.options.ranks),
        parameters_(flatten_parameters(context.network)),
        gradients_(at::zeros_like(parameters_)) {}

  bool train_step(const Batch& batch, RankStep& step) override {
    // No rank waits for others during a pass, so a slow rank sleeps at the end of each pass.
    const bool on_cpu = parameters_.device().is_cpu();
    const double begin = thread_cpu_seconds();
    at::Tensor loss = context_.network.forward(batch);
    context_.slowness.pause();
    context_.clock.mark();
    loss.backward();
    if (on_cpu) step.compute = thread_cpu_seconds() - begin;
    flatten_gradients();
    context_.slowness.pause();
    context_.clock.mark();
    context_.group.send(gradients_, server_);
    context_.group.recv(parameters_, server_);
    step.loss = loss.item<double>();
    return parameters_[-1].item<double>() == 0;
  }

  std::vector<at::Tensor> optimizer_state() const override { return {}; }

 private:
  void flatten_gradients() {
    const at::NoGradGuard no_gradients;
    std::int64_t offset = 0;
    for (NetworkParameter& parameter : context_.network.parameters()) {
      const std::int64_t size = parameter.tensor.numel();
      gradients_.slice(0, offset, offset + size).copy_(parameter.tensor.grad().view({-1}));
      offset += size;
    }
    context_.network.drop_gradients();
  }

  RankContext& context_;
  int server_;
  at::Tensor parameters_, gradients_;
};

class Server {
 public:
  Server(const TrainOptions& options, Group& group, RealNetwork& network, RankReport& report)
      : options_(options),
        group_(group),
        network_(network),
        report_(report),
        flat_(flatten_parameters(network)),
        received_(at::zeros_like(flat_)),
        optimizer_(options.optimizer, network),
        clocks_(static_cast<std::size_t>(options.ranks), 0),
        seen_(static_cast<std::size_t>(options.ranks), 0) {}

  void run() {
    while (answered_last_ < options_.ranks) {
      if (options_.strategy == RunStrategy::ps_sync) {
        synchronous_round();
      } else {
        const int worker = group_.recv_any(received_);
        record_push(worker);
        apply(received_, worker);
        ++clocks_[static_cast<std::size_t>(worker)];
        waiting_.push_back(worker);
        answer_who_may_go();
      }
    }
    report_.memory.optimizer_state = 0;
    for (const at::Tensor& state : optimizer_.state()) {
      report_.memory.optimizer_state += static_cast<double>(state.nbytes());
    }
  }

 private:
  // Adds up the gradients of all workers in the order of their arrival, updates once, and answers
  // all workers.
  void synchronous_round() {
    int last = 0;
    for (int i = 0; i < options_.ranks; ++i) {
      last = group_.recv_any(i == 0 ? sum() : received_);
      if (i > 0) sum().add_(received_);
      record_push(last);
      waiting_.push_back(last);
    }
    apply(sum().div_(options_.ranks), last);
    for (const int worker : waiting_) answer(worker);
    waiting_.clear();
  }

  // Records a push that will be part of the next update.
  void record_push(int worker) {
    report_.pushes.push_back(
        {host_seconds(), worker, 0, seen_[static_cast<std::size_t>(worker)], version_ + 1});
  }

  void apply(const at::Tensor& gradient, int worker) {
    // Updates tensor by tensor, like all other strategies, because kernels round differently at the
    // end of a tensor.
    std::int64_t offset = 0;
    for (NetworkParameter& parameter : network_.parameters()) {
      at::Tensor& tensor = parameter.tensor;
      const std::int64_t end = offset + tensor.numel();
      tensor.mutable_grad() = gradient.slice(0, offset, end).view(tensor.sizes());
      offset = end;
    }
    optimizer_.step();
    const std::int64_t updates_wanted =
        options_.strategy == RunStrategy::ps_sync ? 1 : options_.ranks;
    // After the last measured update, the server tells each worker to stop. Pushes that arrive then
    // are not measured, because not all workers take part any more.
    if (version_ >= updates_wanted * options_.warm_up && !finished_) {
      synchronize(flat_.device());
      report_.updates.push_back(
          {host_seconds(), worker, version_ - seen_[static_cast<std::size_t>(worker)]});
    }
    ++version_;
    finished_ = version_ >= updates_wanted * (options_.warm_up + options_.steps);
  }

  // Answers the workers that may continue. Under the stale-synchronous rule, a worker may be at
  // most `staleness_bound` pushes ahead of the slowest.
  void answer_who_may_go() {
    const int slowest = *std::min_element(clocks_.begin(), clocks_.end());
    std::deque<int> held;
    for (const int worker : waiting_) {
      const int ahead = clocks_[static_cast<std::size_t>(worker)] - slowest;
      const bool held_back =
          options_.strategy == RunStrategy::ps_ssp && ahead > options_.staleness_bound;
      if (held_back && !finished_) {
        held.push_back(worker);
      } else {
        answer(worker);
      }
    }
    waiting_ = std::move(held);
  }

  void answer(int worker) {
    flat_[-1] = finished_ ? 1.0 : 0.0;
    group_.send(flat_, worker);
    seen_[static_cast<std::size_t>(worker)] = version_;
    if (finished_) ++answered_last_;
  }

  at::Tensor& sum() {
    if (!sum_.defined()) sum_ = at::zeros_like(flat_);
    return sum_;
  }

  const TrainOptions& options_;
  Group& group_;
  RealNetwork& network_;
  RankReport& report_;
  at::Tensor flat_, received_, sum_;
  Optimizer optimizer_;
  std::int64_t version_ = 0;
  std::vector<int> clocks_;         // pushes applied, by worker
  std::vector<std::int64_t> seen_;  // version that each worker got last
  std::deque<int> waiting_;         // workers that wait for an answer, oldest first
  bool finished_ = false;
  int answered_last_ = 0;  // workers that have been told to stop
};

}  // namespace

std::unique_ptr<RealStrategy> make_ps_worker(RankContext& context) {
  return std::make_unique<PsWorker>(context);
}

void serve_parameters(const TrainOptions& options, Group& group, RealNetwork& network,
                      RankReport& report) {
  const at::NoGradGuard no_gradients;
  Server server(options, group, network, report);
  group.barrier();
  server.run();
}

}  // namespace lockstep
