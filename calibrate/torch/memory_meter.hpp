// Tensor memory: live bytes, their peak, and bytes reserved from the device (caching allocators
// only). On a CPU the meter counts blocks that are allocated, while the meter exists, on the thread
// that made it and on the threads that run its backward passes, until they are freed on any thread;
// on a GPU all blocks that LibTorch's allocator holds for this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

struct TensorMemory {
  std::int64_t live = 0;      // bytes
  std::int64_t peak = 0;      // largest `live` since the meter began or reset_peak()
  std::int64_t reserved = 0;  // peak of bytes the caching allocator holds; 0 on CPUs
  // Largest block that was allocated and freed since the meter began or reset_passing(): temporary
  // memory of a library; 0 on CPUs.
  std::int64_t passing = 0;
};

class MemoryMeter {
 public:
  explicit MemoryMeter(const std::string& device = "cpu");  // "cpu", "cuda:0"
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  TensorMemory read() const;
  void reset_peak();  // the peak starts again from the bytes that are live now
  void reset_passing();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
