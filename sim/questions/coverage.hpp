// Cross-validation of the 90 % intervals: does an interval contain the measurements of a source if
// that source did not influence its width? Two parts of the width (ErrorLaw) are fitted to the
// errors of whole runs; here each source is left out in turn and the two parts are fitted to the
// others. `validate --sources` prints the result.
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
  std::size_t inside = 0;    // rows inside their 90 % interval, by the program's law
  ErrorLaw without;          // the law fitted without this source
  std::size_t left_out = 0;  // rows inside their interval by the law `without`
};

// Fits both numbers of the law. `doubling`: root mean square of the error that one doubling of the
// GPUs adds, over the rows of scenarios/scaling, each of which is anchored at its smallest GPU
// count. `servers`: root mean square, over sources, of the parameter servers' errors that the other
// parts of the width leave unexplained. The rows of one source depend on each other, so each source
// counts once.
ErrorLaw error_law(const std::vector<ValidationRow>& rows);

// One element for each source in order of first appearance, then one ("all") that adds them up and
// has the law fitted to all rows. Leaves out rows that took part in a fit. Empty if no row is left.
std::vector<SourceCoverage> coverage_by_source(const std::vector<ValidationRow>& rows);
Table coverage_table(const std::vector<SourceCoverage>& sources);

}  // namespace lockstep
