#include "torch/memory_meter.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include <algorithm>
#include <mutex>

namespace lockstep {

namespace {

#if TORCH_VERSION_MAJOR >= 2
using Total = std::size_t;
#else
using Total = std::int64_t;
#endif

class Reporter final : public c10::MemoryReportingInfoBase {
 public:
  explicit Reporter(c10::DeviceType type) : type_(type) {}
  bool memoryProfilingEnabled() const override { return true; }
  void reportMemoryUsage(void*, std::int64_t change, Total, Total reserved,
                         c10::Device device) override {
    if (device.type() != type_) return;
    const std::lock_guard lock(mutex_);
    memory_.live += change;
    memory_.peak = std::max(memory_.peak, memory_.live);
    memory_.reserved = std::max(memory_.reserved, static_cast<std::int64_t>(reserved));
  }
  TensorMemory read() const {
    const std::lock_guard lock(mutex_);
    return memory_;
  }
  void reset_peak() {
    const std::lock_guard lock(mutex_);
    memory_.peak = memory_.live;
  }

 private:
  c10::DeviceType type_;
  mutable std::mutex mutex_;
  TensorMemory memory_;
};

}  // namespace

struct MemoryMeter::State {
  explicit State(c10::DeviceType type) : reporter(std::make_shared<Reporter>(type)) {}
  std::shared_ptr<Reporter> reporter;
  c10::DebugInfoGuard guard{c10::DebugInfoKind::PROFILER_STATE, reporter};
};

MemoryMeter::MemoryMeter(const std::string& device)
    : state_(std::make_unique<State>(c10::Device(device).type())) {}
MemoryMeter::~MemoryMeter() = default;
TensorMemory MemoryMeter::read() const {
  return state_->reporter->read();
}
void MemoryMeter::reset_peak() {
  state_->reporter->reset_peak();
}

}  // namespace lockstep
