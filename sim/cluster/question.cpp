// Simulates every kind of job at every GPU count once, and plays each policy with these speeds.
#include "cluster/question.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cluster/generated.hpp"
#include "cluster/sacct.hpp"
#include "hardware/machine.hpp"
#include "points/batch.hpp"
#include "points/checkpoints.hpp"
#include "points/inputs.hpp"
#include "points/misfits.hpp"
#include "questions/run.hpp"

namespace lockstep {

namespace {

constexpr double most_turns = 1e7;  // each is played

class Asker {
 public:
  explicit Asker(const ClusterFile& file) : file_(file) {
    for (const auto& [name, spec] : file.workloads) names_.push_back(name);
    Misfits misfits;
    misfits.attempt(file.cluster.platform_where, "cluster.platform", [&] {
      const Machine machine = load_machine(file.cluster.platform);
      size_ = {file.cluster.nodes, machine.gpus_per_node};
      platform_ = machine.name;
      if (file.cluster.nodes > machine.max_nodes) {
        misfits.add(file.cluster.nodes_where, "cluster.nodes",
                    fmt::format("{} nodes, but {} has at most {}", file.cluster.nodes, platform_,
                                machine.max_nodes),
                    fmt::format("a larger platform, or a file of your own with `base: {}` and "
                                "`max_nodes: {}`",
                                platform_, file.cluster.nodes));
      }
    });
    misfits.throw_if_any();
  }

  ClusterQuestion ask(const RunOptions& options) {
    ClusterQuestion question;
    question.name = file_.name;
    question.platform = platform_;
    question.size = size_;
    question.policies = file_.policies;
    question.service_before_eviction = file_.preemption.value_or(PreemptionSpec{}).after;
    question.slice = file_.time_slicing.value_or(TimeSlicingSpec{}).slice;
    for (const auto& [name, spec] : file_.workloads) {
      JobKind kind;
      kind.name = name;
      kind.elastic = spec.elastic.has_value();
      const ElasticSpec elastic = spec.elastic.value_or(ElasticSpec{});
      kind.least = elastic.least;
      // It cannot become larger than the cluster.
      kind.most = std::min(elastic.most, size_.nodes * size_.gpus_per_node);
      kind.pause = elastic.pause;
      kind.restart = spec.restart;
      kind.checkpoint_period = spec.checkpoint_period;
      question.kinds.push_back(kind);
    }
    std::vector<JobSpec> specs = listed(question.warnings);
    faults_.throw_if_any();
    std::vector<std::set<int>> counts(question.kinds.size());
    for (const JobSpec& spec : specs) {
      ClusterJob job;
      job.name = spec.name;
      job.kind = static_cast<std::size_t>(
          std::lower_bound(names_.begin(), names_.end(), spec.workload) - names_.begin());
      job.submit = spec.submit;
      job.gpus = spec.gpus;
      job.limit = spec.limit;
      job.priority = spec.priority;
      const JobKind& kind = question.kinds[job.kind];
      for (const int size : sizes_of(kind, job.gpus)) counts[job.kind].insert(size);
      question.jobs.push_back(std::move(job));
    }
    std::vector<std::map<int, Stops>> stops(names_.size());
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const Scenario training = training_of(names_[k]);
      if (counts[k].empty()) {
        // Reports wrong names also in trainings that no job uses.
        in_training(training, [&] { InputFiles().of(training); });
      } else {
        check_batch(training, counts[k], question.kinds[k].elastic);
        in_training(training, [&] {
          question.kinds[k].rates = rates(training, counts[k], options, question);
          if (stops_jobs(question.policies)) stops[k] = stops_of(training, counts[k]);
        });
      }
    }
    for (std::size_t j = 0; j < specs.size(); ++j) {
      ClusterJob& job = question.jobs[j];
      const double rate = question.kinds[job.kind].rates.at(job.gpus);
      job.work = specs[j].samples > 0 ? specs[j].samples : specs[j].duration * rate;
      const Stops stop = stops[job.kind][job.gpus];
      job.switching = stop.switching;
      job.migration = stop.migration;
    }
    check_turns(question);
    return question;
  }

 private:
  // Seconds that a job stands still, by its GPUs.
  struct Stops {
    double switching = 0, migration = 0;
  };

  std::vector<JobSpec> listed(std::vector<std::string>& notes) {
    std::vector<JobSpec> specs;
    if (file_.generated) {
      for (std::size_t i = 0; i < file_.generated->mix.size(); ++i) {
        const MixSpec& mix = file_.generated->mix[i];
        const std::string field = fmt::format("generated.mix[{}].", i);
        check(mix.workload, mix.workload_where, field + "workload");
        for (const int gpus : mix.gpus) fits(gpus, mix.workload, mix.gpus_where, field + "gpus");
      }
      if (faults_.empty()) specs = generated_jobs(*file_.generated);
    } else if (file_.trace) {
      specs = traced(notes);
    } else {
      specs = file_.jobs;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].name.empty()) specs[i].name = std::to_string(i + 1);
        const std::string field = fmt::format("jobs[{}].", i);
        check(specs[i].workload, specs[i].workload_where, field + "workload");
        fits(specs[i].gpus, specs[i].workload, specs[i].gpus_where, field + "gpus");
      }
    }
    return specs;
  }

  std::vector<JobSpec> traced(std::vector<std::string>& notes) {
    const TraceSpec& trace = *file_.trace;
    if (!std::filesystem::is_regular_file(trace.file)) {
      faults_.add({trace.where, "trace.file", fmt::format("{} is no file", in_quotes(trace.file)),
                   "a path from this file"});
      return {};
    }
    if (!trace.workload.empty()) check(trace.workload, trace.where, "trace.workload");
    std::vector<JobSpec> specs;
    SacctTrace recorded = read_sacct(trace.file, trace.partition);
    const int all = size_.nodes * size_.gpus_per_node;
    for (const TracedJob& traced : recorded.jobs) {
      JobSpec spec;
      spec.name = traced.id;
      const bool named = std::binary_search(names_.begin(), names_.end(), traced.name);
      spec.workload = named ? traced.name : trace.workload;
      spec.submit = traced.submit;
      spec.gpus = traced.gpus > 0 ? traced.gpus : traced.nodes * size_.gpus_per_node;
      if (spec.gpus > all) {
        ++recorded.left_out["larger than the cluster"];
        continue;
      }
      spec.duration = traced.elapsed;
      spec.limit = traced.limit;
      const Location where{trace.file, traced.line, 1};
      if (spec.workload.empty()) check(traced.name, where, "JobName");
      fits(spec.gpus, spec.workload, where, "AllocTRES");
      specs.push_back(std::move(spec));
    }
    for (const auto& [reason, jobs] : recorded.left_out) {
      notes.push_back(
          fmt::format("trace: {} job{} {} left out", jobs, jobs == 1 ? "" : "s", reason));
    }
    if (recorded.running > 0) {
      notes.push_back(fmt::format("trace: {} job{} had not ended: the time so far is the length",
                                  recorded.running, recorded.running == 1 ? "" : "s"));
    }
    if (specs.empty() && faults_.empty()) {
      faults_.add({trace.where, "trace.file", fmt::format("has no job of at most {} GPUs", all),
                   "a larger cluster"});
    }
    return specs;
  }

  void check(const std::string& workload, const Location& where, const std::string& field) {
    if (std::binary_search(names_.begin(), names_.end(), workload)) return;
    faults_.add({where, field, fmt::format("no workload is called {}", in_quotes(workload)),
                 allowed_hint(workload, names_)});
  }

  void fits(int gpus, const std::string& workload, const Location& where,
            const std::string& field) {
    const int all = size_.nodes * size_.gpus_per_node;
    if (gpus > all) {
      faults_.add({where, field, fmt::format("{} GPUs can never start", gpus),
                   fmt::format("the cluster has {} nodes x {} GPUs = {}", size_.nodes,
                               size_.gpus_per_node, all)});
      return;
    }
    const auto kind = file_.workloads.find(workload);
    if (kind == file_.workloads.end() || !kind->second.elastic) return;
    const int most = kind->second.elastic->most;
    if (most == 0 || gpus <= most) return;
    faults_.add({where, field,
                 fmt::format("asks for {} GPUs, but its workload can use {}", gpus, most),
                 fmt::format("`most: {}` in workloads.{}.elastic, or fewer", gpus, workload)});
  }

  // Jobs give the lengths, and GPUs of a cluster do not fail.
  static void check_effect(const Node& training) {
    Diagnostics without;
    const auto check = [&](const char* key, const char* hint) {
      const auto trained = training.find(key);
      if (!trained) return;
      Diagnostic diagnostic = trained->error("has no effect in a cluster", hint);
      diagnostic.where = training.key_location(key);
      without.add(std::move(diagnostic));
    };
    check("faults", "its GPUs do not fail");
    check("checkpoint", "evicted jobs go back to `checkpoint_period` of their workload");
    check("convergence", "`lockstep run` answers that");
    check("energy", "`lockstep run` answers that");
    const auto anchor = training.find("anchor");
    const auto rows = anchor ? anchor->elements() : std::vector<Node>{};
    const bool dated = std::any_of(rows.begin(), rows.end(),
                                   [](const Node& row) { return row.find("total_time"); });
    // An anchor's total time is that of a length.
    if (!dated) check("dataset", "lengths are `duration` or `samples` of the jobs");
    without.throw_if_any();
  }

  Scenario training_of(const std::string& name) {
    const KindSpec& spec = file_.workloads.at(name);
    Node training = spec.training;
    if (training.kind() != Node::Kind::map) {
      throw ConfigError(training.error("must be a map", "a scenario with one strategy"));
    }
    for (const char* key : {"name", "platform", "gpus"}) {
      if (const auto trained = training.find(key)) {
        throw ConfigError(
            trained->error("is not this training's to say",
                           "platform and GPUs are those of the cluster and its jobs"));
      }
    }
    check_effect(training);
    const Location& where = spec.where;
    training = training.with("name", Node::plain(name, where), where);
    training = training.with("platform", Node::plain(file_.cluster.platform, where), where);
    Scenario scenario = read_scenario_node(training, file_.file);
    if (scenario.strategies.size() != 1) {
      throw ConfigError(
          training.find("strategies")->error("a job trains with one strategy", "keep one"));
    }
    scenario.measured.clear();
    return scenario;
  }

  // A run calls these fields its scenario's own; here they belong to a workload's training.
  template <class Action>
  void in_training(const Scenario& training, Action&& action) {
    try {
      action();
    } catch (const ConfigError& error) {
      const std::string path = file_.workloads.at(training.name).training.path();
      std::vector<Diagnostic> diagnostics = error.diagnostics();
      for (Diagnostic& diagnostic : diagnostics) {
        const bool here = diagnostic.where.file == file_.file;
        if (here && !diagnostic.field.starts_with(path)) {
          diagnostic.field = path + (diagnostic.field.empty() ? "" : "." + diagnostic.field);
        }
      }
      throw ConfigError(diagnostics);
    }
  }

  // A batch may go with one GPU count and not with another: which one a job may get is said.
  void check_batch(const Scenario& training, const std::set<int>& counts, bool elastic) {
    for (const int gpus : counts) {
      try {
        split_batch(training.batch, gpus);
      } catch (const std::invalid_argument& misfit) {
        throw ConfigError(
            {training.batch_where, file_.workloads.at(training.name).training.path() + ".batch",
             misfit.what(),
             fmt::format("a job {} {} GPU{}; `per_gpu` goes with every number",
                         elastic ? "may get" : "asks for", gpus, gpus == 1 ? "" : "s")});
      }
    }
  }

  // Samples per second.
  std::map<int, double> rates(Scenario scenario, const std::set<int>& counts,
                              const RunOptions& options, ClusterQuestion& question) {
    const KindSpec& spec = file_.workloads.at(scenario.name);
    std::set<int> simulated = counts;
    // A met anchor is reported for simulated points only.
    for (const MeasuredRow& row : scenario.anchor) simulated.insert(row.gpus);
    scenario.gpus.assign(simulated.begin(), simulated.end());
    const ResultRecord record = run_scenario(scenario, options);
    if (!record.failures.empty()) throw std::runtime_error(record.failures.front().reason);
    for (const std::string& warning : record.warnings) {
      question.warnings.push_back(fmt::format("{}: {}", scenario.name, warning));
    }
    std::map<int, double> rates;
    for (const Prediction& p : record.predictions) {
      if (!counts.contains(p.gpus)) continue;
      if (!lockstep::fits(p.memory)) {
        throw ConfigError(spec.training.error(
            fmt::format("does not fit into the memory of {} GPU{}", p.gpus, p.gpus == 1 ? "" : "s"),
            "`lockstep check` tells how much it needs"));
      }
      rates[p.gpus] = p.samples_per_second;
    }
    return rates;
  }

  // The state that a job holds between two steps goes to the host's memory and comes from there; to
  // another node it also goes through the network.
  std::map<int, Stops> stops_of(Scenario scenario, const std::set<int>& counts) {
    const KindSpec& spec = file_.workloads.at(scenario.name);
    scenario.gpus.assign(counts.begin(), counts.end());
    std::map<int, Stops> stops;
    for (const Point& point : expand(scenario)) {
      const CheckpointCosts costs = checkpoint_costs({}, point);
      const double copies = 2 * costs.copy_seconds;
      stops[point.job.mesh.gpus()] = {spec.switching.value_or(copies),
                                      spec.migration.value_or(copies + costs.fetch_seconds)};
    }
    return stops;
  }

  void check_turns(const ClusterQuestion& question) {
    const auto& policies = question.policies;
    if (std::count(policies.begin(), policies.end(), Policy::time_slicing) == 0) return;
    double turns = 0;
    for (const ClusterJob& job : question.jobs) {
      turns += job.work / question.kinds[job.kind].rates.at(job.gpus) / question.slice;
    }
    if (turns <= most_turns) return;
    const double needed = question.slice * turns / most_turns;
    throw ConfigError({file_.slicing_where, "time_slicing.slice",
                       fmt::format("makes {:.0e} turns of these jobs", turns),
                       fmt::format("at least {:.3g} s", needed)});
  }

  const ClusterFile& file_;
  std::vector<std::string> names_;  // of workloads, sorted
  ClusterSize size_;
  std::string platform_;
  Diagnostics faults_;
};

}  // namespace

ClusterQuestion cluster_question(const ClusterFile& file, const RunOptions& options) {
  return Asker(file).ask(options);
}

ClusterAnswer answer_cluster(const ClusterFile& file, const RunOptions& options) {
  ClusterAnswer answer{cluster_question(file, options), {}};
  const ClusterQuestion& question = answer.question;
  for (const Policy policy : question.policies) {
    const Schedule plan = schedule(question.size, question.kinds, question.jobs,
                                   {policy, question.service_before_eviction, question.slice});
    answer.outcomes.push_back(outcome_of(policy, question.size, question.jobs, plan));
  }
  return answer;
}

}  // namespace lockstep
