// Do the 90 % intervals hold for sources that had no say in their width? The errors of whole runs set
// two parts of a width (ErrorLaw); here they are set again without each source in turn.
#pragma once

#include <string>
#include <vector>

#include "points/interval.hpp"
#include "questions/validate.hpp"

namespace lockstep {

struct SourceCoverage {
  std::string source;        // the first word of the rows' `source:`
  std::size_t rows = 0;      // step times that are tests of prediction
  std::size_t inside = 0;    // of them, in the 90 % interval
  ErrorLaw without;          // the widths when this source is left out
  std::size_t left_out = 0;  // of them, in the interval with those widths
};

// `doubling`: root mean square of what a doubling of the GPUs adds to the error, over the rows of
// scenarios/scaling, each anchored at its smallest count. `servers`: what the errors of parameter
// servers are beyond the other parts of their widths, as a root mean square over sources, because
// the rows of one are off together.
ErrorLaw error_law(const std::vector<ValidationRow>& rows);

// In order of first appearance, and "all" in the end. Rows that took part in a fit do not count.
std::vector<SourceCoverage> coverage_by_source(const std::vector<ValidationRow>& rows);
Table coverage_table(const std::vector<SourceCoverage>& sources);

}  // namespace lockstep
