#include "table.h"

#include "utf8.h"

#include <stdio.h>

typedef char cell[TABLE_CELL_BYTES];

static void print_row(const struct table_column *columns, size_t column_count, const size_t *widths,
                      cell *cells, struct output *out)
{
    size_t last = 0;
    for (size_t i = 0; i < column_count; i++)
        if (!columns[i].hidden && cells[i][0])
            last = i;
    bool first = true;
    for (size_t i = 0; i <= last; i++) {
        if (columns[i].hidden)
            continue;
        if (!first)
            output_text(out, "  ");
        first = false;
        /* No spaces at the end of a line. */
        output_column(out, cells[i], i == last && !columns[i].right ? 0 : widths[i],
                      columns[i].right);
    }
    output_text(out, "\n");
}

void table_print(const struct table_column *columns, size_t column_count, table_row row,
                 const void *rows, size_t row_count, struct output *out)
{
    cell cells[TABLE_COLUMNS_MAX];
    size_t widths[TABLE_COLUMNS_MAX] = { 0 };
    for (size_t i = 0; i < column_count; i++)
        widths[i] = utf8_count(columns[i].title);
    for (size_t index = 0; index < row_count; index++) {
        row(rows, index, cells);
        for (size_t i = 0; i < column_count; i++) {
            size_t width = utf8_count(cells[i]);
            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
    for (size_t i = 0; i < column_count; i++)
        snprintf(cells[i], sizeof cells[i], "%s", columns[i].title);
    print_row(columns, column_count, widths, cells, out);
    for (size_t index = 0; index < row_count && !output_failed(out); index++) {
        row(rows, index, cells);
        print_row(columns, column_count, widths, cells, out);
    }
}
