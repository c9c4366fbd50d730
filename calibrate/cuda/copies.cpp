// Probes copies between host and device, copies within the device, and streaming through its
// memory. sweeps.hpp has the sizes.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "cuda/handles.hpp"
#include "cuda/kernels.hpp"
#include "cuda/sweeps.hpp"

namespace lockstep::cuda {

namespace {

// Host memory, pinned or pageable. The constructor writes to the whole memory, so that no page
// fault is timed.
class HostBuffer {
 public:
  HostBuffer(std::size_t bytes, bool pinned) : pinned_(pinned) {
    if (pinned) {
      LOCKSTEP_CUDA(cudaMallocHost(&data_, bytes));
    } else {
      pageable_ = std::make_unique<char[]>(bytes);
      data_ = pageable_.get();
    }
    std::fill_n(static_cast<char*>(data_), bytes, char{1});
  }
  ~HostBuffer() {
    if (pinned_) cudaFreeHost(data_);
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() const { return data_; }

 private:
  bool pinned_;
  std::unique_ptr<char[]> pageable_;
  void* data_ = nullptr;
};

bool is_pinned(CopyKind kind) {
  return kind == CopyKind::h2d_pinned || kind == CopyKind::d2h_pinned;
}
bool to_device(CopyKind kind) {
  return kind == CopyKind::h2d_pinned || kind == CopyKind::h2d_pageable;
}

Figure host_copy(const ProbeOptions& options, const Stream& stream, CopyKind kind,
                 std::size_t bytes) {
  const HostBuffer host(bytes, is_pinned(kind));
  const DeviceBuffer device(bytes);
  const auto copy = [&](int) {
    if (to_device(kind)) {
      LOCKSTEP_CUDA(
          cudaMemcpyAsync(device.at(0), host.data(), bytes, cudaMemcpyHostToDevice, stream.handle));
    } else {
      LOCKSTEP_CUDA(
          cudaMemcpyAsync(host.data(), device.at(0), bytes, cudaMemcpyDeviceToHost, stream.handle));
    }
  };
  if (is_pinned(kind)) return measure_launches(options, stream, copy);
  // Pageable copies pass through a staging buffer while the call waits, so the host's clock
  // measures them.
  copy(0);
  stream.wait();
  return measure(options, [&] {
    const auto start = std::chrono::steady_clock::now();
    copy(0);
    stream.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  });
}

Figure device_copy(const ProbeOptions& options, const Stream& stream, CopyKind kind,
                   std::size_t bytes, double l2_bytes) {
  const bool two = kind == CopyKind::d2d || kind == CopyKind::stream_copy;
  const std::size_t set = (two ? 2 : 1) * aligned(bytes);
  const int sets = operand_sets(static_cast<double>(set), l2_bytes, 4096);
  const DeviceBuffer memory(static_cast<std::size_t>(sets) * set);
  const DeviceBuffer sink(sizeof(float));
  LOCKSTEP_CUDA(cudaMemset(memory.at(0), 0, memory.bytes()));
  return measure_launches(options, stream, [&](int i) {
    void* from = memory.at(static_cast<std::size_t>(i % sets) * set);
    void* to = two ? static_cast<char*>(from) + aligned(bytes) : nullptr;
    if (kind == CopyKind::d2d)
      LOCKSTEP_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.handle));
    if (kind == CopyKind::stream_copy) launch_copy(stream.handle, to, from, bytes);
    if (kind == CopyKind::stream_read)
      launch_read(stream.handle, from, bytes, static_cast<float*>(sink.at(0)));
    if (kind == CopyKind::stream_write) launch_write(stream.handle, from, bytes);
  });
}

}  // namespace

void probe_copies(const ProbeOptions& options, Measurements& out) {
  LOCKSTEP_CUDA(cudaSetDevice(options.device));
  const double l2_bytes = device_info(options.device).l2_bytes;
  const Stream stream;
  for (const CopyKind kind :
       {CopyKind::h2d_pinned, CopyKind::h2d_pageable, CopyKind::d2h_pinned, CopyKind::d2h_pageable,
        CopyKind::d2d, CopyKind::stream_copy, CopyKind::stream_read, CopyKind::stream_write}) {
    const bool host = kind <= CopyKind::d2h_pageable;
    const bool both_ways = kind == CopyKind::d2d || kind == CopyKind::stream_copy;
    for (const double size : copy_sizes(options.quick)) {
      const std::string what = fmt::format("copy {} {:.0f} B", enum_name(kind), size);
      options.progress(what);
      unless_not_possible(options, what, [&] {
        const auto bytes = static_cast<std::size_t>(size);
        CopyRow row{kind, size, {}, 0};
        row.time = host ? host_copy(options, stream, kind, bytes)
                        : device_copy(options, stream, kind, bytes, l2_bytes);
        row.bytes_per_second = (both_ways ? 2 : 1) * size / row.time.seconds;
        out.copies.push_back(row);
      });
    }
  }
}

}  // namespace lockstep::cuda
