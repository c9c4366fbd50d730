// Answers a cluster's scenario: simulates every kind of training at every GPU count that its jobs
// may get, then simulates each policy with these speeds. The simulation of trainings is the
// expensive part, but there are few pairs of kind and GPU count, so 10,000 jobs take hardly longer
// than ten.
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

// Largest total number of turns under time slicing, because each turn is a simulated event.
constexpr double most_turns = 1e7;

// Builds a ClusterQuestion. Collects located errors in `faults_`, and throws them together before a
// step that relies on the checked values.
class Asker {
 public:
  // Loads the platform, and checks that it may have as many nodes as the file says.
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

  // Converts the workloads to kinds, lists the jobs, collects the GPU counts that each kind may
  // get, simulates the speed of each kind at these counts, and computes the work of each job.
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
      // A job cannot become larger than the cluster.
      kind.most = std::min(elastic.most, size_.nodes * size_.gpus_per_node);
      kind.pause = elastic.pause;
      kind.restart = spec.restart;
      kind.checkpoint_period = spec.checkpoint_period;
      question.kinds.push_back(kind);
    }
    // Names and sizes of jobs are checked before anything is simulated.
    std::vector<JobSpec> specs = listed(question.warnings);
    faults_.throw_if_any();
    // `counts[kind]`: every GPU count at which the scheduler may ask for the kind's speed.
    std::vector<std::set<int>> counts(question.kinds.size());
    for (const JobSpec& spec : specs) {
      ClusterJob job;
      job.name = spec.name;
      // `names_` is sorted like the map of workloads, so a name's position in it is the kind's
      // index.
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
    // Seconds of a switch and of a move, by kind and GPU count.
    std::vector<std::map<int, Stops>> stops(names_.size());
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const Scenario training = training_of(names_[k]);
      // Trainings that no job uses are not simulated, but wrong file names in them are reported.
      if (counts[k].empty()) {
        in_training(training, [&] { InputFiles().of(training); });
      } else {
        check_batch(training, counts[k], question.kinds[k].elastic);
        in_training(training, [&] {
          question.kinds[k].rates = rates(training, counts[k], options, question);
          if (stops_jobs(question.policies)) stops[k] = stops_of(training, counts[k]);
        });
      }
    }
    // A job's work is in samples. A length in seconds becomes the number of samples that the job
    // trains in this time on the GPUs that it asks for. On fewer GPUs the job then takes longer.
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
  // Seconds for which a job stops at a switch and at a move.
  struct Stops {
    double switching = 0, migration = 0;
  };

  // Returns the file's jobs (`jobs`, `trace` or `generated`) with workload names and sizes checked.
  // For generated jobs the entries of the mix are checked instead of every job.
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

  // Returns the jobs of a Slurm trace. Jobs that the cluster cannot hold are left out and counted
  // in a note; a job whose name is no workload gets `trace.workload`, or is an error if that is
  // empty.
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
      // A job whose row names nodes but no GPUs had whole nodes.
      spec.gpus = traced.gpus > 0 ? traced.gpus : traced.nodes * size_.gpus_per_node;
      if (spec.gpus > all) {
        ++recorded.left_out["larger than the cluster"];
        continue;
      }
      // The recorded length refers to the GPUs that the job had, and here the job asks for as many.
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

  // Reports a workload name that the file does not declare.
  void check(const std::string& workload, const Location& where, const std::string& field) {
    if (std::binary_search(names_.begin(), names_.end(), workload)) return;
    faults_.add({where, field, fmt::format("no workload is called {}", in_quotes(workload)),
                 allowed_hint(workload, names_)});
  }

  // Reports a job that asks for more GPUs than the cluster has, or than its elastic workload can
  // use.
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

  // Reports fields of a training that have no effect in a cluster. For example, the jobs determine
  // the lengths, and a cluster's GPUs do not fail.
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
    // An anchor row with a `total_time` needs the dataset to become a step time.
    const bool dated = std::any_of(rows.begin(), rows.end(),
                                   [](const Node& row) { return row.find("total_time"); });
    // Otherwise `dataset` has no effect, because the jobs determine the lengths.
    if (!dated) check("dataset", "lengths are `duration` or `samples` of the jobs");
    without.throw_if_any();
  }

  // Makes a workload's `training` a complete scenario: its name is the workload's, the platform is
  // the cluster's, and rates() adds the GPU counts. Throws ConfigError if the training has these
  // fields or several strategies.
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
    // Only `lockstep validate` uses measured rows.
    scenario.measured.clear();
    return scenario;
  }

  // Runs `action` and corrects the field names in its errors: run_scenario() names fields such as
  // `batch` or `strategies[0]`, but in this file they stand below `workloads.NAME.training`.
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

  // A global batch may be divisible by one GPU count and not by another. The error names the GPU
  // count of the job, which the user cannot see in the training itself.
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

  // Simulated samples per second by GPU count, for the one strategy of a training. Throws
  // ConfigError if the training does not fit into memory at one of the GPU counts.
  std::map<int, double> rates(Scenario scenario, const std::set<int>& counts,
                              const RunOptions& options, ClusterQuestion& question) {
    const KindSpec& spec = file_.workloads.at(scenario.name);
    std::set<int> simulated = counts;
    // run_scenario() reports on an anchor only at simulated GPU counts, so the anchor's counts are
    // also simulated.
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

  // Seconds of a switch and of a move by GPU count; values stated in the file win. In a switch, the
  // state that a job has between two steps (parameters, optimizer) is copied to the host's memory,
  // and another job's state is copied back: two copies. A move also sends the state through the
  // network.
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

  // Refuses a slice so short that its turns would take too long to simulate. The number of turns is
  // estimated as length / slice for each job.
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
  // Sorted names of the workloads. The index of a name is the index of its kind.
  std::vector<std::string> names_;
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
