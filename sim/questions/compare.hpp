// Comparison of two predictions: how much faster one is, how certain that is, and which parts of
// the step cause the difference. `compare` prints comparisons as a table, sentences, JSON or a
// picture.
#pragma once

#include <string>
#include <vector>

#include "results/record.hpp"
#include "results/table.hpp"

namespace lockstep {

inline double seconds_per_sample(const Prediction& p) {
  return 1 / p.samples_per_second;
}

// A prediction and its base. All times are per sample, so that steps with different batch sizes can
// be compared.
struct Comparison {
  std::string name, base_name;
  Prediction prediction, base;
  double speedup = 1;  // above 1: faster than the base
  Interval interval;   // 90 % interval of the speedup
  // Seconds per sample that one part of the step takes more than in the base. The list has the
  // largest change first and leaves out changes below a thousandth of the base's time per sample.
  struct Part {
    const char* phrase;  // name of the part in a sentence
    double seconds;
  };
  std::vector<Part> parts;
};

// Compares each strategy of a record with the record's first strategy on the same GPU count.
std::vector<Comparison> compare_strategies(const ResultRecord& record);
// Compares each point of `second` with the point of `first` that has the same strategy and GPU
// count.
std::vector<Comparison> compare_scenarios(const ResultRecord& first, const ResultRecord& second);

Table comparison_table(const std::vector<Comparison>& list);
// A sentence, such as "ps ssp on 8 GPUs is 1.27 (1.12 to 1.43) times slower than ddp; +96.3 us a
// sample: exposed communication +90.1 us, ...". If the speedup is below 0.5 %, the sentence says
// that both are as fast. If its interval contains 1, the sentence says that the speedup is not
// certain.
std::string comparison_sentence(const Comparison& comparison);
// An SVG picture with two bars for each comparison. A bar consists of the parts of the step, in
// seconds per sample.
std::string comparison_picture(const std::vector<Comparison>& list);

}  // namespace lockstep
