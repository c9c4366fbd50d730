// Measures tensor memory: live bytes, their peak, and bytes reserved from the device (only for
// caching allocators). On a GPU the meter counts all blocks that LibTorch's allocator holds for
// this process. On a CPU it counts blocks that are allocated while it exists, on the thread that
// made it and on the threads of this thread's backward passes, until any thread frees them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

struct TensorMemory {
  std::int64_t live = 0;      // bytes
  std::int64_t peak = 0;      // largest `live` since the meter began or reset_peak()
  std::int64_t reserved = 0;  // peak of bytes the caching allocator holds; 0 on CPUs
  // Largest block that was both allocated and freed since the meter began or reset_passing(), which
  // is the temporary memory of a library; 0 on CPUs.
  std::int64_t passing = 0;
};

class MemoryMeter {
 public:
  explicit MemoryMeter(const std::string& device = "cpu");  // "cpu", "cuda:0"
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  TensorMemory read() const;
  void reset_peak();  // sets the peak to the present live bytes
  void reset_passing();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
