// How much faster one prediction is than another, how sure that is, and where the difference arises.
#pragma once

#include <string>
#include <vector>

#include "results/record.hpp"
#include "results/table.hpp"

namespace lockstep {

inline double seconds_per_sample(const Prediction& p) {
  return 1 / p.samples_per_second;
}

// Times are per sample, so that steps with different batches compare.
struct Comparison {
  std::string name, base_name;
  Prediction prediction, base;
  double speedup = 1;  // above 1: faster than the base
  Interval interval;   // of the speedup, 90 %
  // Seconds per sample that each part of the step adds to the base's, the largest change first;
  // parts that do not change are left out. They add up to the difference.
  struct Part {
    const char* phrase;
    double seconds;
  };
  std::vector<Part> parts;
};

// The strategies of a record against its first one, on the same GPU counts.
std::vector<Comparison> compare_strategies(const ResultRecord& record);
// The points of `second` against those of `first` with the same strategy and GPU count.
std::vector<Comparison> compare_scenarios(const ResultRecord& first, const ResultRecord& second);

Table comparison_table(const std::vector<Comparison>& list);
// "ps ssp on 8 GPUs: 1.27 (1.12 to 1.43) times slower than ddp; per sample +96.3 us: ..."
std::string comparison_sentence(const Comparison& comparison);
// The parts of both, one bar above the other, as an SVG picture.
std::string comparison_picture(const std::vector<Comparison>& list);

}  // namespace lockstep
