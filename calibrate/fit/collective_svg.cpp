// Draws the picture of docs/networks-results.md as SVG: one panel for each curve, with measured
// points and the model as a line over the logarithm of the size. Colours and sizes are fixed, so
// equal values give equal bytes.
#include "fit/collective_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/units.hpp"

namespace lockstep {
namespace {

constexpr double width = 420, height = 260, left = 52, right = 12, top = 34, bottom = 34;
constexpr std::size_t least_points = 8;

struct Panel {
  std::vector<CollectiveRow> rows;
  double x0 = 0, x1 = 0, y1 = 0;  // log2 of the sizes; bytes/s

  double x(double bytes) const {
    return left + (std::log2(bytes) - x0) / (x1 - x0) * (width - left - right);
  }
  double y(double rate) const { return height - bottom - rate / y1 * (height - top - bottom); }
};

double bus(const CollectiveRow& row, double bytes, double seconds) {
  return bus_bandwidth(row.collective, row.ranks, bytes, seconds);
}

std::string draw(Panel panel, const NetworkModel& model) {
  panel.x0 = std::log2(panel.rows.front().bytes);
  panel.x1 = std::log2(panel.rows.back().bytes);
  for (const CollectiveRow& row : panel.rows)
    panel.y1 = std::max({panel.y1, 1.1 * bus(row, row.bytes, row.measured),
                         1.1 * bus(row, row.bytes, predict_row(row, model).seconds)});
  std::string out = fmt::format("<text x=\"{}\" y=\"18\" font-weight=\"bold\">{}, {} GPUs</text>\n",
                                left, panel.rows.front().name, panel.rows.front().ranks);
  for (int i = 0; i <= 4; ++i) {
    const double rate = panel.y1 / 1.1 * i / 4;
    out += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.3g}</text>\n",
        left, width - right, panel.y(rate), left - 4, panel.y(rate) + 4, rate / 1e9);
  }
  for (int i = 0; i <= 3; ++i) {
    const double bytes = std::exp2(std::round(panel.x0 + (panel.x1 - panel.x0) * i / 3));
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       panel.x(bytes), height - 14, quantity_text(bytes, Dimension::bytes));
  }
  std::string line, dots;
  CollectiveRow probe = panel.rows.front();
  for (double power = panel.x0; power <= panel.x1 + 1e-9; power += 0.125) {
    probe.bytes = std::exp2(power);
    const double rate = bus(probe, probe.bytes, predict_row(probe, model).seconds);
    line += fmt::format("{:.1f},{:.1f} ", panel.x(probe.bytes), panel.y(rate));
  }
  for (const CollectiveRow& row : panel.rows)
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#c33\"/>\n",
                        panel.x(row.bytes), panel.y(bus(row, row.bytes, row.measured)));
  return out +
         fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#36c\" stroke-width=\"2\"/>\n",
                     line) +
         dots;
}

}  // namespace

std::string collective_svg(const std::vector<CollectiveRow>& rows, const NetworkModel& model) {
  std::vector<Panel> panels;
  for (const CollectiveRow& row : rows) {
    if (panels.empty() || panels.back().rows.front().name != row.name ||
        panels.back().rows.front().ranks != row.ranks)
      panels.emplace_back();
    panels.back().rows.push_back(row);
  }
  std::erase_if(panels, [](const Panel& p) { return p.rows.size() < least_points; });
  std::string body;
  for (std::size_t i = 0; i < panels.size(); ++i)
    body += fmt::format("<g transform=\"translate(0,{})\">\n{}</g>\n",
                        height * static_cast<double>(i), draw(panels[i], model));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family="
      "\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "{2}<text x=\"{3}\" y=\"{4}\">bus bandwidth, GB/s: dots measured, line predicted</text>\n"
      "</svg>\n",
      width, height * static_cast<double>(panels.size()) + 20, body, left,
      height * static_cast<double>(panels.size()) + 12);
}

}  // namespace lockstep
