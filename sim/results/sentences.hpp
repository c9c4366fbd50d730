// Sentences for a terminal: similar sentences are merged, and lines are wrapped. Use it for remarks
// about many points.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// Columns of a terminal that printed text uses at most.
constexpr std::size_t text_width = 80;

// Wraps into lines of at most `text_width` columns; continuation lines are indented by `indent`
// columns. A longer word stands alone. Figures stay with the word after them, and colored text
// stays in one line.
std::string wrapped(const std::string& sentence, std::size_t indent = 2);

// Points of a scenario, named together: "ddp on 1, 2 GPUs; fsdp on 4 GPUs".
class PointList {
 public:
  // GPU counts of a strategy must be added one after the other to be named together.
  void add(const std::string& strategy, int gpus);
  std::string text() const;

 private:
  std::vector<std::pair<std::string, std::vector<int>>> points_;  // strategy, GPU counts
};

// Sentences about points. Sentences that differ in shares only are merged, with the smallest and
// the largest share: "91 to 95 % of the step is ...".
class PointSentences {
 public:
  void add(const std::string& strategy, int gpus, const std::string& sentence);
  // "ddp on 1, 2 GPUs: ...", in the order in which the first of each was added.
  std::vector<std::string> texts() const;

 private:
  // A percentage and its text in the sentence.
  struct Share {
    double value = 0;
    std::string text;
  };
  // Sentences with equal words.
  struct Group {
    std::vector<std::string> words;               // around the shares, one more than these
    std::vector<std::pair<Share, Share>> shares;  // least, greatest
    PointList points;
  };
  std::vector<Group> groups_;
};

}  // namespace lockstep
