// A table of texts, rendered as aligned text for people, as CSV or as Markdown. Every printed table
// uses it.
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
    bool begins_block = false;  // begins a new block if folded() divides the table
  };

  explicit Table(std::vector<Column> columns);
  // Throws std::logic_error if the number of cells is not the number of columns.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  std::string text() const;  // columns separated by two spaces, without blanks at the ends of lines
  // The text in lines of at most `width` columns, if possible. A table that is too wide is divided
  // into blocks, one below the other, and each block repeats the first `keys` columns.
  std::string folded(std::size_t width, std::size_t keys) const;
  std::string markdown() const;  // GitHub's table syntax; '|' in cells is escaped
  std::string csv() const;       // RFC 4180, with a header line, lines end with "\n"

 private:
  std::vector<std::size_t> widths() const;
  // The columns of each block of a divided table.
  std::vector<std::vector<std::size_t>> blocks(std::size_t width, std::size_t keys) const;
  std::string lines(const std::vector<std::size_t>& chosen) const;  // renders these columns

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Escapes text for HTML, also in attributes: "a < b" becomes "a &lt; b".
std::string html_text(const std::string& text);

// Number of characters that a terminal shows for UTF-8 text. Counts code points, because our texts
// have no wide characters.
std::size_t display_width(const std::string& text);

}  // namespace lockstep
