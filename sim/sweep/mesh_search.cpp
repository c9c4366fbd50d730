// Branch and bound over meshes. Worker processes compute bounds of all candidates and then simulate
// candidates in ascending order of the bounds; each result may exclude further ones. At most
// most_simulated meshes are simulated for each GPU count of a platform.
#include "sweep/mesh_search.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "points/fork_map.hpp"
#include "sweep/candidates.hpp"
#include "sweep/mesh_bounds.hpp"

namespace lockstep {

namespace {

using Json = nlohmann::json;

constexpr const char* mesh_too_slow =
    "a mesh that cannot be 1 % faster than the best on as many GPUs";
// Share of the time; predictions of two meshes cannot distinguish a smaller gain.
constexpr double negligible_gain = 0.01;
constexpr const char* mesh_too_full = "a mesh that needs more memory for certain than the least";
constexpr double most_silent_seconds = 600;  // silence after which a process is killed
// Simulations for each platform and GPU count: somewhat more than the search for any known best
// mesh has needed.
constexpr int most_simulated = 24;
constexpr const char* mesh_too_far =
    "a mesh that is not among the 24 whose bounds promise most on as many GPUs";

// Whether two candidates compute the same micro-batch, that is, differ only in the pipeline. Such
// neighbours in the list form one piece of work and share the computed step.
bool same_layers(const Candidate& a, const Candidate& b) {
  const ParallelOptions &p = a.parallel, &q = b.parallel;
  return a.base == b.base && a.gpus == b.gpus && p.tensor.size == q.tensor.size &&
         p.context.size == q.context.size && p.expert.size == q.expert.size;
}

// Computes bounds of all candidates in worker processes; the result has the order of `meshes`.
std::vector<MeshBound> bounds_of(const InputFiles& files, const std::vector<Candidate>& meshes,
                                 const RunOptions& run) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    if (i == 0 || !same_layers(meshes[i - 1], meshes[i])) begins.push_back(i);
  }
  begins.push_back(meshes.size());
  const auto bounds = std::make_shared<MeshBounds>(files);
  const auto work = [&, bounds](std::size_t piece, const Report&) -> PoolAnswer {
    Json list = Json::array();
    for (std::size_t i = begins[piece]; i < begins[piece + 1]; ++i) {
      MeshBound bound;
      try {
        bound = bounds->of(scenario_of(meshes[i]));
      } catch (const ConfigError& error) {
        bound.refused = error.diagnostics().front().message;
      }
      list.push_back({bound.total, bound.bytes, bound.dollars, bound.capacity, bound.refused});
    }
    return {list.dump(-1, ' ', false, Json::error_handler_t::replace)};
  };
  std::vector<MeshBound> all(meshes.size());
  const ForkOptions fork{.workers = workers_of(run), .most_silence = most_silent_seconds};
  const auto results = fork_map(begins.size() - 1, fork, work);
  for (std::size_t piece = 0; piece + 1 < begins.size(); ++piece) {
    Json list;
    if (results[piece].ok) list = Json::parse(results[piece].output);
    for (std::size_t i = begins[piece]; i < begins[piece + 1]; ++i) {
      MeshBound& bound = all[i];
      if (!results[piece].ok) bound.refused = results[piece].output;
      if (!results[piece].ok) continue;
      const Json& j = list[i - begins[piece]];
      bound = {j[0], j[1], j[2], j[3], j[4]};
    }
  }
  return all;
}

// The best result so far for each platform and GPU count, in seconds, or in bytes with
// RankBy::memory.
class Best {
 public:
  explicit Best(bool by_memory) : by_memory_(by_memory) {}

  double of(const Verdict& verdict) const { return by_memory_ ? verdict.device : verdict.total; }
  double of(const MeshBound& bound) const { return by_memory_ ? bound.bytes : bound.total; }
  // Takes a judged candidate into account if it meets the limits.
  void hear(const Candidate& candidate, const Judgement& judged, const RecommendOptions& options) {
    if (!judged.verdict) return;
    const Verdict& v = *judged.verdict;
    if (options.deadline > 0 && v.total > options.deadline) return;
    if (options.budget > 0 && v.dollars > options.budget) return;
    const auto [best, is_new] = best_.try_emplace({candidate.platform, candidate.gpus}, of(v));
    if (!is_new) best->second = std::min(best->second, of(v));
  }
  // Whether the bound shows that the candidate cannot beat the best result by a relevant gain.
  bool is_worse(const Candidate& candidate, const MeshBound& bound) const {
    const auto best = best_.find({candidate.platform, candidate.gpus});
    if (best == best_.end()) return false;
    return of(bound) > (by_memory_ ? 1 : 1 - negligible_gain) * best->second;
  }

 private:
  bool by_memory_;
  std::map<std::pair<std::string, int>, double> best_;
};

// The reason why a bound excludes a candidate without a comparison; "" if it does not.
std::string rule_out(const MeshBound& bound, const RecommendOptions& options) {
  const double most =
      options.memory > 0 ? std::min(options.memory, bound.capacity) : bound.capacity;
  if (bound.bytes > most) return too_large;
  if (options.deadline > 0 && bound.total > options.deadline) return misses_deadline;
  if (options.budget > 0 && bound.dollars > options.budget) return exceeds_budget;
  return "";
}

}  // namespace

JudgedMeshes judge_meshes(const InputFiles& files, const std::vector<Candidate>& meshes,
                          const std::vector<Candidate>& plain,
                          const std::vector<Judgement>& plain_judged,
                          const RecommendOptions& options) {
  JudgedMeshes answer;
  answer.judged.resize(meshes.size());
  answer.counts.looked_at = meshes.size();
  if (meshes.empty()) return answer;
  const std::vector<MeshBound> bounds = bounds_of(files, meshes, options.run);
  Best best(options.by == RankBy::memory);
  for (std::size_t i = 0; i < plain.size(); ++i) best.hear(plain[i], plain_judged[i], options);
  // Candidates that their own bounds do not exclude, the most promising first.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    std::string& why = answer.judged[i].left_out;
    why = bounds[i].refused.empty() ? rule_out(bounds[i], options)
                                    : "cannot be: " + bounds[i].refused;
    if (why.empty()) order.push_back(i);
    if (!bounds[i].refused.empty()) ++answer.counts.refused;
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return best.of(bounds[a]) < best.of(bounds[b]);
  });

  const auto judge = std::make_shared<Judge>(files, options);
  const PoolWork work = [&meshes, judge](std::size_t i, const Report& report) -> PoolAnswer {
    return judgements_text({judge->judge(scenario_of(meshes[i]), Judge::never, report)});
  };
  const auto workers = static_cast<std::size_t>(workers_of(options.run));
  Pool pool({.workers = workers_of(options.run), .most_silence = most_silent_seconds}, work);
  // Counts by platform and GPU count, for the limit of simulations and for progress.
  std::map<std::pair<std::string, int>, int> simulated, waiting;
  std::size_t next = 0, most = 0;  // largest possible number of simulations
  for (const std::size_t i : order) {
    most += waiting[{meshes[i].platform, meshes[i].gpus}]++ < most_simulated ? 1 : 0;
  }
  // The pool has at most two jobs per worker, because each result may exclude candidates that
  // follow.
  while (next < order.size() || pool.unanswered() > 0) {
    for (; next < order.size() && pool.unanswered() < 2 * workers; ++next) {
      const std::size_t i = order[next];
      if (best.is_worse(meshes[i], bounds[i])) {
        answer.judged[i].left_out = options.by == RankBy::memory ? mesh_too_full : mesh_too_slow;
        continue;
      }
      if (simulated[{meshes[i].platform, meshes[i].gpus}]++ >= most_simulated) {
        answer.judged[i].left_out = mesh_too_far;
        continue;
      }
      ++answer.counts.simulated;
      pool.add({i});
    }
    if (pool.unanswered() == 0) continue;
    for (const PoolResult& result : pool.collect(1)) {
      Judgement& judged = answer.judged[result.index];
      judged =
          result.ok ? read_judgements(result.text).front() : Judgement{std::nullopt, result.text};
      best.hear(meshes[result.index], judged, options);
    }
    if (options.run.progress) {
      const std::size_t done = answer.counts.simulated - pool.unanswered();
      options.run.progress({.done = done, .all = most, .point = "", .fraction = 0});
    }
  }
  const MeshCounts& counts = answer.counts;
  answer.counts.ruled_out = counts.looked_at - counts.refused - counts.simulated;
  return answer;
}

}  // namespace lockstep
