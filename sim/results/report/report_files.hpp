// The template of the report's page, as text that CMake compiles in. Only report.cpp needs it;
// other code uses results/report.hpp.
#pragma once

#include "results/report.hpp"

namespace lockstep {

extern const char* const report_page;  // page.html; its {{...}} must be replaced

}  // namespace lockstep
