// Implements Group with c10d::ProcessGroupGloo. Since LibTorch 2, a ProcessGroup delegates to
// Backends, and Gloo has a reduce-scatter (_reduce_scatter_base, which 2.15 forwards to
// reduce_scatter_single). With LibTorch 1, ring_reduce_scatter.cpp supplies it.
#include "torch/process_group.hpp"

#include <ATen/core/grad_mode.h>
#include <signal.h>
#include <torch/version.h>

#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "torch/ring_reduce_scatter.hpp"

namespace lockstep {

namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

// Copies a GPU's tensor to host memory, in which Gloo works. `comes_back`: the operation writes to
// the tensor, so the result must be copied back.
Staged stage(const at::Tensor& tensor, bool comes_back) {
  if (tensor.is_cpu()) return {tensor, tensor, false};
  return {tensor, tensor.detach().cpu(), comes_back};  // waits for all issued work of the device
}

// Like stage(), for an operation that only writes the tensor, so that nothing is copied to the
// host.
Staged stage_output(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return {tensor, tensor, false};
  return {tensor, at::empty_like(tensor, at::TensorOptions(at::kCPU)), true};
}

// A process group of LibTorch 2 with Gloo as its default backend. Up to 2.4 the constructor's
// options set the backend.
template <class Front>
[[maybe_unused]] c10::intrusive_ptr<Front> make_front(const c10::intrusive_ptr<c10d::Store>& store,
                                                      int rank, int size) {
  if constexpr (std::is_constructible_v<Front, decltype(store), int, int>) {
    auto front = c10::make_intrusive<Front>(store, rank, size);
    front->setDefaultBackend(Front::BackendType::GLOO);
    return front;
  } else {
    return c10::make_intrusive<Front>(store, rank, size,
                                      c10::make_intrusive<typename Front::Options>("gloo"));
  }
}

}  // namespace

void Pending::wait() {
  if (!work_) return;
  work_->wait();
  // Gloo's thread refers to the operation a moment longer. If that thread released the tensors
  // last, it would free them, and this thread's memory meter would not see that.
  while (work_.use_count() > 1) std::this_thread::yield();
  work_.reset();
  const at::NoGradGuard no_gradients;
  for (Staged& staged : tensors_) {
    if (staged.comes_back) staged.tensor.copy_(staged.host);
  }
  tensors_.clear();
}

class Group::Gloo {
 public:
  c10::intrusive_ptr<GlooWithRing> backend;
  c10::intrusive_ptr<c10d::ProcessGroup> front;
};

Group::Group(const GroupOptions& options)
    : options_(options), rank_(options.rank), size_(options.size), gloo_(std::make_unique<Gloo>()) {
  ::signal(SIGPIPE, SIG_IGN);  // writing to a peer that has ended must be an error, not a signal
  const auto timeout = milliseconds(options.timeout_seconds);
  const auto store = c10::make_intrusive<c10d::FileStore>(options.store_file, options.size);
  store->setTimeout(timeout);
  auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
  gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.own_address));
  gloo->threads = 1;  // collectives run one after another
  gloo_->backend = c10::make_intrusive<GlooWithRing>(store, rank_, size_, gloo);
#if TORCH_VERSION_MAJOR == 1
  gloo_->front = gloo_->backend;
#else
  gloo_->front = make_front<c10d::ProcessGroup>(store, rank_, size_);
  gloo_->front->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                           gloo_->backend);
  gloo_->front->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::GLOO,
                           gloo_->backend);
#endif
}

Group::~Group() = default;

std::unique_ptr<Group> Group::sibling(const std::string& name) const {
  GroupOptions options = options_;
  options.store_file += "." + name;
  return std::make_unique<Group>(options);
}

Pending Group::all_reduce_async(at::Tensor tensor) {
  const Staged staged = stage(tensor, true);
  std::vector<at::Tensor> tensors{staged.host};
  return {gloo_->backend->allreduce(tensors), {staged}};
}

Pending Group::broadcast_async(at::Tensor tensor, int root) {
  const Staged staged = stage(tensor, rank_ != root);
  std::vector<at::Tensor> tensors{staged.host};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return {gloo_->backend->broadcast(tensors, options), {staged}};
}

Pending Group::all_gather_async(at::Tensor output, at::Tensor input) {
  const Staged to = stage_output(output), from = stage(input, false);
  std::vector<std::vector<at::Tensor>> parts{to.host.view({-1}).chunk(size_)};
  std::vector<at::Tensor> inputs{from.host.view({-1})};
  return {gloo_->backend->allgather(parts, inputs), {to, from}};
}

Pending Group::reduce_scatter_async(at::Tensor output, at::Tensor input) {
  TORCH_CHECK(input.numel() == size_ * output.numel(), "reduce_scatter: ", input.numel(),
              " elements do not make ", size_, " parts of ", output.numel());
  Staged to = stage_output(output), from = stage(input, false);
#if TORCH_VERSION_MAJOR == 1
  return {gloo_->backend->ring_reduce_scatter(to.host, from.host), {to, from}};
#else
  return {gloo_->backend->_reduce_scatter_base(to.host, from.host), {to, from}};
#endif
}

Pending Group::send_async(at::Tensor tensor, int to, int tag) {
  const Staged staged = stage(tensor, false);
  std::vector<at::Tensor> tensors{staged.host};
  return {gloo_->backend->send(tensors, to, tag), {staged}};
}

Pending Group::recv_async(at::Tensor tensor, int from, int tag) {
  const Staged staged = stage_output(tensor);
  std::vector<at::Tensor> tensors{staged.host};
  return {gloo_->backend->recv(tensors, from, tag), {staged}};
}

int Group::recv_any(at::Tensor tensor, int tag) {
  const Staged staged = stage_output(tensor);
  std::vector<at::Tensor> tensors{staged.host};
  const auto work = gloo_->backend->recvAnysource(tensors, tag);
  work->wait();
  if (staged.comes_back) staged.tensor.copy_(staged.host);
  return work->sourceRank();
}

void Group::barrier() {
  gloo_->backend->barrier()->wait();
}

c10::intrusive_ptr<c10d::ProcessGroup> Group::process_group() const {
  return gloo_->front;
}

}  // namespace lockstep
