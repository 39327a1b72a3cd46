#pragma once

#include <string>
#include <vector>

namespace mainstem::cli {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

/// Aligned columns with two spaces between them. The last column is wrapped where the line would
/// be longer than the output is wide.
///
///     Table table({{"site"}, {"rms", Align::kRight}});
///     table.add({"q", "1.25"});
///     print(table.text());
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);
  /// A line of its own between the rows.
  void add_heading(const std::string& text);
  /// The same within the columns' margin, in plain type.
  void add_line(std::string text);
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // one cell alone: a line as it is printed
};

}  // namespace mainstem::cli
