// What holds for every right prediction, whatever was asked. A prediction that breaks one of these
// is a fault of the program and is never shown.
#pragma once

#include <string>

#include "results/record.hpp"

namespace lockstep {

// Empty if everything holds: all figures finite, no part of the step negative or longer than the
// step, the parts' sum the step (1e-6 of it), the step inside its interval, shares between 0 and 1,
// allocated <= reserved <= device memory. Otherwise one sentence that says what does not.
std::string broken_invariant(const Prediction& p);

}  // namespace lockstep
