// Do the pictures of docs/parallelism.md show the schedules and the places of ranks as the program
// computes them? LOCKSTEP_WRITE_GOLDEN=1 draws them anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/fields.hpp"
#include "schedules.hpp"
#include "strategies/common/mesh_groups.hpp"

namespace lockstep::pictures_test {
namespace {

using enum PipelineSchedule;

constexpr double left = 64, row = 19;
// Colors that are distinguishable without color vision (Okabe and Ito).
constexpr auto forward_colour = "#56b4e9", backward_colour = "#009e73", input_colour = "#f0e442",
               weight_colour = "#e69f00";

std::string box(double x, double y, double width, std::string_view colour, double opacity,
                const std::string& text) {
  std::string out =
      fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"", x, y,
                  width, row, colour);
  if (opacity < 1) out += fmt::format(" fill-opacity=\"{}\"", opacity);
  return out + fmt::format("/><text class=\"in\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x + width / 2,
                           y + row - 5, text);
}

std::string label(double x, double y, const std::string& text, std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, text);
}

std::string svg(double width, double height, const std::string& title, const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"DejaVu Sans, Arial, sans-serif\" font-size=\"11\">\n"
      "<style>rect {{stroke: #333; stroke-width: .6}} .in {{text-anchor: middle}}</style>\n"
      "<title>{2}</title>\n<rect style=\"stroke: none\" width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n{3}</svg>\n",
      width, height, title, body);
}

void expect_drawn(const std::string& name, const std::string& picture) {
  const std::string path = std::string(PICTURES_FOLDER) + "/" + name;
  if (std::getenv("LOCKSTEP_WRITE_GOLDEN") != nullptr) std::ofstream(path) << picture;
  std::stringstream drawn;
  drawn << std::ifstream(path).rdbuf();
  EXPECT_TRUE(drawn.str() == picture) << path << " shows something else";
}

std::string_view colour_of(Deed deed) {
  switch (deed) {
    case Deed::forward:
      return forward_colour;
    case Deed::backward_input:
      return input_colour;
    case Deed::backward_weight:
      return weight_colour;
    default:
      return backward_colour;
  }
}

// A row for each stage, a box for each micro-batch in each part of the model.
std::string stages_of(PipelineSchedule schedule, const PipelineShape& shape, double y,
                      double unit) {
  const std::vector<RankProgram> programs = programs_of(schedule, shape);
  const PipelineTimes times = times_of(schedule, shape);
  std::string out =
      label(left, y - 6,
            fmt::format("{}{}: a bubble of {:.0f} %", enum_name(schedule),
                        shape.chunks > 1 ? ", two parts on each stage" : "", 100 * times.bubble()),
            " font-weight=\"bold\"");
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    const double top = y + row * static_cast<double>(rank);
    out += label(8, top + row - 6, fmt::format("stage {}", rank));
    for (std::size_t i = 0; i < programs[rank].size(); ++i) {
      const Action& action = programs[rank][i];
      const double seconds = (action.deed == Deed::backward ? 2.0 : 1.0) / shape.chunks;
      out += box(left + unit * (times.ends[rank][i] - seconds), top, unit * seconds,
                 colour_of(action.deed), action.chunk == 0 ? 1 : 0.5, std::to_string(action.micro));
    }
  }
  return out;
}

TEST(Pictures, OfSchedules) {
  constexpr int stages = 4, micro_batches = 8;
  constexpr double width = 960, unit = (width - left - 8) / 33;
  std::string body;
  double x = left;
  for (const auto& [colour, text] : {std::pair{forward_colour, "forward"},
                                     {backward_colour, "backward"},
                                     {input_colour, "gradients of inputs"},
                                     {weight_colour, "gradients of weights"}}) {
    body += box(x, 6, 19, colour, 1, "") + label(x + 25, 19, text);
    x += 50 + 7 * static_cast<double>(std::string_view(text).size());
  }
  body += label(x, 19, "pale: the second part of the model on a stage");
  double y = 56;
  for (const auto& [schedule, chunks] :
       {std::pair{gpipe, 1}, {one_f_one_b, 1}, {interleaved, 2}, {zb1p, 1}, {zbv, 2}}) {
    body += stages_of(schedule, {stages, chunks, micro_batches}, y, unit);
    y += row * stages + 34;
  }
  expect_drawn("schedules.svg", svg(width, y - 22, "Schedules of a pipeline of four stages", body));
}

// Ranks of the same group have the same number and color.
std::string axis_row(const std::string& axis, const RankGroups& groups, double y, double unit) {
  constexpr std::array colours{"#56b4e9", "#e69f00", "#009e73", "#f0e442",
                               "#0072b2", "#d55e00", "#cc79a7", "#999999"};
  std::string out = label(8, y + row - 6, axis);
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    const auto group = static_cast<std::size_t>(groups[rank]);
    out += box(left + unit * static_cast<double>(rank), y, unit, colours[group], 0.5,
               std::to_string(group));
  }
  return out;
}

TEST(Pictures, OfPlaces) {
  const Mesh mesh{.pipeline = 2, .data = 2, .context = 2, .tensor = 2};
  constexpr int node = 4;
  constexpr double width = 720;
  const double unit = (width - left - 8) / mesh.gpus();
  // The group numbers of all stages: each stage has the groups of the first one, with new numbers.
  const auto of_all = [&](RankGroups groups) {
    const int more = *std::max_element(groups.begin(), groups.end()) + 1;
    for (int rank = mesh.stage_gpus(); rank < mesh.gpus(); ++rank) {
      groups.push_back(groups[static_cast<std::size_t>(rank - mesh.stage_gpus())] + more);
    }
    return groups;
  };
  RankGroups pipeline;
  for (int rank = 0; rank < mesh.gpus(); ++rank) pipeline.push_back(rank % mesh.stage_gpus());
  std::string body = label(8, 26 + row - 5, "GPU");
  for (int rank = 0; rank < mesh.gpus(); ++rank) {
    const double x = left + unit * rank;
    if (rank % node == 0) {
      body += label(x + 4, 18, fmt::format("node {}", rank / node), " font-weight=\"bold\"");
    }
    body += box(x, 26, unit, "#fff", 1, std::to_string(rank));
  }
  double y = 26 + row + 8;
  for (const auto& [axis, groups] :
       {std::pair{"tensor", of_all(axis_ranks(mesh, Axis::tensor))},
        {"context", of_all(axis_ranks(mesh, Axis::context))},
        {"data", of_all(strided_ranks(mesh, mesh.data, mesh.context * mesh.tensor))},
        {"pipeline", pipeline}}) {
    body += axis_row(axis, groups, y, unit);
    y += row + 4;
  }
  expect_drawn("places.svg", svg(width, y + 4, "Groups of ranks along each axis of a mesh", body));
}

}  // namespace
}  // namespace lockstep::pictures_test
