// The files of the explorer's page, as texts that CMake compiles into the program. routes.cpp
// delivers them.
#pragma once

namespace lockstep {

extern const char* const explorer_page;    // explorer.html
extern const char* const explorer_style;   // explorer.css, used together with the report's style
extern const char* const explorer_script;  // explorer.js, used together with the report's script

}  // namespace lockstep
