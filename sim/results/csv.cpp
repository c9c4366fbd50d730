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
               {"staleness_mean"},
               {"dollars"}});
  for (const auto& p : record.predictions) {
    auto number = [](double value) { return fmt::format("{}", value); };
    table.add_row({record.scenario,
                   record.model,
                   record.platform,
                   p.precision,
                   p.strategy,
                   std::to_string(p.gpus),
                   std::to_string(p.nodes),
                   std::to_string(p.global_batch),
                   std::to_string(p.micro_batch),
                   std::to_string(p.accumulation),
                   number(p.step_seconds),
                   number(p.step_interval.low),
                   number(p.step_interval.high),
                   number(p.total_seconds),
                   number(p.samples_per_second),
                   number(p.tokens_per_second),
                   number(p.scaling_efficiency),
                   number(p.split.data_loading),
                   number(p.split.forward),
                   number(p.split.backward),
                   number(p.split.optimizer),
                   number(p.split.copies),
                   number(p.split.exposed_communication),
                   number(p.split.host_bound),
                   number(p.split.waiting),
                   number(p.gpu_utilisation),
                   number(p.mfu),
                   number(p.memory.allocated),
                   number(p.memory.reserved),
                   number(p.memory.device),
                   p.out_of_memory ? "false" : "true",
                   p.staleness ? number(p.staleness->mean) : "",
                   number(p.dollars)});
  }
  return table.csv();
}

}  // namespace lockstep
