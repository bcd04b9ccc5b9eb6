#include "plots/html_page.h"

#include <fmt/format.h>

#include "base/check.h"
#include "plots/markup.h"
#include "plots/page_parts.h"

namespace baleen {
namespace {

std::string table_text(const Table& table) {
  std::string text = fmt::format(
      R"(<div class="scroll" role="region" aria-label="{0}" tabindex="0"><table id="{1}"{2}><caption>{0}</caption>)",
      escaped(table.caption), escaped(table.id), table.sortable ? R"( class="sortable")" : "");
  text += "<thead><tr>";
  for (const Column& column : table.columns) {
    text += fmt::format(R"(<th scope="col"{}>{}</th>)", column.is_figure ? R"( class="figure")" : "",
                        escaped(column.name));
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : table.rows) {
    BALEEN_CHECK(row.size() == table.columns.size());
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string value =
          row[i].value ? fmt::format(R"( data-value="{}")", number_text(*row[i].value)) : "";
      const std::string_view style = table.columns[i].is_figure ? R"( class="figure")" : "";
      text += i == 0 ? fmt::format(R"(<th scope="row"{}{}>{}</th>)", style, value, escaped(row[i].text))
                     : fmt::format("<td{}{}>{}</td>", style, value, escaped(row[i].text));
    }
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n";
}

}  // namespace

void HtmlPage::add_warning(std::string_view sentence) {
  body_ += fmt::format(R"(<p class="warning" role="alert">{}</p>)", escaped(sentence)) + "\n";
}

void HtmlPage::add_key_figures(const std::vector<KeyFigure>& figures) {
  body_ += "<dl class=\"key\">\n";
  for (const KeyFigure& key : figures) {
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>\n", escaped(key.name),
                         escaped(key.figure), escaped(key.note));
  }
  body_ += "</dl>\n";
}

void HtmlPage::add_figures(const std::vector<Figure>& figures) {
  body_ += "<div class=\"figures\">\n";
  for (const Figure& figure : figures) {
    body_ += fmt::format("<figure id=\"{}\"><h2>{}</h2>\n<p>{}</p>\n", escaped(figure.id),
                         escaped(figure.title), escaped(figure.caption));
    if (!figure.legend.empty()) {
      body_ += "<ul class=\"legend\">";
      for (const LegendEntry& entry : figure.legend)
        body_ += fmt::format(R"(<li><span class="swatch {}"></span>{}</li>)", escaped(entry.style),
                             escaped(entry.name));
      body_ += "</ul>\n";
    }
    body_ += fmt::format(
        "<div class=\"scroll drawing\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">{}</div>\n",
        escaped(figure.title), figure.svg);
    if (figure.table)
      body_ += "<details><summary>As figures</summary>" + table_text(*figure.table) + "</details>\n";
    body_ += "</figure>\n";
  }
  body_ += "</div>\n";
}

void HtmlPage::add_table(const Table& table) { body_ += "<section>" + table_text(table) + "</section>\n"; }

void HtmlPage::add_text(std::string_view paragraph) {
  body_ += fmt::format("<p>{}</p>\n", escaped(paragraph));
}

std::string HtmlPage::text() const {
  // Nothing from elsewhere can be loaded, whatever stands in the page.
  constexpr std::string_view kPolicy =
      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n<header><h1>{}</h1>\n<p>{}</p></"
      "header>\n{}<footer><p>Made by <code>{}</code>, revision <code>{}</code>.</p></footer>\n</main>\n"
      "<script>\n{}</script>\n</body>\n</html>\n",
      kPolicy, escaped(title_), page_style(), escaped(title_), escaped(subtitle_), body_,
      escaped(provenance_.command), escaped(provenance_.revision), page_script());
}

}  // namespace baleen
