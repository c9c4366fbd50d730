// What a record answers, in plain words: which point is fastest and cheapest, what limits it,
// whether it fits, and how predictions of this scenario agreed with measurements.
#pragma once

#include <string>
#include <vector>

#include "results/report.hpp"

namespace lockstep {

struct Highlight {
  std::string title, value, detail;
};

struct Answer {
  std::vector<std::string> sentences;  // most important first
  std::vector<Highlight> highlights;
};

Answer answer(const ReportChapter& chapter);

// Indices of the priced points that fit and that no other one beats in both time and price.
std::vector<std::size_t> pareto_front(const std::vector<Prediction>& predictions);

// Relative error of the predicted step of a measured point.
struct Agreement {
  const MeasuredPoint* measured = nullptr;
  const Prediction* predicted = nullptr;
  double error = 0;  // predicted / measured - 1
};
std::vector<Agreement> agreements(const ReportChapter& chapter);

}  // namespace lockstep
