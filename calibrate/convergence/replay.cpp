// Implements the replay. Each worker has a network with the parameters that it has read. One more
// network has the shared parameters, and is evaluated. Pushes are applied in the schedule's order,
// and a worker computes a push only when the push is first needed.
#include "convergence/replay.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numbers>

#include "convergence/compression.hpp"
#include "convergence/partition.hpp"
#include "convergence/replay_worker.hpp"
#include "core/statistics.hpp"
#include "runs/training_data.hpp"
#include "torch/initialisation.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::vector<ParameterPiece>> messages_of(const UpdateSchedule& schedule,
                                                     RealNetwork& network) {
  if (!schedule.messages.empty()) return schedule.messages;
  std::vector<ParameterPiece> all;
  for (std::size_t i = 0; i < network.parameters().size(); ++i) {
    all.push_back({static_cast<int>(i), 0, network.parameters()[i].tensor.numel()});
  }
  return {all};
}

OptimizerSpec without_momentum(OptimizerSpec spec) {
  spec.momentum = 0;
  return spec;
}

class Replay {
 public:
  Replay(const TrainingStep& step, const UpdateSchedule& schedule, const ImageSets& data,
         const LearningPlan& plan, const std::function<void(double)>& progress);
  ReplayResult run();

 private:
  using Pushes = std::vector<ScheduledPush>::const_iterator;
  void compute(ReplayWorker& worker);
  void load(ReplayWorker& worker, int message, const std::vector<at::Tensor>& version);
  void apply(Pushes begin, Pushes end);
  void step_apart(Pushes begin, Pushes end);
  void mix(std::size_t average);
  void take_mean_of_workers();
  void update(Pushes begin, Pushes end);
  void step_along_gradients(Pushes begin, Pushes end);
  std::vector<at::Tensor> means(Pushes begin, Pushes end);
  std::vector<at::Tensor> reduced(Pushes begin, Pushes end);
  void average_parameters(Pushes begin, Pushes end);
  void step_along_differences(Pushes begin, Pushes end);
  void step_outward(int message, std::size_t piece, const at::Tensor& distance);
  double share_of(const ScheduledPush& push) const;
  double age_factor(const ScheduledPush& push) const;
  std::vector<ShardOrder> orders() const;
  void pull_elastically(Pushes begin, Pushes end);
  at::Tensor weighted(const ScheduledPush& push, std::int64_t number, std::size_t piece);
  at::Tensor curvature_of(const at::Tensor& gradient, int message, std::size_t piece);
  void hand_out(int message);
  void judge(double time);
  std::int64_t batch_samples() const { return plan_.accumulation * step_.samples; }
  double epochs() const {
    return static_cast<double>(samples_) / static_cast<double>(data_.train.count);
  }
  const std::vector<ParameterPiece>& pieces(int message) const {
    return messages_[static_cast<std::size_t>(message)];
  }
  at::Tensor shared_piece(int message, std::size_t i) const {
    return shared_pieces_[static_cast<std::size_t>(message)][i];
  }
  ReplayWorker& worker_of(const ScheduledPush& push) {
    return workers_[static_cast<std::size_t>(push.worker)];
  }
  at::Tensor& parameter(RealNetwork& network, const ParameterPiece& piece) const {
    return network.parameters()[static_cast<std::size_t>(piece.parameter)].tensor;
  }
  at::Tensor worker_piece(int worker, int message, std::size_t i) {
    const ParameterPiece& piece = pieces(message)[i];
    return piece_of(parameter(workers_[static_cast<std::size_t>(worker)].network(), piece).detach(),
                    piece);
  }

  const TrainingStep& step_;
  const UpdateSchedule& schedule_;
  const ImageSets& data_;
  const LearningPlan& plan_;
  const std::function<void(double)>& progress_;
  const ImageBatches batches_;
  RealNetwork shared_;
  std::deque<ReplayWorker> workers_;
  std::vector<std::vector<ParameterPiece>> messages_;
  std::vector<std::vector<at::Tensor>> shared_pieces_;  // by message
  std::deque<Optimizer> optimizers_;                    // by message
  // By message: the workers that read each version, in the order of versions. `handed_out_` is the
  // number of readers that have got their version.
  struct Reader {
    std::int64_t version;
    int worker;
  };
  std::vector<std::vector<Reader>> readers_;
  std::vector<std::size_t> handed_out_;
  std::vector<std::int64_t> versions_;
  std::vector<std::int64_t> numbers_;  // numbers of the pushes that are being applied
  GradientReducer reducer_;            // for synchronous workers
  // By message: mean squares of gradients (adaptive lambda).
  std::vector<std::vector<at::Tensor>> mean_squares_;
  std::vector<std::vector<at::Tensor>> outer_momenta_;  // by message and piece
  // Gossip, by worker: for each of its gradients, the number of averages before it.
  std::vector<std::deque<std::int64_t>> reads_;
  std::size_t mixed_ = 0;  // gossip: averages made so far
  std::int64_t samples_ = 0;
  double loss_sum_ = 0;
  std::int64_t losses_ = 0;
  std::vector<double> batch_seconds_;
  ReplayResult result_;
};

Replay::Replay(const TrainingStep& step, const UpdateSchedule& schedule, const ImageSets& data,
               const LearningPlan& plan, const std::function<void(double)>& progress)
    : step_(step),
      schedule_(schedule),
      data_(data),
      plan_(plan),
      progress_(progress),
      batches_(data.train, step, at::kCPU),
      shared_(step, at::kCPU, plan.seed),
      messages_(messages_of(schedule, shared_)),
      readers_(messages_.size()),
      handed_out_(messages_.size(), 0),
      versions_(messages_.size(), 0),
      reducer_(schedule.mean, schedule.workers, static_cast<int>(shared_.parameters().size()),
               plan.seed),
      mean_squares_(messages_.size()),
      outer_momenta_(messages_.size()) {
  for (ShardOrder& order : orders()) {
    workers_.emplace_back(step, schedule, std::move(order), plan,
                          static_cast<int>(workers_.size()));
  }
  result_.losses.resize(workers_.size());
  if (plan.initialisation == Initialisation::kaiming) {
    initialise_kaiming(shared_, plan.seed);
    for (ReplayWorker& worker : workers_) initialise_kaiming(worker.network(), plan.seed);
  }
  const bool at_workers = plan.momentum_at == MomentumPlace::worker;
  const OptimizerSpec optimizer =
      for_model(at_workers ? without_momentum(plan.optimizer) : plan.optimizer, step);
  for (const auto& message : messages_) {
    std::vector<at::Tensor>& views = shared_pieces_.emplace_back();
    std::vector<int> tensors;
    for (const ParameterPiece& piece : message) {
      tensors.push_back(piece.parameter);
      views.push_back(piece_of(parameter(shared_, piece).detach(), piece));
    }
    optimizers_.emplace_back(of_tensors(optimizer, tensors), views);
  }
  reads_.resize(workers_.size());
  for (const ScheduledPush& push : schedule.pushes) {
    if (schedule.exchange == Exchange::gossip) {
      reads_[static_cast<std::size_t>(push.worker)].push_back(push.read);
      continue;
    }
    readers_[static_cast<std::size_t>(push.message)].push_back({push.read, push.worker});
  }
  for (auto& readers : readers_) {
    std::stable_sort(readers.begin(), readers.end(),
                     [](const Reader& a, const Reader& b) { return a.version < b.version; });
  }
  for (std::size_t m = 0; m < messages_.size(); ++m) hand_out(static_cast<int>(m));
}

// The order of images for each worker.
std::vector<ShardOrder> Replay::orders() const {
  std::vector<ShardOrder> result;
  if (schedule_.shares.empty()) {
    for (int w = 0; w < schedule_.workers; ++w) {
      result.emplace_back(data_.train.count, schedule_.workers, w, batch_samples(), plan_.seed);
    }
    return result;
  }
  for (std::vector<std::int64_t>& own :
       partition(data_.train.labels, schedule_.shares, schedule_.class_concentration, plan_.seed)) {
    result.emplace_back(std::move(own), static_cast<int>(result.size()), batch_samples(),
                        plan_.seed);
  }
  return result;
}

ReplayResult Replay::run() {
  const auto count = static_cast<double>(data_.train.count);
  auto wanted = static_cast<std::int64_t>(std::llround(plan_.epochs * count));
  if (plan_.most_batches > 0) wanted = std::min(wanted, plan_.most_batches * batch_samples());
  const int evaluations = std::max(1, plan_.evaluations);
  int judged = 0;
  double time = 0;
  const double began = seconds_now();
  double judging = 0;
  const auto& pushes = schedule_.pushes;
  for (auto push = pushes.begin(); push != pushes.end() && samples_ < wanted;) {
    auto end = push + 1;
    while (end != pushes.end() && end->message == push->message && end->applied == push->applied) {
      ++end;
    }
    apply(push, end);
    time = push->time;
    push = end;
    if (result_.diverged) break;
    if (samples_ * evaluations >= (judged + 1) * wanted) {
      const double before = seconds_now();
      judge(time);
      judging += seconds_now() - before;
      judged = static_cast<int>(samples_ * evaluations / wanted);
      if (progress_) progress_(static_cast<double>(samples_) / static_cast<double>(wanted));
    }
  }
  result_.wall_seconds = seconds_now() - began - judging;
  result_.batch_seconds = median(batch_seconds_);
  result_.train_images = data_.train.count;
  result_.test_images = data_.test.count;
  result_.complete = samples_ >= wanted;
  if (judged < evaluations || result_.diverged) judge(time);
  return std::move(result_);
}

// Computes the batches of the worker's next push. The worker makes a local step after each batch,
// or adds up the gradients of all batches.
void Replay::compute(ReplayWorker& worker) {
  const bool pushes_gradients = schedule_.exchange == Exchange::gradients;
  const bool steps_later = pushes_gradients || schedule_.exchange == Exchange::gossip;
  const bool clips = plan_.gradient_clipping > 0 && plan_.clipped == Clipped::pushes;
  const int steps = schedule_.steps_of(static_cast<int>(worker.number()));
  for (int i = 0; i < steps; ++i) {
    const double began = seconds_now();
    if (i == 0 || !pushes_gradients) worker.drop_gradients();
    const double loss = worker.gradients(batches_, data_.train);
    batch_seconds_.push_back(seconds_now() - began);
    samples_ += batch_samples();
    loss_sum_ += loss;
    ++losses_;
    result_.losses[worker.number()].push_back(loss);
    if (!std::isfinite(loss)) result_.diverged = true;
    if (clips && (!pushes_gradients || i + 1 == steps)) worker.clip_gradients();
    if (steps_later) continue;
    worker.local().set_learning_rate(plan_.optimizer.learning_rate * rate_factor(plan_, epochs()));
    worker.local().step();
  }
  worker.count_computed();
  if (!pushes_gradients) return;
  worker.push(messages_);
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    auto& waiting = worker.waiting(static_cast<int>(m));
    if (waiting.empty()) continue;
    load(worker, static_cast<int>(m), waiting.front());
    waiting.pop_front();
  }
}

void Replay::load(ReplayWorker& worker, int message, const std::vector<at::Tensor>& version) {
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < version.size(); ++i) {
    worker_piece(static_cast<int>(worker.number()), message, i).copy_(version[i]);
  }
  if (schedule_.exchange != Exchange::differences) return;
  worker.read(message).clear();
  for (const at::Tensor& piece : version) worker.read(message).push_back(piece.detach().clone());
}

// Gossip: applies each worker's gradient to the worker's parameters, after the averages that
// precede it in the schedule.
void Replay::step_apart(Pushes begin, Pushes end) {
  const auto& averages = schedule_.averages;
  for (auto push = begin; push != end; ++push) {
    const std::int64_t before = push - schedule_.pushes.begin();
    while (mixed_ < averages.size() && averages[mixed_].steps_before <= before) mix(mixed_++);
    ReplayWorker& worker = worker_of(*push);
    if (!worker.has_computed(worker.next_push(0))) compute(worker);
    reads_[worker.number()].pop_front();
    worker.local().set_learning_rate(plan_.optimizer.learning_rate * rate_factor(plan_, epochs()));
    worker.local().step();
  }
  versions_.front() = begin->applied;
}

// Makes one average for all its workers at the same time. A worker that has read its parameters
// first computes its gradient, before the average changes them.
void Replay::mix(std::size_t average) {
  const auto& mixes = schedule_.averages[average].mixes;
  for (const ScheduledAverage::Mix& of : mixes) {
    ReplayWorker& worker = workers_[static_cast<std::size_t>(of.worker)];
    const auto& reads = reads_[worker.number()];
    const bool has_read = !reads.empty() && reads.front() <= static_cast<std::int64_t>(average);
    if (has_read && !worker.has_computed(worker.pushes_taken(0))) compute(worker);
  }
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < pieces(0).size(); ++i) {
    std::vector<at::Tensor> means;
    for (const ScheduledAverage::Mix& of : mixes) {
      at::Tensor mean = means.emplace_back(worker_piece(of.worker, 0, i).clone());
      for (const int peer : of.peers) mean.add_(worker_piece(peer, 0, i));
      mean.div_(static_cast<double>(1 + of.peers.size()));
    }
    for (std::size_t m = 0; m < mixes.size(); ++m) {
      worker_piece(mixes[m].worker, 0, i).copy_(means[m]);
    }
  }
}

// Sets the shared parameters to the mean over the workers, by which gossip is evaluated (Lian et
// al. 2017, section 4).
void Replay::take_mean_of_workers() {
  for (std::size_t i = 0; i < pieces(0).size(); ++i) {
    at::Tensor mean = shared_piece(0, i).zero_();
    for (const ReplayWorker& worker : workers_) {
      mean.add_(worker_piece(static_cast<int>(worker.number()), 0, i));
    }
    mean.div_(static_cast<double>(workers_.size()));
  }
}

void Replay::apply(Pushes begin, Pushes end) {
  if (schedule_.exchange == Exchange::gossip) return step_apart(begin, end);
  numbers_.clear();
  for (auto push = begin; push != end; ++push) {
    ReplayWorker& worker = worker_of(*push);
    numbers_.push_back(worker.next_push(push->message));
    if (!worker.has_computed(numbers_.back())) compute(worker);
  }
  if (begin->applied != 0) update(begin, end);
  if (schedule_.exchange != Exchange::gradients) return;
  for (auto push = begin; push != end; ++push) {
    worker_of(*push).message_applied(numbers_[static_cast<std::size_t>(push - begin)]);
  }
}

void Replay::update(Pushes begin, Pushes end) {
  const at::NoGradGuard no_gradients;
  switch (schedule_.exchange) {
    case Exchange::gradients:
      step_along_gradients(begin, end);
      break;
    case Exchange::parameters:
      average_parameters(begin, end);
      break;
    case Exchange::elastic:
      pull_elastically(begin, end);
      break;
    case Exchange::differences:
      step_along_differences(begin, end);
      break;
    case Exchange::gossip:  // step_apart()
      break;
  }
  versions_[static_cast<std::size_t>(begin->message)] = begin->applied;
  hand_out(begin->message);
}

void Replay::step_along_gradients(Pushes begin, Pushes end) {
  const int message = begin->message;
  Optimizer& optimizer = optimizers_[static_cast<std::size_t>(message)];
  const std::vector<at::Tensor> taken =
      schedule_.mean.is_plain() ? means(begin, end) : reduced(begin, end);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    shared_piece(message, i).mutable_grad() = taken[i];
  }
  if (plan_.gradient_clipping > 0 && plan_.clipped == Clipped::mean) {
    clip(taken, plan_.gradient_clipping);
  }
  optimizer.set_learning_rate(plan_.optimizer.learning_rate * rate_factor(plan_, epochs()));
  optimizer.step();
}

// The mean gradient of the pushes, by piece of the message.
std::vector<at::Tensor> Replay::means(Pushes begin, Pushes end) {
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < pieces(begin->message).size(); ++i) {
    at::Tensor sum = weighted(*begin, numbers_.front(), i);
    // The tensor may be a worker's momentum, so it is copied before sums and clipping write to it.
    if (begin + 1 != end || plan_.gradient_clipping > 0) {
      sum = sum.clone();
      for (auto push = begin + 1; push != end; ++push) {
        sum.add_(weighted(*push, numbers_[static_cast<std::size_t>(push - begin)], i));
      }
      sum.div_(static_cast<double>(end - begin));
    }
    result.push_back(std::move(sum));
  }
  return result;
}

// The pushes' gradients after the compression. The only message has all parameters as its pieces.
std::vector<at::Tensor> Replay::reduced(Pushes begin, Pushes end) {
  std::vector<Tensors> gradients(workers_.size());
  for (auto push = begin; push != end; ++push) {
    Tensors& of_worker = gradients[static_cast<std::size_t>(push->worker)];
    const std::int64_t number = numbers_[static_cast<std::size_t>(push - begin)];
    for (std::size_t i = 0; i < pieces(push->message).size(); ++i) {
      of_worker.push_back(weighted(*push, number, i));
    }
  }
  return reducer_.reduce(gradients, begin->applied);
}

// A push's gradient for the update: weighted, or compensated for its delay.
at::Tensor Replay::weighted(const ScheduledPush& push, std::int64_t number, std::size_t i) {
  const Pushed& pushed = worker_of(push).pushed(number);
  const ParameterPiece& piece = pieces(push.message)[i];
  const auto parameter = static_cast<std::size_t>(piece.parameter);
  at::Tensor gradient = piece_of(pushed.gradients[parameter], piece);
  if (compensates(schedule_.weighting)) {
    at::Tensor curvature = curvature_of(gradient, push.message, i);
    if (versions_[static_cast<std::size_t>(push.message)] == push.read) return gradient;
    return gradient.add(
        curvature.mul_(shared_piece(push.message, i) - piece_of(pushed.read[parameter], piece)),
        schedule_.weighting_parameter);
  }
  const double factor = age_factor(push);
  return factor == 1 ? gradient : gradient.mul(factor);
}

// The factor of a push by its staleness or age; 1 for other weightings.
double Replay::age_factor(const ScheduledPush& push) const {
  const auto staleness =
      static_cast<double>(versions_[static_cast<std::size_t>(push.message)] - push.read);
  if (schedule_.weighting == Weighting::staleness) return 1 / std::max(1.0, staleness);
  if (schedule_.weighting != Weighting::age) return 1;
  return std::pow(1 + staleness, -schedule_.weighting_parameter);
}

double Replay::share_of(const ScheduledPush& push) const {
  return schedule_.shares.empty() ? 1 : schedule_.shares[static_cast<std::size_t>(push.worker)];
}

// DC-ASGD's approximation of the Hessian's diagonal, without the factor lambda. The adaptive
// variant divides it by the root of its moving mean, which belongs to the server; 0.95 and 1e-7 are
// the paper's values for CIFAR-10 (Zheng et al. 2017).
at::Tensor Replay::curvature_of(const at::Tensor& gradient, int message, std::size_t i) {
  at::Tensor square = gradient.mul(gradient);
  if (schedule_.weighting == Weighting::compensated) return square;
  auto& means = mean_squares_[static_cast<std::size_t>(message)];
  if (means.size() <= i) means.push_back(at::zeros_like(gradient));
  means[i].mul_(0.95).add_(square, 0.05);
  return square.div_(means[i].add(1e-7).sqrt_());
}

void Replay::average_parameters(Pushes begin, Pushes end) {
  const bool steps = schedule_.outer_rate > 0;
  for (std::size_t i = 0; i < pieces(begin->message).size(); ++i) {
    at::Tensor shared = shared_piece(begin->message, i);
    at::Tensor mean = steps ? at::zeros_like(shared) : shared.zero_();
    double shares = 0;
    for (auto push = begin; push != end; ++push) {
      mean.add_(worker_piece(push->worker, push->message, i), share_of(*push));
      shares += share_of(*push);
    }
    mean.div_(shares);
    if (steps) step_outward(begin->message, i, shared - mean);
  }
  if (!schedule_.average_state) return;
  const std::vector<at::Tensor> means = worker_of(*begin).local().state();
  for (std::size_t i = 0; i < means.size(); ++i) {
    at::Tensor mean = means[i];
    for (auto push = begin + 1; push != end; ++push) {
      mean.add_(worker_of(*push).local().state()[i]);
    }
    mean.div_(static_cast<double>(end - begin));
    for (auto push = begin + 1; push != end; ++push) {
      worker_of(*push).local().state()[i].copy_(mean);
    }
  }
}

// If all workers have read the present version, the result is the mean of their parameters, which
// is computed directly because it has smaller rounding errors.
void Replay::step_along_differences(Pushes begin, Pushes end) {
  const std::int64_t version = versions_[static_cast<std::size_t>(begin->message)];
  const bool fresh =
      std::all_of(begin, end, [&](const ScheduledPush& push) { return push.read == version; });
  if (fresh) {
    average_parameters(begin, end);
    return;
  }
  for (std::size_t i = 0; i < pieces(begin->message).size(); ++i) {
    at::Tensor shared = shared_piece(begin->message, i);
    at::Tensor distance = at::zeros_like(shared);
    double shares = 0;
    for (auto push = begin; push != end; ++push) {
      const at::Tensor& read = worker_of(*push).read(push->message)[i];
      distance.add_(read - worker_piece(push->worker, push->message, i),
                    share_of(*push) * age_factor(*push));
      shares += share_of(*push);
    }
    distance.div_(shares);
    if (schedule_.outer_rate > 0) {
      step_outward(begin->message, i, distance);
    } else {
      shared.sub_(distance);
    }
  }
}

// The outer step: torch.optim.SGD with nesterov=True, whose gradient is `distance`.
void Replay::step_outward(int message, std::size_t piece, const at::Tensor& distance) {
  std::vector<at::Tensor>& momenta = outer_momenta_[static_cast<std::size_t>(message)];
  if (momenta.size() <= piece) momenta.push_back(at::zeros_like(distance));
  at::Tensor momentum = momenta[piece];
  momentum.mul_(schedule_.outer_momentum).add_(distance);
  shared_piece(message, piece)
      .sub_(distance.add(momentum, schedule_.outer_momentum), schedule_.outer_rate);
}

void Replay::pull_elastically(Pushes begin, Pushes end) {
  for (auto push = begin; push != end; ++push) {
    for (std::size_t i = 0; i < pieces(push->message).size(); ++i) {
      at::Tensor own = worker_piece(push->worker, push->message, i);
      at::Tensor centre = shared_piece(push->message, i);
      const at::Tensor pull = (own - centre).mul_(schedule_.elasticity);
      own.sub_(pull);
      centre.add_(pull);
    }
  }
}

// Gives the message's present version to the workers that read it next. A worker that must still
// compute an earlier push gets the version after that.
void Replay::hand_out(int message) {
  const auto m = static_cast<std::size_t>(message);
  std::size_t& next = handed_out_[m];
  std::vector<at::Tensor> kept;  // a copy, shared by the workers that wait for it
  for (; next < readers_[m].size() && readers_[m][next].version <= versions_[m]; ++next) {
    if (schedule_.exchange == Exchange::elastic && versions_[m] > 0) continue;
    ReplayWorker& reader = workers_[static_cast<std::size_t>(readers_[m][next].worker)];
    const std::int64_t read = reader.next_read(message);
    if (read == 0 || reader.has_computed(read - 1)) {
      load(reader, message, shared_pieces_[m]);
      continue;
    }
    if (kept.empty()) {
      for (const at::Tensor& piece : shared_pieces_[m]) kept.push_back(piece.detach().clone());
    }
    reader.waiting(message).push_back(kept);
  }
}

void Replay::judge(double time) {
  const at::NoGradGuard no_gradients;
  if (schedule_.exchange == Exchange::gossip) take_mean_of_workers();
  if (plan_.running_statistics == RunningStatistics::first_worker) {
    for (std::size_t i = 0; i < shared_.buffers().size(); ++i) {
      at::Tensor buffer = shared_.buffers()[i];
      buffer.copy_(workers_.front().network().buffers()[i]);
    }
  }
  const Images& test = data_.test;
  const std::int64_t count =
      plan_.test_samples > 0 ? std::min(plan_.test_samples, test.count) : test.count;
  const double right = static_cast<double>(count_right(shared_, batches_, test, count));
  result_.curve.push_back({time, epochs(), versions_.front(), right / static_cast<double>(count),
                           losses_ > 0 ? loss_sum_ / static_cast<double>(losses_) : 0});
  loss_sum_ = 0;
  losses_ = 0;
}

}  // namespace

double rate_factor(const LearningPlan& plan, double epochs) {
  if (epochs < plan.warm_up_epochs) return epochs / plan.warm_up_epochs;
  const double rest = plan.epochs - plan.warm_up_epochs;
  const double done = rest > 0 ? std::min(1.0, (epochs - plan.warm_up_epochs) / rest) : 0;
  switch (plan.rate_schedule) {
    case RateSchedule::constant:
      return 1;
    case RateSchedule::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
    case RateSchedule::steps:
      return done < 0.5 ? 1 : done < 0.75 ? 0.1 : 0.01;
  }
  return 1;
}

ReplayResult replay(const TrainingStep& step, const UpdateSchedule& schedule, const ImageSets& data,
                    const LearningPlan& plan, const std::function<void(double)>& progress) {
  return Replay(step, schedule, data, plan, progress).run();
}

}  // namespace lockstep
