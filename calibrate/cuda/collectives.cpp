// Measures NCCL collectives over all visible devices in one process, and checks their results. With
// one device the communicator has a single rank, and NCCL only launches and copies (fact 117),
// because NCCL before 2.30 refuses two ranks on one device (facts 114, 115). Without NCCL the probe
// measures nothing.
#include "cuda/handles.hpp"
#ifdef LOCKSTEP_HAVE_NCCL
#include <fmt/format.h>
#include <nccl.h>

#include <chrono>
#include <memory>

#include "cuda/sweeps.hpp"
#endif

namespace lockstep::cuda {

#ifdef LOCKSTEP_HAVE_NCCL

namespace {

void check_nccl(ncclResult_t status, const char* call, int line) {
  if (status != ncclSuccess) fail(call, __FILE__, line, ncclGetErrorString(status));
}
#define LOCKSTEP_NCCL(call) check_nccl((call), #call, __LINE__)

struct Rank {
  Rank(int device_index, std::size_t bytes) : device(device_index) {
    LOCKSTEP_CUDA(cudaSetDevice(device));
    stream = std::make_unique<Stream>();
    send = std::make_unique<DeviceBuffer>(bytes);
    receive = std::make_unique<DeviceBuffer>(bytes);
  }
  int device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<DeviceBuffer> send, receive;
};

class Group {
 public:
  Group(int ranks, std::size_t bytes) : communicators_(static_cast<std::size_t>(ranks), nullptr) {
    std::vector<int> devices;
    for (int i = 0; i < ranks; ++i) {
      devices.push_back(i);
      ranks_.push_back(std::make_unique<Rank>(i, bytes));
    }
    LOCKSTEP_NCCL(ncclCommInitAll(communicators_.data(), ranks, devices.data()));
  }
  ~Group() {
    for (const ncclComm_t communicator : communicators_)
      if (communicator) ncclCommDestroy(communicator);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  Rank& rank(int i) const { return *ranks_[static_cast<std::size_t>(i)]; }
  ncclComm_t communicator(int i) const { return communicators_[static_cast<std::size_t>(i)]; }
  void wait() const {
    for (const auto& rank : ranks_) rank->stream->wait();
  }

 private:
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<ncclComm_t> communicators_;
};

// Issues one collective of `count` float elements. If every rank has a part, `count` includes all
// parts, while nccl-tests counts one part.
void issue(const Group& group, Collective collective, std::size_t count, bool in_place) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::size_t part = count / ranks;
  LOCKSTEP_NCCL(ncclGroupStart());
  for (int i = 0; i < group.size(); ++i) {
    const Rank& rank = group.rank(i);
    const ncclComm_t c = group.communicator(i);
    auto* receive = static_cast<float*>(rank.receive->at(0));
    auto* send = in_place ? receive : static_cast<float*>(rank.send->at(0));
    const std::size_t own = static_cast<std::size_t>(i) * part;
    const cudaStream_t s = rank.stream->handle;
    switch (collective) {
      case Collective::all_reduce:
        LOCKSTEP_NCCL(ncclAllReduce(send, receive, count, ncclFloat, ncclSum, c, s));
        break;
      case Collective::all_gather:
        LOCKSTEP_NCCL(ncclAllGather(in_place ? send + own : send, receive, part, ncclFloat, c, s));
        break;
      case Collective::reduce_scatter:
        LOCKSTEP_NCCL(ncclReduceScatter(send, in_place ? receive + own : receive, part, ncclFloat,
                                        ncclSum, c, s));
        break;
      case Collective::broadcast:
        LOCKSTEP_NCCL(ncclBroadcast(send, receive, count, ncclFloat, 0, c, s));
        break;
      default:  // send_recv: sends to the right neighbour, receives from the left one
        LOCKSTEP_NCCL(ncclSend(send, count, ncclFloat, (i + 1) % group.size(), c, s));
        LOCKSTEP_NCCL(
            ncclRecv(receive, count, ncclFloat, (i + group.size() - 1) % group.size(), c, s));
    }
  }
  LOCKSTEP_NCCL(ncclGroupEnd());
}

// The contribution of rank i at element e: small integers, so that sums are exact.
float contribution(int rank, std::size_t element) {
  return static_cast<float>(rank + 1) + static_cast<float>(element % 7);
}

// Runs the collective once on known data, and counts wrong elements.
std::int64_t wrong_elements(const Group& group, Collective collective, std::size_t count,
                            bool in_place) {
  const int ranks = group.size();
  const std::size_t part = count / static_cast<std::size_t>(ranks);
  const bool gathers = collective == Collective::all_gather;
  std::vector<float> host(count);
  for (int i = 0; i < ranks; ++i) {
    const Rank& rank = group.rank(i);
    LOCKSTEP_CUDA(cudaSetDevice(rank.device));
    for (std::size_t e = 0; e < count; ++e) host[e] = contribution(i, e);
    const DeviceBuffer& to = in_place ? *rank.receive : *rank.send;
    // all_gather sends a part. In place, the part lies at the rank's place in the result; otherwise
    // at the beginning of the buffer.
    const std::size_t offset = gathers && in_place ? static_cast<std::size_t>(i) * part : 0;
    const std::size_t length = gathers ? part : count;
    LOCKSTEP_CUDA(cudaMemcpy(to.at(offset * 4), host.data(), length * 4, cudaMemcpyHostToDevice));
    // cudaMemcpy from pageable memory may return before the data has arrived, and the ranks'
    // streams do not wait for the default one.
    LOCKSTEP_CUDA(cudaDeviceSynchronize());
  }
  issue(group, collective, count, in_place);
  group.wait();
  std::int64_t wrong = 0;
  for (int i = 0; i < ranks; ++i) {
    const Rank& rank = group.rank(i);
    const bool scattered = collective == Collective::reduce_scatter;
    const std::size_t own = static_cast<std::size_t>(i) * part;
    LOCKSTEP_CUDA(cudaMemcpy(host.data(), rank.receive->at(scattered && in_place ? own * 4 : 0),
                             (scattered ? part : count) * 4, cudaMemcpyDeviceToHost));
    for (std::size_t e = 0; e < (scattered ? part : count); ++e) {
      float expected = 0;
      if (gathers) {
        expected = contribution(static_cast<int>(e / part), e % part);
      } else if (collective == Collective::broadcast) {
        expected = contribution(0, e);
      } else if (collective == Collective::send_recv) {
        expected = contribution((i + ranks - 1) % ranks, e);
      } else {
        for (int r = 0; r < ranks; ++r) expected += contribution(r, scattered ? own + e : e);
      }
      wrong += host[e] != expected;
    }
  }
  return wrong;
}

Figure timing(const ProbeOptions& options, const Group& group, Collective collective,
              std::size_t count, bool in_place) {
  const auto run = [&](int repeats) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) issue(group, collective, count, in_place);
    group.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
           repeats;
  };
  run(3);
  const int repeats = launches_per_sample(run(5), 2e-3, 50);
  return measure(options, [&] { return run(repeats); });
}

}  // namespace

void probe_collectives(const ProbeOptions& options, Measurements& out) {
  const int ranks = availability().devices;
  const std::vector<double> wanted = collective_sizes(options.quick);
  const auto free_now = [&] {
    std::size_t free = 0, total = 0;
    LOCKSTEP_CUDA(cudaSetDevice(options.device));
    LOCKSTEP_CUDA(cudaMemGetInfo(&free, &total));
    return static_cast<double>(free);
  };
  const auto largest = static_cast<std::size_t>(wanted.back());
  const double before = free_now();
  const Group group(ranks, largest);
  // The buffers do not count as memory of the communicator.
  out.memory.nccl_communicator_bytes =
      std::max(0.0, before - free_now() - 2 * static_cast<double>(largest));
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::broadcast, Collective::send_recv}) {
    for (const double size : wanted) {
      // Every rank's part must be a whole number of floats.
      const auto per_rank = static_cast<std::size_t>(size) / 4 / static_cast<std::size_t>(ranks);
      const std::size_t count = per_rank * static_cast<std::size_t>(ranks);
      if (count == 0) continue;
      options.progress(fmt::format("{} {:.0f} B, {} {}", enum_name(collective), size, ranks,
                                   ranks == 1 ? "rank: launch and copy only" : "ranks"));
      CollectiveTiming row;
      row.collective = collective;
      row.ranks = ranks;
      row.bytes = static_cast<double>(count) * 4;
      row.out_of_place = timing(options, group, collective, count, false);
      row.wrong_out_of_place = wrong_elements(group, collective, count, false);
      // A message to a neighbour cannot be in place.
      if (collective != Collective::send_recv) {
        row.in_place = timing(options, group, collective, count, true);
        row.wrong_in_place = wrong_elements(group, collective, count, true);
      }
      out.collectives.push_back(row);
    }
  }
}

#else

void probe_collectives(const ProbeOptions& options, Measurements&) {
  options.progress("collectives left out: built without NCCL");
}

#endif

}  // namespace lockstep::cuda
