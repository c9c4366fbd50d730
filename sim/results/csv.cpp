// CSV rendering of a ResultRecord: one row per prediction, shortest exact decimal of every number.
#include <fmt/format.h>

#include "results/render.hpp"
#include "results/table.hpp"

namespace lockstep {

std::string render_csv(const ResultRecord& record) {
  Table table({{"scenario"},
               {"model"},
               {"platform"},
               {"precision"},
               {"strategy"},
               {"gpus"},
               {"nodes"},
               {"global_batch"},
               {"micro_batch"},
               {"gradient_accumulation"},
               {"step_s"},
               {"median_step_s"},
               {"step_low_s"},
               {"step_high_s"},
               {"total_s"},
               {"samples_per_s"},
               {"tokens_per_s"},
               {"scaling_efficiency"},
               {"data_loading_s"},
               {"forward_s"},
               {"backward_s"},
               {"optimizer_s"},
               {"copies_s"},
               {"exposed_communication_s"},
               {"host_bound_s"},
               {"waiting_s"},
               {"gpu_utilisation"},
               {"mfu"},
               {"allocated_bytes"},
               {"reserved_bytes"},
               {"device_bytes"},
               {"fits"},
               {"memory_retries"},
               {"staleness_mean"},
               {"worker_share_least"},
               {"worker_share_most"},
               {"dollars"}});
  for (const auto& p : record.predictions) {
    const auto number = [](double value) { return fmt::format("{}", value); };
    // A real run does not know it: an empty cell.
    const auto simulated = [&](double value) { return p.real ? "" : number(value); };
    table.add_row({record.scenario,
                   record.model,
                   record.platform,
                   p.precision,
                   p.strategy,
                   std::to_string(p.gpus),
                   p.real ? "" : std::to_string(p.nodes),
                   std::to_string(p.global_batch),
                   std::to_string(p.micro_batch),
                   std::to_string(p.accumulation),
                   number(p.step_seconds),
                   simulated(p.median_step_seconds),
                   number(p.step_interval.low),
                   number(p.step_interval.high),
                   simulated(p.total_seconds),
                   number(p.samples_per_second),
                   simulated(p.tokens_per_second),
                   simulated(p.scaling_efficiency),
                   simulated(p.split.data_loading),
                   simulated(p.split.forward),
                   simulated(p.split.backward),
                   simulated(p.split.optimizer),
                   simulated(p.split.copies),
                   simulated(p.split.exposed_communication),
                   simulated(p.split.host_bound),
                   simulated(p.split.waiting),
                   simulated(p.gpu_utilisation),
                   simulated(p.mfu),
                   number(p.memory.allocated),
                   p.real && p.memory.reserved == 0 ? "" : number(p.memory.reserved),
                   simulated(p.memory.device),
                   p.real            ? ""
                   : p.out_of_memory ? "false"
                                     : "true",
                   p.real ? "" : std::to_string(p.memory.retries),
                   p.staleness ? number(p.staleness->mean) : "",
                   p.worker_steps ? number(p.worker_steps->least) : "",
                   p.worker_steps ? number(p.worker_steps->most) : "",
                   p.dollars > 0 ? number(p.dollars) : ""});
  }
  return table.csv();
}

}  // namespace lockstep
