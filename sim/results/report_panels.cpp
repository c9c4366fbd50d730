// See report_panels.hpp. report/timeline.js draws the timelines.
#include "results/report_panels.hpp"

#include <fmt/format.h>

#include <set>

#include "results/cells.hpp"
#include "results/table.hpp"

namespace lockstep {

namespace {

// The colours in use and what they mean.
std::string key_of(const std::vector<StepTimeline>& timelines) {
  std::set<SliceKind> used;
  for (const StepTimeline& timeline : timelines) {
    for (const TimelineLane& lane : timeline.lanes) {
      for (const TimelineSlice& slice : lane.slices) used.insert(slice.kind);
    }
  }
  std::string items;
  for (const SliceKind kind : used) {
    const SliceKindText& text = slice_kinds[static_cast<std::size_t>(kind)];
    items += fmt::format("<li><i{} data-colour={}></i>{}</li>\n",
                         is_wait(kind) ? " class=wait" : "", text.colour, text.heading);
  }
  return "<ul class=key>\n" + items + "</ul>\n";
}

std::string button(const char* does, const char* name, const char* shown) {
  return fmt::format("<button type=button data-do={} aria-label=\"{}\" title=\"{}\">{}</button>\n",
                     does, name, name, shown);
}

std::string tools() {
  return "<div class=tools role=toolbar aria-label=\"What is shown of the step\">\n" +
         button("in", "Zoom in", "+") + button("out", "Zoom out", "−") +
         button("earlier", "Earlier", "←") + button("later", "Later", "→") +
         button("whole", "Whole step", "Whole step") + "<span class=range></span></div>\n";
}

std::string note_of(const StepTimeline& timeline) {
  std::string note = fmt::format("Step {} of rank {} lasts {}.", timeline.step, timeline.rank,
                                 seconds_text(timeline.seconds));
  if (timeline.merged_seconds > 0) {
    std::size_t drawn = 0;
    int operations = 0;
    for (const TimelineLane& lane : timeline.lanes) {
      for (const TimelineSlice& slice : lane.slices) {
        ++drawn;
        operations += slice.merged;
      }
    }
    note += fmt::format(
        " Neighbours shorter than {} are drawn as one: {} bars stand for {} operations and waits.",
        seconds_text(timeline.merged_seconds), drawn, operations);
  }
  if (timeline.host_is_done) note += " Its host had issued all of it before.";
  if (timeline.left_out > 0) {
    note += fmt::format(" {} more ways to servers, alike, are not drawn.", timeline.left_out);
  }
  return note;
}

}  // namespace

std::string timelines_html(const ReportChapter& chapter, std::size_t number) {
  if (chapter.timelines.empty()) return "";
  std::string lanes;
  for (std::size_t i = 0; i < chapter.timelines.size(); ++i) {
    const StepTimeline& timeline = chapter.timelines[i];
    const std::string title = point_text(timeline.strategy, timeline.gpus);
    lanes += fmt::format(
        "<section><h3 id=\"timeline-{0}-{1}\">{2}</h3>\n<p id=\"timeline-{0}-{1}-says\">{3}</p>\n"
        "<canvas data-timeline=\"{1}\" role=img tabindex=0 aria-labelledby=\"timeline-{0}-{1}\" "
        "aria-describedby=\"timeline-{0}-{1}-says timeline-{0}-keys\"></canvas></section>\n",
        number, i, html_text(title), html_text(note_of(timeline)));
  }
  return fmt::format(
      "<figure class=\"panel wide timelines\" id=\"timeline-{0}\" data-chapter=\"{0}\">\n"
      "<figcaption><h2>One step as a timeline</h2>\n<p>A lane for each stream of one rank, while "
      "its "
      "device is in one step; narrow bars say why a stream stands still. The host runs ahead: what "
      "it issues may belong to the next step.</p>\n<p class=keys id=\"timeline-{0}-keys\">Drag to "
      "move. Click, then the wheel zooms; double click shows one bar. Keys: arrows go from bar to "
      "bar and lane to lane, Shift and arrows move, + and − zoom, Enter shows the bar, Home the "
      "whole step.</p>\n<p class=touch>Drag to move; two fingers "
      "zoom.</p></figcaption>\n{1}{2}{3}<div class=live aria-live=polite></div>\n"
      "<div class=tip aria-hidden=true hidden></div>\n"
      "<details class=listing><summary>What is in view, bar by bar</summary>"
      "<div class=scroll tabindex=0></div></details>\n"
      "<details><summary>The lanes as a table</summary><div class=scroll tabindex=0>{4}</div>"
      "</details>\n</figure>\n",
      number, tools(), key_of(chapter.timelines), lanes,
      timeline_table(chapter.timelines).html("One step as a timeline"));
}

std::string peak_html(const ReportChapter& chapter) {
  using Align = Table::Align;
  std::string parts;
  for (const MemoryCurve& curve : chapter.memory) {
    if (curve.at_peak.empty()) continue;
    double all = 0;
    for (const MemoryCurve::Tensors& one : curve.at_peak) all += one.bytes;
    Table table(
        {{"name", Align::left}, {"kind", Align::left}, {"tensors"}, {"bytes"}, {"of the peak"}});
    for (const MemoryCurve::Tensors& one : curve.at_peak) {
      table.add_row({one.name, one.kind.empty() ? "-" : one.kind, std::to_string(one.count),
                     bytes_text(one.bytes), percent(one.bytes / all)});
    }
    const std::string title = point_text(curve.strategy, curve.gpus);
    parts += fmt::format(
        "<details{}><summary>{}: {} at {}</summary><div class=scroll tabindex=0>{}</div>"
        "</details>\n",
        parts.empty() ? " open" : "", html_text(title), bytes_text(all),
        html_text(curve.peak_moment), table.html("What lives at the peak of " + title));
  }
  if (parts.empty()) return "";
  return "<section class=\"panel wide peak\"><h2>What lives at the peak</h2>\n<p>The largest "
         "tensors of one GPU when most is allocated, blocks rounded as the allocator rounds them; "
         "with the others they are the whole peak.</p>\n" +
         parts + "</section>\n";
}

std::string panel_html(const std::string& title, const std::string& content) {
  return fmt::format("<section class=\"panel wide\"><h2>{}</h2>\n{}</section>\n", html_text(title),
                     content);
}

std::string answer_html(const Answer& told) {
  std::string out = "<section class=answer aria-label=\"The answer\">\n";
  for (const std::string& sentence : told.sentences) out += "<p>" + html_text(sentence) + "</p>\n";
  out += "</section>\n";
  if (told.highlights.empty()) return out;
  out += "<dl class=cards>\n";
  for (const Highlight& one : told.highlights) {
    out += fmt::format(
        "<div class=card><dt>{}</dt><dd class=value>{}</dd><dd class=detail>{}</dd></div>\n",
        html_text(one.title), html_text(one.value), html_text(one.detail));
  }
  return out + "</dl>\n";
}

}  // namespace lockstep
