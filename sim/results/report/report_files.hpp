// Scripts and style of every report, compiled in. Use results/report.hpp instead, unless you need a
// single file.
#pragma once

#include "results/report.hpp"

namespace lockstep {

extern const char* const report_page;  // page.html, {{...}} to fill in

}  // namespace lockstep
