// One rank of `lockstep-calibrate collectives`. The ranks join a Gloo process group and measure
// together. Rank 0 appends each point to the result file, from which the parent makes the report.
#include <ATen/Parallel.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "cli/workers.hpp"
#include "probes/collective_report.hpp"
#include "torch/process_group.hpp"

namespace lockstep {

int collectives_worker(const Words& arguments) {
  at::set_num_threads(1);
  GroupOptions options;
  options.rank = std::stoi(arguments.at(0));
  options.size = std::stoi(arguments.at(1));
  options.store_file = arguments.at(2);
  options.own_address = arguments.at(3);
  CollectivePlan plan;
  plan.collectives = parse_collectives(arguments.at(5));
  // send_recv comes first, on new connections, because TCP's buffers grow with traffic, and a
  // parameter server's connection carries only pushes and answers.
  std::stable_partition(plan.collectives.begin(), plan.collectives.end(),
                        [](Collective one) { return one == Collective::send_recv; });
  plan.sizes = parse_sizes(arguments.at(6));
  plan.seconds_per_point = std::stod(arguments.at(7));
  plan.one_core = arguments.at(8) == "on-this-host";

  Group group(options);
  std::ofstream results;
  if (group.rank() == 0) results.open(arguments.at(4));
  probe_collectives(group, plan, [&](const CollectivePoint& point) {
    if (group.rank() != 0) return;
    results << point_json(point).dump() << std::endl;  // flushed, so that points survive Ctrl-C
    if (!results) throw std::runtime_error("cannot write " + arguments.at(4));
  });
  group.barrier();
  return 0;
}

}  // namespace lockstep
