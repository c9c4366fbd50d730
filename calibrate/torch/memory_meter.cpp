// Measures tensor memory by the reports of LibTorch's allocators on GPUs, and by an allocator of
// our own on CPUs. LibTorch passes the meter of a thread to the threads that run its backward
// passes.
#include "torch/memory_meter.hpp"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace lockstep {

namespace {

#if TORCH_VERSION_MAJOR >= 2
using Total = std::size_t;
#else
using Total = std::int64_t;
#endif

// Counts the bytes of one meter. LibTorch passes the object from a thread to the threads that run
// its backward passes.
class Reporter final : public c10::MemoryReportingInfoBase,
                       public std::enable_shared_from_this<Reporter> {
 public:
  explicit Reporter(c10::Device device) : device_(device) {}
  bool counts_cpu() const { return device_.is_cpu(); }

  // LibTorch's allocators call the next two functions. Allocators of GPUs report their total, which
  // includes frees by other threads. Allocators of CPUs report no total, so CountingAllocator
  // counts their blocks.
  bool memoryProfilingEnabled() const override { return !counts_cpu(); }
  void reportMemoryUsage(void* block, std::int64_t bytes, Total allocated, Total reserved,
                         c10::Device device) override {
    if (device.is_cpu() || device.type() != device_.type()) return;
    const std::lock_guard lock(mutex_);
    if (bytes > 0) {
      fresh_[block] = bytes;
    } else if (const auto came = fresh_.find(block); came != fresh_.end()) {
      memory_.passing = std::max(memory_.passing, came->second);
      fresh_.erase(came);
    }
    set_live(static_cast<std::int64_t>(allocated));
    memory_.reserved = std::max(memory_.reserved, static_cast<std::int64_t>(reserved));
  }

  void change(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    set_live(memory_.live + bytes);
  }
  TensorMemory read() const {
    const std::lock_guard lock(mutex_);
    return memory_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    memory_.peak = memory_.live;
  }
  void reset_passing() {
    const std::lock_guard lock(mutex_);
    memory_.passing = 0;
    fresh_.clear();
  }

 private:
  void set_live(std::int64_t bytes) {
    memory_.live = bytes;
    memory_.peak = std::max(memory_.peak, bytes);
  }

  c10::Device device_;
  mutable std::mutex mutex_;
  TensorMemory memory_;
  // On GPUs: blocks allocated since reset_passing().
  std::unordered_map<void*, std::int64_t> fresh_;
};

std::shared_ptr<Reporter> reporter_of_this_thread() {
  auto* info = c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE);
  auto* reporter = dynamic_cast<Reporter*>(info);
  if (reporter == nullptr || !reporter->counts_cpu()) return nullptr;
  return reporter->shared_from_this();
}

// LibTorch's allocator for CPUs. It also records every block that a metered thread allocates until
// any thread frees it. Gloo's threads sometimes release the last reference to a tensor, and
// LibTorch's reports from these threads reach no meter.
class CountingAllocator final : public c10::Allocator {
 public:
  // allocate() is const up to LibTorch 2.2 and not later, and copy_data() exists only in newer
  // releases. Functions that this release declares as virtual are overrides here; the others are
  // never called.
  c10::DataPtr allocate(std::size_t bytes) const { return counted(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return counted(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }

  static CountingAllocator& only() {
    static auto* allocator = new CountingAllocator;  // tensors may be freed after static objects
    return *allocator;
  }

 private:
  struct Block {
    std::shared_ptr<Reporter> reporter;
    std::int64_t bytes = 0;
  };

  c10::DataPtr counted(std::size_t bytes) const {
    void* block = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    if (block != nullptr) {
      if (auto reporter = reporter_of_this_thread()) {
        reporter->change(static_cast<std::int64_t>(bytes));
        const std::lock_guard lock(mutex_);
        blocks_[block] = {std::move(reporter), static_cast<std::int64_t>(bytes)};
      }
    }
    return {block, block, &free, c10::Device(c10::DeviceType::CPU)};
  }

  static void free(void* block) {
    only().forget(block);
    c10::GetDefaultCPUAllocator()->raw_deallocate(block);
  }
  void forget(void* block) {
    Block noted;
    {
      const std::lock_guard lock(mutex_);
      const auto found = blocks_.find(block);
      if (found == blocks_.end()) return;
      noted = std::move(found->second);
      blocks_.erase(found);
    }
    noted.reporter->change(-noted.bytes);
  }

  mutable std::mutex mutex_;
  mutable std::unordered_map<void*, Block> blocks_;
};

}  // namespace

struct MemoryMeter::State {
  explicit State(c10::Device device) : reporter(std::make_shared<Reporter>(device)) {
    if (device.is_cpu()) c10::SetCPUAllocator(&CountingAllocator::only(), 1);
  }
  std::shared_ptr<Reporter> reporter;
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, reporter};
};

MemoryMeter::MemoryMeter(const std::string& device)
    : state_(std::make_unique<State>(c10::Device(device))) {}
MemoryMeter::~MemoryMeter() = default;
TensorMemory MemoryMeter::read() const {
  return state_->reporter->read();
}
void MemoryMeter::reset_peak() {
  state_->reporter->reset_peak();
}
void MemoryMeter::reset_passing() {
  state_->reporter->reset_passing();
}

}  // namespace lockstep
