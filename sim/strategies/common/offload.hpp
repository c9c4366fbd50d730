// The cost and the memory of an offloaded optimizer (ZeRO-Offload, ZeRO-Infinity, PatrickStar,
// Megatron-LM; facts H109 to H122 of docs/facts-meshes.md). Used by the strategies with an
// `offload` option: ZeRO and FSDP. All ranks of a node share the bandwidth and the capacity of its
// host's memory and of its NVMe drives.
#pragma once

#include "costs/optimizer.hpp"
#include "strategies/common/network.hpp"
#include "strategies/common/update.hpp"
#include "strategies/offload_options.hpp"
#include "strategies/strategy.hpp"

namespace lockstep {

// Bytes of one gradient element on the host. The device casts gradients to fp32 before it copies
// them (fact H109). With `chunks`, a gradient takes the place and the precision of its parameter
// (fact H120).
double gradient_bytes_on_host(const OffloadOptions& offload, Precision precision);

// Number of the job's ranks on its fullest host.
int ranks_per_host(const Job& job);

// The part of the host that the job's ranks can use. The memory of a process lies on one socket, so
// if there are fewer ranks than sockets, they reach only a part of the bandwidth (ZeRO-Offload's
// CPU Adam on a DGX-2: fact H111).
HostSpec reached_host(const Job& job);

// Seconds in which the host's cores stream `bytes` through its memory; 0 if the bandwidth is
// unknown.
double host_stream_seconds(double bytes, const HostSpec& host);

enum class NvmeAccess { read, write };
// Seconds in which all ranks of a node read or write `bytes` each, at the same time. Throws
// ConfigError if the platform does not describe NVMe drives.
double nvme_seconds(const Job& job, double bytes, NvmeAccess access);

// The copy of `bytes` of gradients from each rank to its host.
PricedTransfer gradients_to_host(double bytes, JobNetwork& network);

// Bytes that `bytes` occupy in pinned memory: PyTorch's allocator rounds up to a power of two.
double pinned_bytes(double bytes);
// The number of elements of a chunk, and the bytes of the whole chunks that hold `elements` (fact
// H120).
inline constexpr double chunk_elements = 64e6;
double chunk_bytes(double elements, double element_bytes);

// The update of a rank's `share`. The host updates the fraction OffloadOptions::fraction, and the
// device updates the rest. Throws as nvme_seconds() does.
UpdateWork update_with_host(const Job& job, const OffloadOptions& offload, const TensorShare& share,
                            JobNetwork& network);

// Whether the host's update is applied one step late. The device's part is never late.
bool delays_update(const OffloadOptions& offload, const Job& job);

// Adds the offload options that have no effect in the job. `updated` are the parameters that one
// rank updates.
void add_idle_options(IdleOptions& idle, const OffloadOptions& offload, const TensorShare& updated,
                      const Job& job);

// Bytes of the master parameters that the device also holds, if the host updates `elements`.
double kept_master_bytes(const Job& job, const OffloadOptions& offload, double elements);

// Offloaded bytes on the fullest node, summed over its ranks.
struct OffloadedMemory {
  double host = 0;           // includes `host_rounding`
  double host_rounding = 0;  // bytes by which pinned memory exceeds the tensors in it
  double nvme = 0;
};
// The offloaded memory if the host updates `elements` parameters of each rank.
OffloadedMemory offloaded_memory(const Job& job, const OffloadOptions& offload, double elements);

// Sets the offloaded bytes and the node's capacity in `use`.
void add_offloaded(MemoryUse& use, const OffloadedMemory& memory, const Machine& machine);

}  // namespace lockstep
