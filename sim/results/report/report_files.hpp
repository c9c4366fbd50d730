// What every report holds, compiled in.
#pragma once

namespace lockstep {

extern const char* const report_page;     // page.html, {{...}} to fill in
extern const char* const report_style;    // page.css
extern const char* const report_script;   // page.js
extern const char* const report_library;  // Chart.js 3

}  // namespace lockstep
