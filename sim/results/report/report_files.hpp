// The report's page as text that CMake compiles in. Only report.cpp needs it; use
// results/report.hpp otherwise.
#pragma once

#include "results/report.hpp"

namespace lockstep {

extern const char* const report_page;  // page.html, {{...}} to fill in

}  // namespace lockstep
