// Computes the costs of the host's update as bytes / bandwidth: passes over host memory, NVMe reads
// and writes, copies to the device. Numbers in brackets are facts of docs/facts-meshes.md.
#include "strategies/common/offload.hpp"

#include <algorithm>
#include <cmath>

#include "core/errors.hpp"
#include "workload/precision.hpp"

namespace lockstep {

namespace {

// Bytes of the fp32 master copy of a parameter; 0 if the precision has none. Computed as the state
// of plain SGD, which has no other state than the master copy.
double master_bytes(Precision precision) {
  return optimizer_state_bytes(OptimizerSpec{}, precision);
}

// The optimizer as the host's code executes it: in one pass, or in one pass for each operation.
OptimizerSpec on_host(OptimizerSpec optimizer, HostUpdateCode code) {
  optimizer.implementation = code == HostUpdateCode::fused ? OptimizerImplementation::fused
                                                           : OptimizerImplementation::for_loop;
  return optimizer;
}

const NvmeSpec& nvme_of(const Machine& machine) {
  if (machine.host.nvme.read_bytes_per_second > 0) return machine.host.nvme;
  throw file_error("", "offload.optimizer", "the platform says nothing about NVMe drives",
                   "`host`, or a platform with `host: {nvme: {read: 6 GB/s, write: 3 GB/s, "
                   "capacity: 4 TB}}`");
}

}  // namespace

// All ranks of the host share the drives, so the rate is divided by the number of ranks.
double nvme_seconds(const Job& job, double bytes, NvmeAccess access) {
  const NvmeSpec& nvme = nvme_of(job.machine);
  const double rate =
      access == NvmeAccess::read ? nvme.read_bytes_per_second : nvme.write_bytes_per_second;
  return bytes * ranks_per_host(job) / rate;
}

int ranks_per_host(const Job& job) {
  return std::min(job.mesh.gpus(), job.machine.gpus_per_node);
}

HostSpec reached_host(const Job& job) {
  HostSpec host = job.machine.host;
  host.memory_bandwidth *= std::min(1.0, 1.0 * ranks_per_host(job) / host.sockets);
  return host;
}

double host_stream_seconds(double bytes, const HostSpec& host) {
  // The share of the bandwidth that a stream reaches is that of host_optimizer_seconds().
  return host.memory_bandwidth > 0 ? bytes / (0.8 * host.memory_bandwidth) : 0;
}

double pinned_bytes(double bytes) {
  return bytes > 0 ? std::exp2(std::ceil(std::log2(bytes))) : 0;
}

// The last chunk is allocated as a whole.
double chunk_bytes(double elements, double element_bytes) {
  return std::ceil(elements / chunk_elements) * chunk_elements * element_bytes;
}

double gradient_bytes_on_host(const OffloadOptions& offload, Precision precision) {
  return offload.chunks ? parameter_bytes(precision) : 4;
}

namespace {

// Number of sub-groups that pass through read, update, write and copy one after the other (fact
// H115). Without `overlap`, everything is one piece.
int chunks_of(const OffloadOptions& offload, const TensorShare& share) {
  // Limits the simulated events; more chunks change a step by less than 1 %.
  constexpr double most = 256;
  if (!offload.overlap) return 1;
  const double chunks = std::ceil(share.elements / offload.sub_group);
  return static_cast<int>(
      std::clamp(chunks, 1.0, std::min(most, std::max(1.0, 1.0 * share.tensors))));
}

// The host's part of the update, if the host updates `share` of each rank.
HostUpdate offloaded_update(const Job& job, const OffloadOptions& offload, const TensorShare& share,
                            JobNetwork& network) {
  const Precision precision = job.step->precision;
  const HostSpec host = reached_host(job);
  const double of_node = share.elements * ranks_per_host(job);
  // `of_node` is the number of elements of all ranks of a node, which share the bandwidth.
  // `of_chunk` is the number of elements of one rank's chunk.
  HostUpdate update;
  update.chunks = chunks_of(offload, share);
  update.delayed = offload.delayed_update;
  update.seconds =
      host_optimizer_seconds(on_host(job.optimizer, offload.update), precision, of_node, host);
  // The host also writes the updated parameters in the device's precision [H110].
  update.seconds += host_stream_seconds(of_node * parameter_bytes(precision), host);
  if (job.gradient_clipping > 0) {
    update.seconds += host_stream_seconds(clipping_bytes(precision, of_node), host);
  }
  const double of_chunk = share.elements / update.chunks;
  if (offload.parameters == OffloadTier::device) {
    update.to_device = network.host_device_copy(of_chunk * parameter_bytes(precision));
    update.to_device.spec.name = "Memcpy HtoD (parameters)";
  }
  // With NVMe, a chunk's state and gradients are read, and its state is written back.
  if (offload.optimizer == OffloadTier::nvme) {
    const double state = of_chunk * optimizer_state_bytes(job.optimizer, precision);
    update.read = nvme_seconds(job, state + of_chunk * gradient_bytes_on_host(offload, precision),
                               NvmeAccess::read);
    update.write = nvme_seconds(job, state, NvmeAccess::write);
  }
  if (offload.parameters == OffloadTier::nvme) {
    update.write += nvme_seconds(job, of_chunk * parameter_bytes(precision), NvmeAccess::write);
  }
  return update;
}

}  // namespace

UpdateWork update_with_host(const Job& job, const OffloadOptions& offload, const TensorShare& share,
                            JobNetwork& network) {
  // A fraction of the rank's parameters. Tensors are not cut, so their number is rounded up.
  const auto part = [&](double of) {
    return TensorShare{of * share.elements, static_cast<int>(std::ceil(of * share.tensors))};
  };
  UpdateWork work;
  work.clips = job.gradient_clipping > 0;
  if (offload.fraction < 1) work.optimizer = optimizer_work(job, part(1 - offload.fraction));
  work.host = offloaded_update(job, offload, part(offload.fraction), network);
  return work;
}

PricedTransfer gradients_to_host(double bytes, JobNetwork& network) {
  PricedTransfer copy = network.host_device_copy(bytes);
  copy.spec.name = "Memcpy DtoH (gradients)";
  return copy;
}

bool delays_update(const OffloadOptions& offload, const Job& job) {
  return offload.delayed_update && offload.is_used() && !is_host(job.machine.device);
}

// `off` means that nothing is offloaded, so that every other option is idle.
void add_idle_options(IdleOptions& idle, const OffloadOptions& o, const TensorShare& updated,
                      const Job& job) {
  const OffloadOptions usual;
  const bool on_cpu = is_host(job.machine.device);
  const bool off = on_cpu || !o.is_used();
  const std::string nothing = on_cpu            ? "the ranks compute on the host"
                              : o.fraction <= 0 ? "the host updates no parameter"
                                                : "the device updates all parameters";
  idle.idle_if("offload.optimizer", o.optimizer != usual.optimizer, off, nothing);
  idle.idle_if("offload.parameters", o.parameters != usual.parameters, on_cpu, nothing);
  idle.idle_if("offload.chunks", o.chunks, on_cpu, nothing);
  idle.idle_if("offload.fraction", o.fraction != usual.fraction,
               on_cpu || o.optimizer == usual.optimizer, nothing);
  idle.idle_if("offload.update", o.update != usual.update, off || is_one_pass(job.optimizer),
               off ? nothing : "the optimizer is one pass either way");
  idle.idle_if("offload.keep_master", o.keep_master, off || master_bytes(job.step->precision) <= 0,
               off ? nothing : "the precision has no master copy");
  idle.idle_if("offload.delayed_update", o.delayed_update, off, nothing);
  const bool one_group = updated.elements * o.fraction <= o.sub_group;
  idle.idle_if("offload.overlap", o.overlap, off || one_group,
               off ? nothing : "all parameters are one sub-group");
  const bool apart = o.overlap || o.optimizer == OffloadTier::nvme;
  idle.idle_if("offload.sub_group", o.sub_group != usual.sub_group, off || one_group || !apart,
               off         ? nothing
               : one_group ? "all parameters are one sub-group"
                           : "sub-groups do not overlap");
}

double kept_master_bytes(const Job& job, const OffloadOptions& offload, double elements) {
  return offload.keep_master ? elements * master_bytes(job.step->precision) : 0;
}

// Parameters and gradients lie in pinned memory, whose size is rounded up; the optimizer's state
// does not. With NVMe, the host holds only buffers.
OffloadedMemory offloaded_memory(const Job& job, const OffloadOptions& offload, double elements) {
  const Precision precision = job.step->precision;
  const double ranks = ranks_per_host(job);
  // If parameters are on NVMe, host memory has five read buffers of 100 million elements each
  // [H115].
  OffloadedMemory memory;
  if (offload.parameters == OffloadTier::nvme) {
    constexpr double read_buffers = 5, of_elements = 1e8;
    memory.host += std::min(elements, read_buffers * of_elements) * parameter_bytes(precision);
    memory.nvme += ranks * elements * parameter_bytes(precision);
  }
  // Adds a tensor in pinned memory.
  const auto pin = [&](double bytes) {
    memory.host += pinned_bytes(bytes);
    memory.host_rounding += pinned_bytes(bytes) - bytes;
  };
  const double state = optimizer_state_bytes(job.optimizer, precision);
  // PatrickStar stores parameters and state in chunks. A gradient takes its parameter's place
  // [H120].
  if (offload.chunks) {
    const double in_chunks = chunk_bytes(elements, parameter_bytes(precision) + state);
    memory.host = ranks * in_chunks;
    memory.host_rounding = memory.host - ranks * elements * (parameter_bytes(precision) + state);
    return memory;
  }
  if (offload.parameters != OffloadTier::nvme) pin(elements * parameter_bytes(precision));
  if (offload.optimizer == OffloadTier::nvme) {
    constexpr double buffers = 4;  // each as large as a sub-group [H115]
    const double with_gradient = state + gradient_bytes_on_host(offload, precision);
    memory.host += std::min(elements, buffers * offload.sub_group) * with_gradient;
    memory.nvme += ranks * elements * with_gradient;
  } else {
    pin(elements * gradient_bytes_on_host(offload, precision));
    memory.host += elements * state;
  }
  memory.host *= ranks;
  memory.host_rounding *= ranks;
  return memory;
}

void add_offloaded(MemoryUse& use, const OffloadedMemory& memory, const Machine& machine) {
  if (memory.host > 0) {
    use.host = memory.host;
    use.host_rounding = memory.host_rounding;
    use.host_capacity = machine.host.memory_bytes;
  }
  if (memory.nvme > 0) {
    use.nvme = memory.nvme;
    use.nvme_capacity = machine.host.nvme.capacity_bytes;
  }
}

}  // namespace lockstep
