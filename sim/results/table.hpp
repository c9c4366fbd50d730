// One table, several renderings: aligned text for people, CSV, Markdown. Use it for every printed
// table. Cells are ready-made strings.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Columns and rows of texts.
class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
    bool begins_block = false;  // starts a new block if folded() divides the table
  };

  explicit Table(std::vector<Column> columns);
  // Throws std::logic_error if the number of cells is not the number of columns.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  std::string text() const;  // columns separated by two spaces, no trailing blanks
  // The text in lines of at most `width` columns. A table that is too wide is divided, if possible,
  // into blocks, one below the other, which all begin with the first `keys` columns.
  std::string folded(std::size_t width, std::size_t keys) const;
  std::string markdown() const;  // GitHub table; '|' in cells is escaped
  std::string csv() const;       // RFC 4180, header line first, "\n" line ends

 private:
  std::vector<std::size_t> widths() const;
  // The columns of each block, if the table can be divided.
  std::vector<std::vector<std::size_t>> blocks(std::size_t width, std::size_t keys) const;
  std::string lines(const std::vector<std::size_t>& chosen) const;  // columns

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "a &lt; b": text as HTML, in attributes too.
std::string html_text(const std::string& text);

// Characters a terminal shows for UTF-8 text (code points; our texts hold no wide characters).
std::size_t display_width(const std::string& text);

}  // namespace lockstep
