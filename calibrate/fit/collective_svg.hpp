// The picture of docs/networks.md: bus bandwidth over size, measured and predicted. Written by
// lockstep-fit-collectives.
#pragma once

#include <string>
#include <vector>

#include "fit/collective_rows.hpp"

namespace lockstep {

// One panel per curve of at least eight points.
std::string collective_svg(const std::vector<CollectiveRow>& rows, const NetworkModel& model = {});

}  // namespace lockstep
