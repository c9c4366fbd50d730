// Rank 0 is a manager that distributes row numbers on request; all ranks simulate and send rows
// back. Messages are two-sided only: a shared counter with one-sided operations fails on one rank
// and is unfair on many (Open MPI 4.1.4).
//
//     rank n                         rank 0
//     tag_want: "about 40 points" -> take them from the queue
//               row numbers       <- tag_give (none = nothing is left)
//     tag_rows: finished rows     -> append to the file
#include "sweep/mpi.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "core/output.hpp"
#include "points/pool_worker.hpp"

namespace lockstep {

namespace {

constexpr int tag_want = 1;             // to rank 0: a number of points
constexpr int tag_give = 2;             // from rank 0: row numbers; none = no point is left
constexpr int tag_rows = 3;             // to rank 0: finished rows, as pack() writes them
constexpr double tick = 0.005;          // seconds between two checks for messages
constexpr double supply_seconds = 0.5;  // seconds of work that a rank requests in one message
constexpr double between_syncs = 1;     // seconds

// Appends a row to a bundle: number, size, text.
void pack(std::string& bundle, std::uint64_t number, const std::string& row) {
  const std::uint64_t head[] = {number, row.size()};
  bundle.append(reinterpret_cast<const char*>(head), sizeof head);
  bundle += row;
}
// Calls use(number, row) for each row of a bundle.
template <class Use>
void unpack(const std::string& bundle, Use&& use) {
  for (std::size_t at = 0; at < bundle.size();) {
    std::uint64_t head[2];
    std::memcpy(head, bundle.data() + at, sizeof head);
    at += sizeof head;
    use(static_cast<std::size_t>(head[0]), bundle.substr(at, head[1]));
    at += head[1];
  }
}

// Estimates, from the rate of answers so far, how many points last for supply_seconds.
class Supply {
 public:
  void answered(std::size_t count) { answered_ += count; }
  std::size_t wanted() const {
    const double rate = static_cast<double>(answered_) / (steady_seconds() - began_);
    return 8 + static_cast<std::size_t>(supply_seconds * rate);
  }

 private:
  double began_ = steady_seconds();
  std::size_t answered_ = 0;
};

// Whether a message with this tag has arrived; `status` then describes it.
bool waits(int tag, MPI_Status& status) {
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, &status);
  return flag != 0;
}

// Receives the message that `status` describes.
template <class Vector>
Vector receive(const MPI_Status& status) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  Vector data;
  data.resize(static_cast<std::size_t>(bytes) / sizeof data[0]);
  MPI_Recv(data.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
  return data;
}

// Sends a vector or text as bytes.
template <class Vector>
void send(const Vector& data, int to, int tag) {
  MPI_Send(data.data(), static_cast<int>(data.size() * sizeof data[0]), MPI_BYTE, to, tag,
           MPI_COMM_WORLD);
}

using Numbers = std::vector<std::uint64_t>;

// The loop of every rank except 0: requests points, simulates them, sends rows.
void work_for_others(const SweepPlan& plan, Pool& pool) {
  Supply supply;
  bool asked = false, more = true;
  while (more || pool.unanswered() > 0) {
    if (more && !asked && pool.waiting() == 0) {
      send(Numbers{supply.wanted()}, 0, tag_want);
      asked = true;
    }
    std::string bundle;
    for (const PoolResult& result : pool.collect(tick)) {
      pack(bundle, result.index, row_of(plan, result));
      supply.answered(1);
    }
    if (!bundle.empty()) send(bundle, 0, tag_rows);
    MPI_Status status;
    if (!waits(tag_give, status)) continue;
    const auto numbers = receive<Numbers>(status);
    pool.add({numbers.begin(), numbers.end()});
    more = !numbers.empty();
    asked = false;
  }
}

// The loop of rank 0: simulates, distributes points, stores rows.
class Manager {
 public:
  Manager(const MpiSession& session, const SweepPlan& plan, RowsFile& rows,
          const SweepOptions& options)
      : plan_(plan), rows_(rows), options_(options), others_(session.ranks() - 1) {
    for (const std::size_t number : rows.missing()) todo_.push_back(number);
    left_ = todo_.size();
  }

  // Ends when all rows are stored and every other rank has received the message that no point is
  // left.
  void run(Pool& pool) {
    const std::size_t all = rows_.size(), before = all - left_;
    Supply supply;
    double synced = steady_seconds();
    while (left_ > 0 || others_ > 0) {
      if (pool.waiting() == 0 && !todo_.empty()) {
        const Numbers own_numbers = take(supply.wanted());
        pool.add({own_numbers.begin(), own_numbers.end()});
      }
      for (const PoolResult& result : pool.collect(tick)) {
        keep(result.index, row_of(plan_, result));
        supply.answered(1);
      }
      hear();
      if (options_.progress) options_.progress(all - left_, all, before);
      if (steady_seconds() - synced > between_syncs) {
        rows_.sync();
        synced = steady_seconds();
      }
      if (options_.stop == nullptr || !*options_.stop) continue;
      rows_.sync();
      print_error("stopped after {} of {} points\n", all - left_, all);
      MPI_Abort(MPI_COMM_WORLD, 130);
    }
  }

 private:
  // Takes up to `wanted` points from the queue, and fewer near the end, so that all ranks end
  // together.
  Numbers take(std::size_t wanted) {
    const std::size_t share = todo_.size() / (2 * static_cast<std::size_t>(others_ + 1));
    const auto end = todo_.begin() + static_cast<std::ptrdiff_t>(std::min(
                                         todo_.size(), std::clamp<std::size_t>(share, 1, wanted)));
    Numbers taken(todo_.begin(), end);
    todo_.erase(todo_.begin(), end);
    return taken;
  }
  // Stores a finished row.
  void keep(std::size_t number, const std::string& row) {
    rows_.append(number, row);
    --left_;
  }
  // Handles all messages that have arrived.
  void hear() {
    MPI_Status status;
    while (waits(tag_rows, status)) {
      unpack(receive<std::string>(status),
             [&](std::size_t number, const std::string& row) { keep(number, row); });
    }
    while (waits(tag_want, status)) {
      const Numbers numbers = take(static_cast<std::size_t>(receive<Numbers>(status).front()));
      send(numbers, status.MPI_SOURCE, tag_give);
      if (numbers.empty()) --others_;
    }
  }

  const SweepPlan& plan_;
  RowsFile& rows_;
  const SweepOptions& options_;
  std::deque<std::uint64_t> todo_;
  std::size_t left_ = 0;  // rows that are still missing
  int others_;            // ranks that may still ask for points
};

// Compares the sweep's digest on all ranks, because each rank has read its own command line and its
// own copy of the scenario. Throws ConfigError on all ranks if one digest differs.
void check_same_sweep(const SweepPlan& plan) {
  std::string first = plan.digest;
  first.resize(80, ' ');
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  first.resize(first.find_last_not_of(' ') + 1);
  int same = first == plan.digest ? 1 : 0, all_same = 0;
  MPI_Allreduce(&same, &all_same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (all_same == 0) {
    throw file_error("", "sweep", "the ranks were told different sweeps",
                     "give all processes the same scenario file and options");
  }
}

}  // namespace

MpiSession::MpiSession() {
  MPI_Init(nullptr, nullptr);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

void run_sweep_on_ranks(const MpiSession& session, const SweepPlan& plan, const InputFiles& files,
                        RowsFile* rows, const SweepOptions& options) {
  check_same_sweep(plan);
  PoolOptions pool_of = pool_options(options);
  if (options.workers == 0) pool_of.workers = 1;  // launchers start one rank per core
  Pool pool(pool_of, row_maker(plan, files));
  if (rows == nullptr) {
    work_for_others(plan, pool);
  } else {
    Manager(session, plan, *rows, options).run(pool);
  }
}

}  // namespace lockstep
