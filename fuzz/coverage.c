/* Tells libFuzzer which parts of the compiled kernel an input reaches.
 *
 * GCC knows no counters that libFuzzer reads, but calls a function on every edge
 * (-fsanitize-coverage=trace-pc), and so does Clang. It is linked into the kernel's own library,
 * hidden, so that the one of a sanitizer's runtime is not called in its place.
 */
#include <stddef.h>
#include <stdint.h>

#define BITS 16
#define SIZE ((size_t)1 << BITS)
#define HIDDEN __attribute__((visibility("hidden")))

static uint8_t counters[SIZE];
static uintptr_t edges[SIZE][2]; /* an address and flags each; libFuzzer wants as many as counters */

/* Of libFuzzer, where it is loaded for all to see. */
void __sanitizer_cov_8bit_counters_init(uint8_t *begin, uint8_t *end) __attribute__((weak));
void __sanitizer_cov_pcs_init(const uintptr_t *begin, const uintptr_t *end) __attribute__((weak));

HIDDEN void __sanitizer_cov_trace_pc(void) {
    /* By the distance within the library, which is the same in every process. */
    uint32_t place = (uint32_t)((uintptr_t)__builtin_return_address(0) - (uintptr_t)counters);
    counters[(place * 2654435769u) >> (32 - BITS)]++;
}

/* GCC reports comparisons of floating-point numbers too, and libFuzzer has no use for them. */
HIDDEN void __sanitizer_cov_trace_cmpf(float a, float b) { (void)a; (void)b; }
HIDDEN void __sanitizer_cov_trace_cmpd(double a, double b) { (void)a; (void)b; }

/* Where libFuzzer is not loaded nobody else has these; where it is, its own come first. */
#define ABSENT(type, n) \
    __attribute__((weak)) void __sanitizer_cov_trace_cmp##n(type a, type b) { (void)a; (void)b; } \
    __attribute__((weak)) void __sanitizer_cov_trace_const_cmp##n(type a, type b) { \
        (void)a; \
        (void)b; \
    }
ABSENT(uint8_t, 1)
ABSENT(uint16_t, 2)
ABSENT(uint32_t, 4)
ABSENT(uint64_t, 8)
__attribute__((weak)) void __sanitizer_cov_trace_switch(uint64_t value, uint64_t *cases) {
    (void)value;
    (void)cases;
}

__attribute__((constructor)) static void announce(void) {
    size_t i;
    for (i = 0; i < SIZE; i++)
        edges[i][0] = (uintptr_t)counters + i;
    if (__sanitizer_cov_8bit_counters_init && __sanitizer_cov_pcs_init) {
        __sanitizer_cov_8bit_counters_init(counters, counters + SIZE);
        __sanitizer_cov_pcs_init(edges[0], edges[0] + 2 * SIZE);
    }
}
