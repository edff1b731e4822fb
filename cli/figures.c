#include "figures.h"

#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

void figure_count(uint64_t number, char text[FIGURE_BYTES])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    char *to = text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
}

/* Four digits, those before the point never cut. */
static void four_digits(double value, const char *unit, char text[FIGURE_BYTES])
{
    int decimals = value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0;
    snprintf(text, FIGURE_BYTES, "%.*f %s", decimals, value, unit);
}

void figure_time(uint64_t ns, char text[FIGURE_BYTES])
{
    static const char *const units[] = { "us", "ms", "s" };
    if (ns < 1000) {
        snprintf(text, FIGURE_BYTES, "%u ns", (unsigned)ns);
        return;
    }
    double value = (double)ns / 1000;
    size_t unit = 0;
    /* What would be rounded up to 1000 is already 1 of the next unit. */
    for (; unit + 1 < COUNT_OF(units) && value >= 999.95; unit++)
        value /= 1000;
    four_digits(value, units[unit], text);
}

void figure_share(uint64_t part, uint64_t whole, char text[FIGURE_BYTES])
{
    double percent = whole > 0 ? 100 * ((double)part / (double)whole) : 0;
    if (whole == 0)
        snprintf(text, FIGURE_BYTES, "-");
    else if (percent > 0 && percent < 0.095)
        snprintf(text, FIGURE_BYTES, "%.1g %%", percent);
    else
        snprintf(text, FIGURE_BYTES, "%.1f %%", percent);
}

void figure_rate(uint64_t items, uint64_t ns, char text[FIGURE_BYTES])
{
    static const char *const units[] = { "/s", "k/s", "M/s", "G/s", "T/s" };
    if (ns == 0) {
        snprintf(text, FIGURE_BYTES, "-");
        return;
    }
    double value = (double)items / (double)ns * 1e9;
    size_t unit = 0;
    for (; unit + 1 < COUNT_OF(units) && value >= 999.95; unit++)
        value /= 1000;
    four_digits(value, units[unit], text);
}
