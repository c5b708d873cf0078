// Sums of exponentials, in registers; a maximum and the sum below it, of a row that is walked once. Read by cpp_math.py like
// cpp_prelude.h.

//@ mc_vpart
// The first n ≤ 16 elements, and -inf for the rest.
#ifdef MC_AVX512
static inline mc_vec mc_vpart(const float *x, int64_t n) {
  const uint16_t mask = (uint16_t)(n < 16 ? (1u << n) - 1 : 0xffff);
  return __builtin_ia32_loadups512_mask(x, mc_splat(-__builtin_inff()), mask);
}
#endif

//@ mc_vsum mc_vtop mc_vhalf
// Across a vector, by halves; the sum in double.
#ifdef MC_AVX512
template <class T> struct mc_vhalf { typedef T type __attribute__((vector_size(32))); };
static inline double mc_vsum(mc_vec x) {
  mc_vhalf<float>::type part[2];
  mc_vhalf<double>::type half[2];
  __builtin_memcpy(part, &x, sizeof x);
  const mc_vecd all = __builtin_convertvector(part[0], mc_vecd) + __builtin_convertvector(part[1], mc_vecd);
  __builtin_memcpy(half, &all, sizeof all);
  half[0] += half[1];
  return (half[0][0] + half[0][2]) + (half[0][1] + half[0][3]);
}
static inline float mc_vtop(mc_vec x) {
  mc_vhalf<float>::type part[2];
  __builtin_memcpy(part, &x, sizeof x);
  part[0] = part[0] > part[1] ? part[0] : part[1];
  float top[4];
  for (int k = 0; k < 4; ++k) top[k] = part[0][k] > part[0][k + 4] ? part[0][k] : part[0][k + 4];
  top[0] = top[0] > top[2] ? top[0] : top[2];
  top[1] = top[1] > top[3] ? top[1] : top[3];
  return top[0] > top[1] ? top[0] : top[1];
}
#endif

//@ mc_block_top
// The greatest number of a block; `nans`: NaN if one is (one comparison finds it in two vectors), else those are left out.
template <bool nans> static inline float mc_block_top(const float *x, int64_t n) {
  float top = -__builtin_inff();
  int32_t nan = 0;
#ifdef MC_AVX512
  typedef float unaligned __attribute__((vector_size(64), aligned(4)));
  const int64_t whole = n / 64 * 64;
  mc_vec tops[4] = {mc_splat(top), mc_splat(top), mc_splat(top), mc_splat(top)};
  uint16_t found = 0;
  const auto look = [&](mc_vec a, mc_vec b) __attribute__((always_inline)) {
    if (nans) found |= __builtin_ia32_cmpps512_mask(a, b, 3, -1, 4);
  };
  for (int64_t i = 0; i < whole; i += 64)
    for (int k = 0; k < 4; k += 2) {
      const mc_vec a = *(const unaligned *)(x + i + 16 * k), b = *(const unaligned *)(x + i + 16 * k + 16);
      tops[k] = mc_vmax(a, tops[k]);
      tops[k + 1] = mc_vmax(b, tops[k + 1]);
      look(a, b);
    }
  for (int64_t i = whole; i < n; i += 16) {
    const mc_vec a = mc_vpart(x + i, n - i);
    tops[0] = mc_vmax(a, tops[0]);
    look(a, a);
  }
  nan = found;
  top = mc_vtop(mc_vmax(mc_vmax(tops[0], tops[1]), mc_vmax(tops[2], tops[3])));
#else
#pragma omp simd reduction(max:top) reduction(|:nan)
  for (int64_t i = 0; i < n; ++i) { top = x[i] > top ? x[i] : top; nan |= x[i] != x[i]; }
#endif
  return nans && nan ? __builtin_nanf("") : top;
}

//@ mc_exp_below
// e^t for t ≤ 0 as a term of a sum that is at least 1: what is below e^-86 may be that. The reduction is one step (t is a
// difference, as wrong as n · ln 2 then is); a minimax polynomial of 1 + r + …, 0.6 ulp.
#ifdef MC_AVX512
static inline mc_vec mc_exp_below(mc_vec t) {
  t = mc_vmax(mc_splat(-86.0f), t);
  mc_vec m = mc_vfma(t, mc_splat(1.44269504f), mc_splat(12582912.0f)), n = m - 12582912.0f;
  mc_vec r = mc_vfma(n, mc_splat(-0.693147181f), t);
  mc_vec p = mc_vfma(mc_splat(1.381453997e-3f), r, mc_splat(8.368745257e-3f));
  p = mc_vfma(p, r, mc_splat(4.16683908e-2f));
  p = mc_vfma(p, r, mc_splat(1.66665204e-1f));
  p = mc_vfma(p, r, mc_splat(4.999999343e-1f));
  p = mc_vfma(p, r, mc_splat(1.0f));
  return mc_vscale(mc_vfma(p, r, mc_splat(1.0f)), n);
}
#endif

//@ mc_sum_below
// Σ exp(x - top) of a block; top is finite and no x is greater. NaN if one is. `fetch(i)` comes before each 32 elements.
template <class F> static inline double mc_sum_below(const float *x, float top, int64_t n, F fetch) {
  const int64_t whole = n / 64 * 64;
  double sum = 0;
#ifdef MC_AVX512
  typedef float unaligned __attribute__((vector_size(64), aligned(4)));
  mc_vec sums[4] = {};
  for (int64_t i = 0; i < whole; i += 64)
    for (int k = 0; k < 4; ++k) {
      if (k % 2 == 0) fetch(i + 16 * k);
      sums[k] += mc_exp_below(*(const unaligned *)(x + i + 16 * k) - top);
    }
  for (int64_t i = whole; i < n; i += 16) sums[0] += mc_exp_below(mc_vpart(x + i, n - i) - top);
  sum = mc_vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
#else
  alignas(64) float sums[64] = {};
  for (int64_t i = 0; i < whole; i += 64) {
    fetch(i);
    fetch(i + 32);
#pragma omp simd
    for (int64_t k = 0; k < 64; ++k) sums[k] += mc_exp(x[i + k] - top);
  }
  for (int64_t i = whole; i < n; ++i) sums[i - whole] += mc_exp(x[i] - top);
  for (int64_t k = 0; k < 64; ++k) sum += sums[k];
#endif
  return sum;
}

//@ mc_exp_sum
// Σ exp(x - top) of a block; `kept`: y[i] = exp(x[i] - top). `fetch(i)` comes before each 32 elements.
template <bool kept, class F> static inline double mc_exp_sum(const float *x, float top, float *y, int64_t n, F fetch) {
  double sum = 0;
#ifdef MC_AVX512
  typedef float unaligned __attribute__((vector_size(64), aligned(4)));
  mc_vec sums[4] = {};
  const int64_t whole = n / 16 * 16;
  int64_t i = 0;
  const auto take = [&](int64_t at, mc_vec &into) __attribute__((always_inline)) {
    const mc_vec e = mc_vexp(*(const unaligned *)(x + at) - top);
    if (kept) *(unaligned *)(y + at) = e;
    into += e;
  };
  for (; i + 64 <= n; i += 64)
    for (int k = 0; k < 4; ++k) {
      if (k % 2 == 0) fetch(i + 16 * k);
      take(i + 16 * k, sums[k]);
    }
  for (; i < whole; i += 16) take(i, sums[0]);
  if (i < n) {
    const mc_vec e = mc_vexp(mc_vpart(x + i, n - i) - top);
    if (kept) __builtin_ia32_storeups512_mask(y + i, e, (uint16_t)((1u << (n - i)) - 1));
    for (int64_t k = 0; k < n - i; ++k) sum += e[k];
  }
  sum += mc_vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
#else
  for (int64_t i = 0; i < n; i += 32) fetch(i);
#pragma omp simd reduction(+:sum)
  for (int64_t i = 0; i < n; ++i) {
    const float e = mc_exp(x[i] - top);
    if (kept) y[i] = e;
    sum += e;
  }
#endif
  return sum;
}

//@ mc_share
// x / sum as rounded once, for 0 ≤ x ≤ 1 ≤ sum, from 1 / sum, which is the same for a whole row: P. Markstein, "Computation of
// elementary functions on the IBM RISC System/6000 processor" (1990).
static inline float mc_share(float x, float sum, float over) {
  const float q = x * over;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return mc_fma(mc_fma(-q, sum, x), over, q);
#else
  return x / sum;
#endif
}

//@ mc_Online mc_online_raise mc_online_block mc_online_join mc_online_top mc_online_sum
// M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018), a block at a time: a greater maximum
// rescales the sum, seldom, in double. The sum is NaN if an element is. Beside an infinite maximum it is 0 or NaN.
struct mc_Online { float top = -__builtin_inff(); double sum = 0; };
static inline void mc_online_raise(mc_Online &to, float top) {
  if (!(top > to.top)) return;
  to.sum *= mc_exp((double)to.top - (double)top);
  to.top = top;
}
template <class F> static inline void mc_online_block(mc_Online &to, const float *x, int64_t n, F fetch) {
  mc_online_raise(to, mc_block_top<false>(x, n));
  if (!mc_isinf(to.top)) { to.sum += mc_sum_below(x, to.top, n, fetch); return; }
  int32_t nan = 0;
#pragma omp simd reduction(|:nan)
  for (int64_t i = 0; i < n; ++i) nan |= x[i] != x[i];
  if (nan) to.sum = __builtin_nan("");
}
static inline void mc_online_join(mc_Online &to, mc_Online part) {
  mc_online_raise(to, part.top);
  to.sum += mc_isinf(to.top) ? 0 * part.sum : part.sum * mc_exp((double)part.top - (double)to.top);
}
static inline float mc_online_top(mc_Online of) { return of.sum != of.sum ? __builtin_nanf("") : of.top; }
// Σ exp(x - top); `finite`: Σ exp(x) if top is infinite, which is what logsumexp asks for. Else inf - inf is in the sum.
static inline double mc_online_sum(mc_Online of, bool finite) {
  if (!mc_isinf(of.top) || of.sum != of.sum) return of.sum;
  return !finite ? __builtin_nan("") : of.top > 0 ? __builtin_inf() : 0.0;
}
