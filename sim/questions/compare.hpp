// Comparison of predictions: how much faster one is, how certain that is, and which parts of the
// step cause the difference. `compare` prints it as table, sentences, JSON or picture.
#pragma once

#include <string>
#include <vector>

#include "results/record.hpp"
#include "results/table.hpp"

namespace lockstep {

inline double seconds_per_sample(const Prediction& p) {
  return 1 / p.samples_per_second;
}

// A prediction beside its base. All times are per sample, so that steps with different batch sizes
// can be compared.
struct Comparison {
  std::string name, base_name;
  Prediction prediction, base;
  double speedup = 1;  // above 1: faster than the base
  Interval interval;   // 90 % interval of the speedup
  // Additional seconds per sample of one part of the step, against the base. The list has the
  // largest change first, leaves out parts without change, and adds up to the difference.
  struct Part {
    const char* phrase;  // name of the part in a sentence
    double seconds;
  };
  std::vector<Part> parts;
};

// Compares each strategy of a record with the record's first strategy on the same GPU count.
std::vector<Comparison> compare_strategies(const ResultRecord& record);
// Compares the points of `second` with the points of `first` of the same strategy and GPU count.
std::vector<Comparison> compare_scenarios(const ResultRecord& first, const ResultRecord& second);

Table comparison_table(const std::vector<Comparison>& list);
// A sentence, such as "ps ssp on 8 GPUs is 1.27 (1.12 to 1.43) times slower than ddp; +96.3 us a
// sample: exposed communication +90.1 us, ...". A speedup whose interval contains 1 is called not
// certain.
std::string comparison_sentence(const Comparison& comparison);
// An SVG picture with two bars for each comparison, made of the parts of a step, seconds per
// sample.
std::string comparison_picture(const std::vector<Comparison>& list);

}  // namespace lockstep
