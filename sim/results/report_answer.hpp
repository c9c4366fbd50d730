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

// What training had taken when its accuracy was judged last: simulated seconds, and as much of the
// price of the whole run. 0 = nothing was trained, or there is no price.
struct TrainingSpent {
  double seconds = 0, dollars = 0;
};
TrainingSpent spent_on_training(const Prediction& prediction);
// Indices of the trained points that fit and that no other one beats in both accuracy (mean of the
// seeds) and what was spent.
std::vector<std::size_t> accuracy_front(const std::vector<Prediction>& predictions,
                                        double TrainingSpent::*spent);

// Relative error of the predicted step of a measured point.
struct Agreement {
  const MeasuredPoint* measured = nullptr;
  const Prediction* predicted = nullptr;
  double error = 0;  // predicted / measured - 1
};
std::vector<Agreement> agreements(const ReportChapter& chapter);

}  // namespace lockstep
