// The explorer's page, compiled in. Used by the routes that deliver it.
#pragma once

namespace lockstep {

extern const char* const explorer_page;    // explorer.html
extern const char* const explorer_style;   // explorer.css, beside the report's
extern const char* const explorer_script;  // explorer.js, beside the report's

}  // namespace lockstep
