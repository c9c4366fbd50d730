// The charts of a chapter: what each shows, and the same as a table. report/page.js draws them.
#pragma once

#include <string>
#include <vector>

#include "results/report.hpp"
#include "results/table.hpp"

namespace lockstep {

struct Chart {
  const char* name;  // of its function in page.js
  const char* title;
  std::string caption;
  Table table;
  bool wide = false;  // takes a whole row of the page
};

// Those that have something to show.
std::vector<Chart> charts_of(const ReportChapter& chapter);
// Price against time; without rows where nothing has a price.
Chart price_chart(const ResultRecord& record);

// `chapter`: whose figures it draws, as the page's script knows them.
std::string chart_html(const Chart& chart, const std::string& chapter);

}  // namespace lockstep
