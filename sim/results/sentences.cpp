// Wraps sentences into lines, and merges similar sentences of several points. Two sentences are
// merged if the words between their percentages are equal, so "91 % of the step" and "95 % of the
// step" become one sentence with a range.
#include "results/sentences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "results/cells.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

constexpr char glue = '\x1f';  // stands for a blank at which no line may break

// Replaces the blanks after numbers and within a few phrases by glue.
std::string glued(std::string text) {
  for (std::size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at + 1)) {
    const bool of_figure = at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0;
    const bool follows = at + 1 < text.size() && text[at + 1] != ' ';
    if (of_figure && follows) text[at] = glue;
  }
  for (const std::string together : {"does not fit", "othing fits into memory", "yes, barely"}) {
    std::string word = together;
    std::replace(word.begin(), word.end(), ' ', glue);
    for (std::size_t at = text.find(together); at != std::string::npos;
         at = text.find(together, at + word.size())) {
      text.replace(at, word.size(), word);
    }
  }
  return text;
}

}  // namespace

std::string wrapped(const std::string& sentence, std::size_t indent) {
  const std::string text = glued(sentence);
  const auto next_word = [&](std::size_t at) {
    return std::min(text.find_first_not_of(' ', at), text.size());
  };
  // Blanks at the beginning indent all lines.
  const std::size_t begin = next_word(0);
  std::string out;
  std::size_t column = 0;
  for (std::size_t at = begin, blanks = begin; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!out.empty() && column + blanks + display_width(word) > text_width) {
      out += '\n';
      column = 0;
      blanks = begin + indent;
    }
    out += std::string(blanks, ' ') + word;
    column += blanks + display_width(word);
    at = next_word(end);
    blanks = at - end;
  }
  std::replace(out.begin(), out.end(), glue, ' ');
  return out;
}

void PointList::add(const std::string& strategy, int gpus) {
  if (points_.empty() || points_.back().first != strategy) points_.push_back({strategy, {}});
  points_.back().second.push_back(gpus);
}

std::string PointList::text() const {
  std::vector<std::string> texts;
  for (const auto& [strategy, gpus] : points_) {
    texts.push_back(gpus.size() == 1
                        ? point_text(strategy, gpus.front())
                        : fmt::format("{} on {} GPUs", strategy, fmt::join(gpus, ", ")));
  }
  return fmt::to_string(fmt::join(texts, "; "));
}

void PointSentences::add(const std::string& strategy, int gpus, const std::string& sentence) {
  // Split the sentence at its percentages: a number, with its sign, before " %".
  Group group;
  std::size_t last = 0;
  for (std::size_t unit = sentence.find(" %"); unit != std::string::npos;
       unit = sentence.find(" %", unit + 1)) {
    const std::size_t before =
        sentence.find_last_not_of("0123456789.", std::max<std::size_t>(unit, 1) - 1);
    std::size_t place = before == std::string::npos ? 0 : before + 1;
    const auto is_at = [&](std::size_t i, char c) { return i < place && sentence[i] == c; };
    // A sign belongs to its number.
    if (is_at(place - 1, '-') && (place == 1 || is_at(place - 2, ' '))) --place;
    if (place >= unit) continue;  // " %" without a number
    group.words.push_back(sentence.substr(last, place - last));
    const std::string figure = sentence.substr(place, unit - place);
    const Share found{std::strtod(figure.c_str(), nullptr), figure};
    group.shares.emplace_back(found, found);
    last = unit;
  }
  group.words.push_back(sentence.substr(last));
  // Sentences with equal words are one group, which stores the smallest and the largest value of
  // each percentage.
  auto known = std::find_if(groups_.begin(), groups_.end(),
                            [&](const Group& other) { return other.words == group.words; });
  if (known == groups_.end()) known = groups_.insert(known, group);
  for (std::size_t i = 0; i < group.shares.size(); ++i) {
    const Share& here = group.shares[i].first;
    auto& [least, greatest] = known->shares[i];
    if (here.value < least.value) least = here;
    if (here.value > greatest.value) greatest = here;
  }
  known->points.add(strategy, gpus);
}

std::vector<std::string> PointSentences::texts() const {
  std::vector<std::string> list;
  for (const Group& group : groups_) {
    std::string text = group.points.text() + ": " + group.words.front();
    for (std::size_t i = 0; i < group.shares.size(); ++i) {
      const auto& [least, greatest] = group.shares[i];
      text += least.text;
      if (greatest.value > least.value) text += " to " + greatest.text;
      text += group.words[i + 1];
    }
    list.push_back(std::move(text));
  }
  return list;
}

}  // namespace lockstep
