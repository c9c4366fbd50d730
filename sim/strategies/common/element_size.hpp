// A check that the options of several strategies share.
#pragma once

namespace lockstep {

// PyTorch reduces and gathers in half or in single precision; 0 = by the scenario's precision.
template <class Report>
void check_element_size(Report report, const char* field, double bytes) {
  if (bytes != 0 && bytes != 2 && bytes != 4) {
    report(field, "is not the size of a number that PyTorch sends", "allowed: 2 B, 4 B, 0 B");
  }
}

}  // namespace lockstep
