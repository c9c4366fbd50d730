// Draws the picture of `lockstep compare` as SVG: two bars for each comparison, made of the parts
// of the step in seconds per sample, all on the same scale. Coordinates are in pixels of the view
// box.
#include <fmt/format.h>

#include <algorithm>

#include "questions/compare.hpp"
#include "results/cells.hpp"
#include "results/step_parts.hpp"

namespace lockstep {

namespace {

// Sizes in pixels: the picture, its margins, a bar, the gap between the two bars, a title, the
// space between comparisons.
constexpr double width = 860, left = 10, right = 110, bar = 22, gap = 3, title = 24, space = 14;
// One colour for each part; people with colour blindness can distinguish them (palette of Okabe and
// Ito).
constexpr std::array<const char*, step_parts.size()> colours{"#999999", "#56b4e9", "#0072b2",
                                                             "#009e73", "#f0e442", "#d55e00",
                                                             "#e69f00", "#cc79a7", "#000000"};

// One bar with its label. `scale`: pixels per second. Leaves out parts that are too short to see.
std::string bar_of(const Prediction& p, const std::string& name, double y, double scale) {
  std::string out;
  double x = left;
  for (std::size_t i = 0; i < named_parts.size(); ++i) {
    const double share = p.split.*named_parts[i].seconds / p.step_seconds;
    const double length = share * seconds_per_sample(p) * scale;
    if (length < 0.05) continue;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\">"
        "<title>{}: {} a sample, {}</title></rect>\n",
        x, y, length, bar, colours[i], named_parts[i].phrase,
        seconds_text(share * seconds_per_sample(p)), percent(share));
    x += length;
  }
  return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}, {}</text>\n", x + 6, y + bar - 6,
                           html_text(name), seconds_text(seconds_per_sample(p)));
}

}  // namespace

std::string comparison_picture(const std::vector<Comparison>& list) {
  // The longest bar and the longest name together fill the width.
  double longest = 0, most_letters = 0;
  for (const Comparison& c : list) {
    longest = std::max({longest, seconds_per_sample(c.prediction), seconds_per_sample(c.base)});
    most_letters = std::max({most_letters, static_cast<double>(display_width(c.name)),
                             static_cast<double>(display_width(c.base_name))});
  }
  const double names = right + 7 * most_letters;
  const double scale = longest > 0 ? (width - left - names) / longest : 0;
  double y = space;
  std::string body;
  for (const Comparison& c : list) {
    const std::string sentence = comparison_sentence(c);
    body += fmt::format("<text x=\"{}\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", left,
                        y + title - 9, html_text(sentence.substr(0, sentence.find(';'))));
    y += title;
    body += bar_of(c.base, c.base_name, y, scale);
    body += bar_of(c.prediction, c.name, y + bar + gap, scale);
    y += 2 * bar + gap + space;
  }
  // The legend below the bars.
  double x = left;
  for (std::size_t i = 0; i < named_parts.size(); ++i) {
    const double length = 26 + 7.5 * static_cast<double>(display_width(named_parts[i].heading));
    if (x + length > width) x = left, y += bar;
    body += fmt::format(
        "<rect x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"12\" height=\"12\" fill=\"{2}\"/>"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
        x, y, colours[i], x + 16, y + 11, named_parts[i].heading);
    x += length;
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
             "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n"
             "<title>Where the time of a sample goes</title>\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             width, y + bar) +
         body + "</svg>\n";
}

}  // namespace lockstep
