// Cross-validation of the 90 % intervals: do they hold for sources that had no say in their width?
// Two parts of a width (ErrorLaw) are fitted to the errors of whole runs; here they are fitted
// again without each source in turn. `validate --sources` prints the result.
#pragma once

#include <string>
#include <vector>

#include "points/interval.hpp"
#include "questions/validate.hpp"

namespace lockstep {

// How often the intervals contain the measurements of one source.
struct SourceCoverage {
  std::string source;        // first word of the rows' `source:`
  std::size_t rows = 0;      // measured step times that no fit has used
  std::size_t inside = 0;    // rows inside their 90 % interval
  ErrorLaw without;          // the law fitted without this source
  std::size_t left_out = 0;  // rows inside the interval of the law `without`
};

// Fits the law. `doubling`: root mean square of the error that a doubling of the GPUs adds, over
// the rows of scenarios/scaling, each of which is anchored at its smallest GPU count. `servers`:
// root mean square over sources of the parameter servers' errors beyond the other parts of their
// widths; rows of one source are not independent, so each source counts once.
ErrorLaw error_law(const std::vector<ValidationRow>& rows);

// One entry for each source in order of first appearance, then "all". Rows that took part in a fit
// are left out.
std::vector<SourceCoverage> coverage_by_source(const std::vector<ValidationRow>& rows);
Table coverage_table(const std::vector<SourceCoverage>& sources);

}  // namespace lockstep
