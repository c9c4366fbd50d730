// The picture of docs/networks-results.md: bus bandwidth over size, measured and predicted.
// lockstep-fit-collectives writes it.
#pragma once

#include <string>
#include <vector>

#include "fit/collective_rows.hpp"

namespace lockstep {

// One panel for each curve that has at least eight points.
std::string collective_svg(const std::vector<CollectiveRow>& rows, const NetworkModel& model = {});

}  // namespace lockstep
