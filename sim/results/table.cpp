// Renders a table as aligned text, Markdown or CSV. A table that is too wide for a terminal is
// folded into blocks of columns, one below the other, each with the key columns in front:
//
//     strategy  GPUs    step   total
//     ddp          4  312 ms  2.1 h
//
//     strategy  GPUs  free     MFU
//     ddp          4  9.1 GiB  41.0 %
#include "results/table.hpp"

#include <algorithm>
#include <stdexcept>

namespace lockstep {

namespace {

// A cell in quotes if it contains a separator (RFC 4180).
std::string csv_cell(const std::string& cell) {
  if (cell.find_first_of(",\"\n\r") == std::string::npos) return cell;
  std::string quoted = "\"";
  for (const char c : cell) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

// A cell on one line, with '|' escaped.
std::string markdown_cell(const std::string& cell) {
  std::string escaped;
  for (const char c : cell) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

}  // namespace

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](unsigned char c) {
    return (c & 0xC0U) != 0x80U;  // counts every byte except UTF-8 continuation bytes
  }));
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size()) throw std::logic_error("table row of the wrong length");
  rows_.push_back(std::move(cells));
}

// Width of each column in characters, title included.
std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = display_width(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  return widths;
}

// The aligned text of the chosen columns.
std::string Table::lines(const std::vector<std::size_t>& chosen) const {
  const std::vector<std::size_t> wide = widths();
  std::string out;
  auto line = [&](auto cell_of) {
    std::string text;
    for (const std::size_t i : chosen) {
      const std::string& cell = cell_of(i);
      const std::string pad(wide[i] - display_width(cell), ' ');
      if (i != chosen.front()) text += "  ";
      text += columns_[i].align == Align::left ? cell + pad : pad + cell;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    std::replace(text.begin(), text.end(), '\n', ' ');
    out += text + "\n";
  };
  line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](std::size_t i) -> const std::string& { return row[i]; });
  return out;
}

std::string Table::text() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < columns_.size(); ++i) all.push_back(i);
  return lines(all);
}

// Divides columns greedily into blocks of at most `width` characters. A column with begins_block
// starts a block; every block repeats the first `keys` columns.
std::vector<std::vector<std::size_t>> Table::blocks(std::size_t width, std::size_t keys) const {
  constexpr std::size_t between = 2;
  const std::vector<std::size_t> wide = widths();
  std::vector<std::size_t> first;
  std::size_t of_keys = 0;
  for (std::size_t i = 0; i < keys; ++i) {
    first.push_back(i);
    of_keys += wide[i] + (i > 0 ? between : 0);
  }
  std::vector<std::vector<std::size_t>> list{first};
  std::size_t used = of_keys;
  for (std::size_t i = keys; i < columns_.size(); ++i) {
    const bool is_full = columns_[i].begins_block || used + between + wide[i] > width;
    if (is_full && list.back().size() > keys) {
      list.push_back(first);
      used = of_keys;
    }
    list.back().push_back(i);
    used += between + wide[i];
  }
  return list;
}

std::string Table::folded(std::size_t width, std::size_t keys) const {
  const std::vector<std::size_t> wide = widths();
  std::size_t whole = 0;
  for (const std::size_t column : wide) whole += column + (whole > 0 ? 2 : 0);
  if (whole <= width) return text();
  // Use as few blocks as possible. Narrow the width while the number of blocks stays the same: the
  // columns then spread evenly, and a block has a single column only if this is unavoidable.
  auto list = blocks(width, keys);
  for (std::size_t narrower = width; narrower > 0; --narrower) {
    auto even = blocks(narrower, keys);
    if (even.size() > list.size()) break;
    list = std::move(even);
  }
  std::string out;
  for (const auto& block : list) out += (out.empty() ? "" : "\n") + lines(block);
  return out;
}

std::string Table::markdown() const {
  std::string out = "|";
  for (const auto& column : columns_) out += " " + markdown_cell(column.title) + " |";
  out += "\n|";
  for (const auto& column : columns_) out += column.align == Align::left ? " --- |" : " ---: |";
  out += "\n";
  for (const auto& row : rows_) {
    out += "|";
    for (const auto& cell : row) out += " " + markdown_cell(cell) + " |";
    out += "\n";
  }
  return out;
}

std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Table::csv() const {
  std::string out;
  auto line = [&](auto cell_of, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + csv_cell(cell_of(i));
    out += "\n";
  };
  line([&](std::size_t i) { return columns_[i].title; }, columns_.size());
  for (const auto& row : rows_) line([&](std::size_t i) { return row[i]; }, row.size());
  return out;
}

}  // namespace lockstep
