// Sentences for a terminal: merges similar sentences about many points, and wraps lines. Used for
// remarks.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

// Printed text uses at most this many columns of a terminal.
constexpr std::size_t text_width = 80;

// Wraps into lines of at most `text_width` columns; all lines but the first are indented by
// `indent` columns. A longer word gets a line of its own. No line ends between a number and the
// word after it.
std::string wrapped(const std::string& sentence, std::size_t indent = 2);

// Points of a scenario that are named together: "ddp on 1, 2 GPUs; fsdp on 4 GPUs".
class PointList {
 public:
  // Only GPU counts that are added directly after each other for the same strategy are named
  // together.
  void add(const std::string& strategy, int gpus);
  std::string text() const;

 private:
  std::vector<std::pair<std::string, std::vector<int>>> points_;  // strategy, GPU counts
};

// Sentences about points. Sentences that differ only in percentages are merged and show the
// smallest and the largest percentage: "91 to 95 % of the step is ...".
class PointSentences {
 public:
  void add(const std::string& strategy, int gpus, const std::string& sentence);
  // "ddp on 1, 2 GPUs: ...", in the order in which the first sentence of each group was added.
  std::vector<std::string> texts() const;

 private:
  // A percentage and its text in the sentence.
  struct Share {
    double value = 0;
    std::string text;
  };
  // Sentences that differ only in percentages.
  struct Group {
    std::vector<std::string> words;  // texts between the shares, one more than there are shares
    std::vector<std::pair<Share, Share>> shares;  // smallest and largest
    PointList points;
  };
  std::vector<Group> groups_;
};

}  // namespace lockstep
