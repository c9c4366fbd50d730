// The tables of a record for people, in the report on the terminal and behind the charts of the
// page. Each function makes one table. The table is empty if no point has values for it; the caller
// then leaves it out.
#pragma once

#include <string>
#include <vector>

#include "results/record.hpp"
#include "results/table.hpp"

namespace lockstep {

// For example "vgg16 on 4x A100 80 GB SXM, amp-fp16, global batch 128 to 512".
std::string subject_text(const ResultRecord& record);
// The reason why the summary has no price or no total; "" if it has a price, or if it has a total
// and nothing fits.
std::string missing_price(const ResultRecord& record);

// For example "Costs of ddp on 1, 2 GPUs: 80 % measured, ...": one line for all points with the
// same shares; without names of points if one line is enough.
std::vector<std::string> origins(const ResultRecord& record);

// For example "3.1 GiB", "296 GiB of host memory", or several joined by "and".
std::string shortfall_text(const OutOfMemory& lacks);
// For example "yes", "yes, barely (0.2 GiB free)", "NO, 3.1 GiB short".
std::string fits_text(const Prediction& prediction);

// One row per point: step, total, cost, throughput, free memory, scaling, MFU.
Table summary_table(const ResultRecord& record);
// The summary with a memory column, and without the scaling column if no point differs from 100 %,
// as with one GPU count in each alternative.
Table alternatives_table(const ResultRecord& joined);
// The parts of a step.
Table split_table(const ResultRecord& record);
// Peak memory, whether it fits, and the moment of the peak.
Table memory_table(const ResultRecord& record);
// Pipelines: work and memory of each stage.
Table stages_table(const ResultRecord& record);
// Exposed communication by axis of the mesh, for points that have a mesh.
Table exposed_table(const ResultRecord& record);
// The axes that have more than one GPU, such as "dp2 tp4 pp2"; "-" if none has.
std::string mesh_text(const MeshRecord& mesh);
// Bytes per step by class of links.
Table traffic_table(const ResultRecord& record);
// Staleness of updates, for asynchronous workers.
Table staleness_table(const ResultRecord& record);
// The distribution of staleness as bars, for points whose updates differ in staleness.
Table staleness_bars(const ResultRecord& record);
// Smallest and largest share of one worker in all steps.
Table workers_table(const ResultRecord& record);
// Mean step and staleness over seeds.
Table seeds_table(const ResultRecord& record);
// Cost of stragglers, with the slowest and the fastest rank.
Table stragglers_table(const ResultRecord& record);
Table energy_table(const ResultRecord& record);     // of the whole run
Table failures_table(const ResultRecord& record);   // of the whole run
Table run_split_table(const ResultRecord& record);  // parts of the time of the whole run
// Accuracy at the end, and time and price to the target, for points that were trained.
Table accuracy_table(const ResultRecord& record);

}  // namespace lockstep
