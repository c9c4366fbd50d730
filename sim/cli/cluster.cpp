// `lockstep cluster SCENARIO` answers: how long do the jobs of a list wait and run on one cluster,
// under several scheduling policies?
//
//   lockstep cluster scenarios/cluster/gang_or_elastic.yaml
//
// The answer has a row for each policy: waiting and completion times, makespan, use of the GPUs,
// fragmentation, evictions, resizes and lost work; then the workloads that gain or lose. --csv has
// a row for each job and policy (docs/cluster.md).
#include "cli/verb.hpp"
#include "cluster/question.hpp"

namespace lockstep::cluster_verb {

namespace {

struct Arguments {
  std::string file;
  CommonOptions common;
};

// Simulates the speeds of the jobs and then all policies, and prints the answer.
int answer_for(const Arguments& arguments) {
  ClusterAnswer answer;
  {
    ProgressLine progress("simulating");
    answer = answer_cluster(read_cluster(arguments.file),
                            progress.run_options(arguments.common.workers));
  }
  switch (arguments.common.format) {
    case Format::json:
      print(cluster_json(answer));
      break;
    case Format::csv:
      print(cluster_csv(answer));
      break;
    default:
      print(cluster_text(answer));
  }
  return 0;
}

Choice declare(CLI::App& app) {
  const auto parsed = std::make_shared<Arguments>();
  CLI::App& verb = *app.add_subcommand("cluster",
                                       "Schedule many jobs on one cluster: gang, backfill, "
                                       "preemption, elastic, time slices, migration");
  verb.add_option("scenario", parsed->file, "Scenario of a cluster")->required();
  add_formats(verb, parsed->common, Formats::json_csv);
  add_workers(verb, parsed->common);
  add_examples(verb,
               {"scenarios/cluster/gang_or_elastic.yaml", "my-cluster.yaml --csv > jobs.csv"});
  return {&verb, [parsed] { return answer_for(*parsed); }};
}
const Verb verb{VerbGroup::questions, declare};

}  // namespace

}  // namespace lockstep::cluster_verb
