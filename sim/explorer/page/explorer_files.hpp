// The explorer's page as texts that are compiled into the program. routes.cpp delivers them; the
// build makes them from the files of this folder.
#pragma once

namespace lockstep {

extern const char* const explorer_page;    // explorer.html
extern const char* const explorer_style;   // explorer.css, beside the report's
extern const char* const explorer_script;  // explorer.js, beside the report's

}  // namespace lockstep
