/// An HTML page in one file that needs nothing beside it: figures, tables, its style and a little script.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baleen {

/// What a cell shows, and the exact figure behind it, by which its column is sorted.
struct Cell {
  std::string text;
  std::optional<double> value;
};

struct Column {
  std::string name;
  bool is_figure = true;  ///< to the right, digits under digits
};

struct Table {
  std::string id;  ///< for links and programs
  std::string caption;
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  ///< a cell a column
  bool sortable = false;
};

/// A name and its colour's class.
struct LegendEntry {
  std::string style;
  std::string name;
};

struct Figure {
  std::string id;
  std::string title;
  std::string svg;      ///< drawn by this program
  std::string caption;  ///< what to see in it
  std::vector<LegendEntry> legend;
  std::optional<Table> table;  ///< its figures, folded
};

/// What made a page.
struct Provenance {
  std::string command;   ///< as typed in a shell
  std::string revision;  ///< what the program was built from
};

class HtmlPage {
 public:
  HtmlPage(std::string title, std::string subtitle, Provenance provenance)
      : title_(std::move(title)), subtitle_(std::move(subtitle)), provenance_(std::move(provenance)) {}

  void add_warning(std::string_view sentence);
  /// What one wants to know first: names, figures, and what they mean.
  struct KeyFigure {
    std::string name;
    std::string figure;
    std::string note;
  };
  void add_key_figures(const std::vector<KeyFigure>& figures);
  /// Side by side where there is room.
  void add_figures(const std::vector<Figure>& figures);
  void add_table(const Table& table);
  void add_text(std::string_view paragraph);

  [[nodiscard]] std::string text() const;

 private:
  std::string title_;
  std::string subtitle_;
  Provenance provenance_;
  std::string body_;
};

}  // namespace baleen
