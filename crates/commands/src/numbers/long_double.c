/* Arithmetic of the machine's long double, declared for Rust in extended.rs. Texts are read and
   printed in the locale "C", whatever locale the process has set. Common numbers are read and
   printed by integer arithmetic, to the same result and several times as fast, if `quick`. */
#define _GNU_SOURCE
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef long double number;
_Static_assert(sizeof(number) <= 16 && _Alignof(number) <= 16, "larger than Rust's type");

/* Up to 19 digits and a point: an integer and a power of ten, both exact, so that their quotient is
   rounded once. */
static bool parse_common(number *n, const char *text, size_t len) {
    static const number powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
                                    1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
                                    1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L};
    const char *at = text + (*text == '-' || *text == '+'), *point = NULL;
    uint64_t value = 0;
    int digits = 0;
    if (LDBL_MANT_DIG < 64 || len > 19) return false;
    for (; (*at >= '0' && *at <= '9') || (*at == '.' && !point); at++) {
        if (*at == '.') {
            point = at + 1;
        } else {
            value = value * 10 + (uint64_t)(*at - '0');
            digits++;
        }
    }
    if (at != text + len || digits == 0) return false;
    *n = (number)value / powers[point ? at - point : 0];
    if (*text == '-') *n = -*n;
    return true;
}

/* Numbers below 2^63, of the format whose fraction times 10^17 fits 128 bits. */
static int print_common(number n, char *text, size_t size) {
#if LDBL_MANT_DIG == 64 && defined(__SIZEOF_INT128__)
    const uint64_t scale = 100000000000000000;
    number magnitude = fabsl(n);
    if (!(magnitude < 0x1p63L)) return 0;
    uint64_t whole = (uint64_t)magnitude, fraction = 0;
    int exponent;
    number mantissa = frexpl(magnitude - whole, &exponent);
    unsigned __int128 scaled = (unsigned __int128)(uint64_t)ldexpl(mantissa, 64) * scale;
    int shift = 64 - exponent;
    if (scaled != 0 && shift < 128) {
        unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
        unsigned __int128 rest = scaled & (half | (half - 1));
        fraction = (uint64_t)(scaled >> shift);
        fraction += rest > half || (rest == half && fraction % 2 == 1);
    }
    whole += fraction / scale;
    return snprintf(text, size, "%s%llu.%017llu", signbit(n) ? "-" : "", (unsigned long long)whole,
                    (unsigned long long)(fraction % scale));
#else
    (void)n, (void)text, (void)size;
    return 0;
#endif
}

bool petrel_ld_parse(number *n, const char *text, size_t len, bool quick) {
    char *end;
    if (quick && parse_common(n, text, len)) return true;
    locale_t plain = newlocale(LC_ALL_MASK, "C", 0), before = uselocale(plain);
    errno = 0;
    *n = strtold(text, &end);
    bool beyond = errno == ERANGE && (isinf(*n) || *n == 0);
    uselocale(before);
    freelocale(plain);
    return end == text + len && !beyond && !isnan(*n);
}

int petrel_ld_print(const number *n, char *text, size_t size, bool quick) {
    int len = quick ? print_common(*n, text, size) : 0;
    if (len > 0) return len;
    locale_t plain = newlocale(LC_ALL_MASK, "C", 0), before = uselocale(plain);
    len = snprintf(text, size, "%.17Lf", *n);
    uselocale(before);
    freelocale(plain);
    return len;
}

bool petrel_ld_millis(const number *seconds, int64_t *millis) {
    number rounded = ceill(*seconds * 1000);
    bool fits = rounded >= -0x1p63L && rounded < 0x1p63L;
    *millis = fits ? (int64_t)rounded : 0;
    return fits;
}

void petrel_ld_from_int(number *n, int64_t value) { *n = value; }
void petrel_ld_limit(number *n, int sign) { *n = sign * LDBL_MAX; }
void petrel_ld_add(number *n, const number *other, int sign) { *n += sign * *other; }
int petrel_ld_compare(const number *a, const number *b) { return (*a > *b) - (*a < *b); }
bool petrel_ld_is_finite(const number *n) { return isfinite(*n); }
double petrel_ld_to_double(const number *n) { return (double)*n; }
