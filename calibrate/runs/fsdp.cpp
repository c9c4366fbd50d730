// Fully sharded training on a process group. Each unit (a repeated block of the model, or the root
// with all other layers) has its parameters in one flat tensor, of which every rank owns a shard.
// The schedule is that of FullyShardedDataParallel (docs/fsdp.md, "FSDP1"). The root is
// gathered first, and stays until backward. Every other unit is gathered before its forward, freed
// after it, and gathered a second time before its backward, while the next unit of backward is
// prefetched. When a unit's last gradient is ready, its gradients are reduce-scattered. Gathered
// parameters are views of the unit's flat tensor. The storage of this tensor is freed and allocated
// in place, so that tensors that autograd has saved do not hold the memory.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>

#include "runs/strategy.hpp"
#include "torch/optimizer.hpp"

namespace lockstep {

namespace {

class Unit {
 public:
  Unit(Group& group, std::vector<at::Tensor> parameters)
      : group_(group), parameters_(std::move(parameters)) {
    for (const at::Tensor& parameter : parameters_) elements_ += parameter.numel();
    const std::int64_t ranks = group.size();
    const std::int64_t size = (elements_ + ranks - 1) / ranks;  // padded
    whole_ = at::zeros({size * ranks}, parameters_.front().options().requires_grad(false));
    each_part(whole_, [](at::Tensor part, at::Tensor& parameter) {
      part.copy_(parameter.detach().view({-1}));
      parameter.set_data(part.view(parameter.sizes()));
    });
    shard_ = whole_.slice(0, group.rank() * size, (group.rank() + 1) * size).clone();
  }

  const at::Tensor& shard() const { return shard_; }

  // Starts the all-gather, unless the parameters are complete or a gather is running.
  void start_gather() {
    if (here_ || gathering_) return;
    resize(whole_.numel());
    gather_ = group_.all_gather_async(whole_, shard_);
    gathering_ = true;
  }
  void gather() {
    start_gather();
    if (gathering_) gather_.wait();
    gathering_ = false;
    here_ = true;
  }
  void free() {
    here_ = false;
    resize(0);
  }

  // Counts one more gradient of this unit as ready. Returns true for the last one.
  bool gradient_ready() { return ++ready_ == parameters_.size(); }

  void start_reduction() {
    const at::NoGradGuard no_gradients;
    at::Tensor gradients = at::empty({shard_.numel() * group_.size()}, shard_.options());
    gradients.slice(0, elements_).zero_();  // the padding
    each_part(gradients, [](at::Tensor part, at::Tensor& parameter) {
      part.copy_(parameter.grad().view({-1}));
      parameter.mutable_grad().reset();
    });
    gradients.div_(group_.size());
    shard_.mutable_grad() = at::empty_like(shard_);
    reduction_ = group_.reduce_scatter_async(shard_.mutable_grad(), gradients);
    ready_ = 0;
  }
  void finish_reduction() { reduction_.wait(); }
  // Frees the memory of a finished reduction. A caching allocator likewise frees memory that
  // another stream has used as soon as that stream has finished.
  void free_finished_reduction() {
    if (reduction_.done()) reduction_.wait();
  }
  void drop_gradient() { shard_.mutable_grad().reset(); }

 private:
  template <class Body>
  void each_part(const at::Tensor& flat, const Body& body) {
    std::int64_t offset = 0;
    for (at::Tensor& parameter : parameters_) {
      const std::int64_t size = parameter.numel();
      body(flat.slice(0, offset, offset + size), parameter);
      offset += size;
    }
  }
  void resize(std::int64_t elements) {
    at::Storage storage = whole_.storage();
    const auto bytes = static_cast<std::size_t>(elements) * whole_.element_size();
    storage.set_data_ptr_noswap(elements == 0 ? at::DataPtr(nullptr, whole_.device())
                                              : storage.allocator()->allocate(bytes));
    storage.set_nbytes(bytes);
  }

  Group& group_;
  std::vector<at::Tensor> parameters_;
  std::int64_t elements_ = 0;
  at::Tensor whole_;  // flat tensor, of which the unit's parameters are views
  at::Tensor shard_;
  Pending gather_, reduction_;
  bool gathering_ = false, here_ = true;
  std::size_t ready_ = 0;
};

class RealFsdp final : public RealStrategy {
 public:
  explicit RealFsdp(RankContext& context) : context_(context) {
    group_layers();
    std::vector<at::Tensor> shards;
    for (const auto& unit : units_) {
      unit->free();
      shards.push_back(unit->shard());
    }
    optimizer_ = std::make_unique<Optimizer>(context.options.optimizer, shards);
    hooks_.before = [this](std::size_t layer) {
      context_.slowness.pay();
      if (first_of_unit_[layer]) {
        units_[unit_of_[layer]]->gather();
        context_.slowness.forgive();
      }
    };
    hooks_.after = [this](std::size_t layer, at::Tensor& output) {
      if (last_of_unit_[layer]) leave_unit(unit_of_[layer], output);
    };
  }

  bool train_step(const Batch& batch, RankStep& step) override {
    units_.front()->gather();
    context_.slowness.forgive();
    at::Tensor loss = context_.network.forward(batch, hooks_);
    context_.slowness.pause();
    context_.clock.mark();
    in_backward_.assign(units_.size(), false);
    backward(loss, context_.slowness);
    for (const auto& unit : units_) unit->finish_reduction();
    context_.slowness.forgive();
    context_.clock.mark();
    optimizer_->step();
    context_.slowness.pause();
    for (const auto& unit : units_) unit->drop_gradient();
    step.loss = loss.item<double>();
    return true;
  }

  std::vector<at::Tensor> optimizer_state() const override { return optimizer_->state(); }
  void gather_everything() override {
    for (const auto& unit : units_) unit->gather();
  }

 private:
  // Forms the units: unit 0 is the root, and every repeated block is a further unit, in forward
  // order.
  void group_layers() {
    const std::vector<Layer>& layers = context_.network.step().layers;
    std::map<std::string, std::size_t> index{{"", 0}};
    std::vector<std::size_t> first{0}, last{0};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto [place, fresh] = index.emplace(layers[i].block, index.size());
      if (fresh) {
        first.push_back(i);
        last.push_back(i);
      }
      unit_of_.push_back(place->second);
      last[place->second] = i;
    }
    first_of_unit_.assign(layers.size(), false);
    last_of_unit_.assign(layers.size(), false);
    for (std::size_t unit = 1; unit < first.size(); ++unit) {
      first_of_unit_[first[unit]] = last_of_unit_[last[unit]] = true;
    }
    std::vector<std::vector<at::Tensor>> parameters(index.size());
    for (NetworkParameter& parameter : context_.network.parameters()) {
      const std::size_t unit = unit_of_[static_cast<std::size_t>(parameter.layer)];
      parameters[unit].push_back(parameter.tensor);
      report_gradients(parameter.tensor, unit);
    }
    for (std::vector<at::Tensor>& own : parameters) {
      if (own.empty()) throw std::runtime_error("a block without parameters cannot be sharded");
      units_.push_back(std::make_unique<Unit>(context_.group, std::move(own)));
    }
  }

  void report_gradients(const at::Tensor& parameter, std::size_t unit) {
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
    using torch::autograd::variable_list;
    accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, unit](const variable_list& outputs, const variable_list&) {
          if (units_[unit]->gradient_ready()) leave_backward(unit);
          return outputs;
        }));
    accumulators_.push_back(std::move(accumulator));  // a parameter has only a weak reference to it
  }

  void leave_unit(std::size_t unit, const at::Tensor& output) {
    if (context_.options.reshard_after_forward) units_[unit]->free();
    output.register_hook([this, unit](const at::Tensor&) { enter_backward(unit); });
  }

  void enter_backward(std::size_t unit) {
    if (in_backward_[unit]) return;  // a gradient of another layer that reads the output came first
    in_backward_[unit] = true;
    context_.slowness.pay();
    units_[unit]->gather();
    if (unit > 1) units_[unit - 1]->start_gather();
    context_.slowness.forgive();
  }

  void leave_backward(std::size_t unit) {
    for (const auto& other : units_) other->free_finished_reduction();
    units_[unit]->start_reduction();
    units_[unit]->free();
  }

  RankContext& context_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::size_t> unit_of_;                // by layer
  std::vector<bool> first_of_unit_, last_of_unit_;  // by layer
  std::vector<bool> in_backward_;                   // by unit
  // A shared_ptr, and since LibTorch 2.15 an intrusive_ptr.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(at::Tensor()));
  std::vector<Accumulator> accumulators_;
  std::unique_ptr<Optimizer> optimizer_;
  ForwardHooks hooks_;
};

}  // namespace

std::unique_ptr<RealStrategy> make_real_fsdp(RankContext& context) {
  return std::make_unique<RealFsdp>(context);
}

}  // namespace lockstep
