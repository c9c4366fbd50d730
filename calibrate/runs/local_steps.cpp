// Strategies in which each rank makes several optimizer steps on its own batches between two
// exchanges: DiLoCo (Douillard et al. 2023, algorithm 1) with an all-reduce, and federated
// averaging (McMahan et al. 2017, algorithm 1) with a server.
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/index.hpp"
#include "results/participants.hpp"
#include "runs/strategy.hpp"
#include "torch/grad_scaler.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

// A rank's steps between two exchanges. Gradients stay allocated until after the exchange, as with
// PyTorch's PostLocalSGDOptimizer.
class LocalTraining {
 public:
  explicit LocalTraining(RankContext& context)
      : context_(context),
        optimizer_(context.options.optimizer, context.network),
        scaler_(context.options.step.precision, at::Device(context.options.device)) {
    for (NetworkParameter& parameter : context.network.parameters()) {
      tensors_.push_back(parameter.tensor);
    }
  }

  // No rank waits for others during a step, so a slow rank sleeps at the end of each pass.
  void step(const Batch& batch, RankStep& step) {
    const bool on_cpu = tensors_.front().device().is_cpu();
    const double begin = thread_cpu_seconds();
    at::Tensor loss = context_.network.forward(batch);
    context_.slowness.pause();
    context_.clock.mark();
    scaler_.scale(loss).backward();
    if (on_cpu) step.compute = thread_cpu_seconds() - begin;
    context_.slowness.pause();
    context_.clock.mark();
    step.skipped = !scaler_.unscale(tensors_);
    if (!step.skipped) optimizer_.step();
    context_.slowness.pause();
    step.loss = loss.item<double>();
    ++steps_;
  }

  bool meets() const { return steps_ % context_.options.every == 0; }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  std::vector<at::Tensor> state() const { return optimizer_.state(); }

 private:
  RankContext& context_;
  std::vector<at::Tensor> tensors_;
  Optimizer optimizer_;
  GradScaler scaler_;
  int steps_ = 0;
};

class DiLoCo final : public RealStrategy {
 public:
  explicit DiLoCo(RankContext& context) : context_(context), training_(context) {
    if (context.group.size() == 1) return;  // no exchange with one rank, as in the simulator
    std::vector<at::Tensor> flat;
    for (const at::Tensor& tensor : training_.tensors()) flat.push_back(tensor.detach().view({-1}));
    start_ = at::cat(flat);
    momentum_ = at::zeros_like(start_);
  }

  bool train_step(const Batch& batch, RankStep& step) override {
    training_.step(batch, step);
    if (start_.defined() && training_.meets()) exchange();
    context_.network.drop_gradients();
    return true;
  }

  std::vector<at::Tensor> optimizer_state() const override { return training_.state(); }

 private:
  void exchange() {
    const at::NoGradGuard no_gradients;
    at::Tensor distance = at::empty_like(start_);
    each_part([&](at::Tensor own, std::int64_t begin, std::int64_t end) {
      at::Tensor place = distance.slice(0, begin, end);
      at::sub_out(place, start_.slice(0, begin, end), own);
    });
    context_.group.all_reduce(distance);
    distance.div_(context_.group.size());
    each_part([&](const at::Tensor& own, std::int64_t begin, std::int64_t end) {
      // The pieces fit into a core's cache, so that memory is read and written once, as by one
      // fused kernel.
      constexpr std::int64_t piece = 16'384;
      for (std::int64_t first = begin; first < end; first += piece) {
        const std::int64_t last = std::min(first + piece, end);
        step_outward(distance.slice(0, first, last), first, last);
        own.slice(0, first - begin, last - begin).copy_(start_.slice(0, first, last));
      }
    });
  }

  // The outer step: torch.optim.SGD with nesterov=True, whose gradient is `distance`.
  void step_outward(const at::Tensor& distance, std::int64_t first, std::int64_t last) {
    const double rate = context_.options.outer_rate, keep = context_.options.outer_momentum;
    at::Tensor momentum = momentum_.slice(0, first, last);
    momentum.mul_(keep).add_(distance);
    start_.slice(0, first, last).sub_(distance.add(momentum, keep), rate);
  }

  template <class Body>
  void each_part(const Body& body) {
    std::int64_t begin = 0;
    for (const at::Tensor& tensor : training_.tensors()) {
      const std::int64_t end = begin + tensor.numel();
      body(tensor.detach().view({-1}), begin, end);
      begin = end;
    }
  }

  RankContext& context_;
  LocalTraining training_;
  // Parameters after the last exchange, and the outer momentum; undefined with one rank.
  at::Tensor start_, momentum_;
};

class FedAvgWorker final : public RealStrategy {
 public:
  explicit FedAvgWorker(RankContext& context)
      : context_(context),
        server_(context.options.ranks),
        parameters_(flatten_parameters(context.network)),
        pulled_(parameters_.clone()),
        message_(at::zeros_like(parameters_)),
        training_(context) {
    const TrainOptions& o = context.options;
    const auto seed = static_cast<std::uint64_t>(o.seed);
    asked_ = participants(o.ranks, drawn_ranks(o), seed, 0)[at(context.group.rank())];
  }

  bool train_step(const Batch& batch, RankStep& step) override {
    if (!asked_ && !pull()) {  // the training ended before the rank was drawn
      context_.clock.mark();
      context_.clock.mark();
      return false;
    }
    asked_ = true;
    training_.step(batch, step);
    const bool more = !training_.meets() || exchange();
    context_.network.drop_gradients();
    return more;
  }

  std::vector<at::Tensor> optimizer_state() const override { return training_.state(); }

 private:
  bool exchange() {
    const at::NoGradGuard no_gradients;
    at::sub_out(message_, pulled_, parameters_);
    context_.slowness.pause();
    context_.group.send(message_, server_);
    return pull();
  }
  bool pull() {
    context_.group.recv(pulled_, server_);
    const bool more = pulled_[-1].item<double>() == 0;
    parameters_.copy_(pulled_);
    return more;
  }

  RankContext& context_;
  int server_;
  at::Tensor parameters_, pulled_, message_;
  LocalTraining training_;
  bool asked_ = false;  // whether the rank takes part in the first round
};

// The server of federated averaging. It has one thread, and one message for all parameters. It
// receives messages in the order of their arrival.
class RoundServer {
 public:
  RoundServer(const TrainOptions& options, Group& group, RealNetwork& network, RankReport& report)
      : options_(options),
        group_(group),
        report_(report),
        flat_(flatten_parameters(network)),
        sum_(at::zeros_like(flat_)),
        received_(at::zeros_like(flat_)) {
    take_part();
    for (int worker = 0; worker < options.ranks; ++worker) {
      if (!takes_part_[at(worker)]) waiting_.push_back(worker);
    }
  }

  void run() {
    const std::int64_t first = rounds_of(options_, options_.warm_up);
    const std::int64_t all = first + rounds_of(options_, options_.steps);
    while (version_ < all) {
      round();
      // The update before the first measured round marks the beginning of that round.
      if (version_ >= first) report_.updates.push_back({host_seconds(), waiting_.back(), 0});
      take_part();
      flat_[-1] = version_ < all ? 0.0 : 1.0;
      std::erase_if(waiting_, [&](int worker) {
        const bool goes_on = version_ == all || takes_part_[at(worker)];
        if (goes_on) group_.send(flat_, worker);
        return goes_on;
      });
    }
  }

 private:
  void take_part() {
    const auto seed = static_cast<std::uint64_t>(options_.seed);
    takes_part_ = participants(options_.ranks, drawn_ranks(options_), seed, version_);
  }

  // Adds up the workers' differences in the order of their arrival, and subtracts their mean from
  // the parameters.
  void round() {
    const int drawn = drawn_ranks(options_);
    for (int i = 0; i < drawn; ++i) {
      const int worker = group_.recv_any(i == 0 ? sum_ : received_);
      if (i > 0) sum_.add_(received_);
      report_.pushes.push_back({host_seconds(), worker, 0, version_, version_ + 1});
      waiting_.push_back(worker);
    }
    flat_.sub_(sum_.div_(drawn));
    synchronize(flat_.device());
    ++version_;
  }

  const TrainOptions& options_;
  Group& group_;
  RankReport& report_;
  at::Tensor flat_, sum_, received_;
  std::int64_t version_ = 0;
  std::vector<bool> takes_part_;  // in the present round
  std::vector<int> waiting_;      // workers that wait for parameters, oldest first
};

}  // namespace

std::unique_ptr<RealStrategy> make_diloco(RankContext& context) {
  return std::make_unique<DiLoCo>(context);
}

std::unique_ptr<RealStrategy> make_fedavg_worker(RankContext& context) {
  return std::make_unique<FedAvgWorker>(context);
}

void serve_rounds(const TrainOptions& options, Group& group, RealNetwork& network,
                  RankReport& report) {
  const at::NoGradGuard no_gradients;
  RoundServer server(options, group, network, report);
  group.barrier();
  server.run();
}

}  // namespace lockstep
