// Sums of exponentials, in registers; a maximum and the sum below it, of a row that is walked once. Read by cpp_math.py like
// cpp_prelude.h.

//@ mc_vpart
// The first n ≤ MC_LANES elements, and -inf for the rest.
#ifdef MC_AVX512
static inline mc_vec mc_vpart(const float *x, int64_t n) {
  return __builtin_ia32_loadups512_mask(x, mc_splat(-__builtin_inff()), (uint16_t)((1u << n) - 1));
}
#elif defined(MC_VECTORS)
static inline mc_vec mc_vpart(const float *x, int64_t n) {
  return mc_vfirst({n}) ? mc_vload(x, mc_First{n}) : mc_splat(-__builtin_inff());
}
#endif

//@ mc_vsum mc_vtop mc_vhalf
// Across a vector, by halves; the sum in double.
#ifdef MC_VECTORS
typedef float mc_vhalf __attribute__((vector_size(2 * MC_LANES)));
static inline double mc_vsum(mc_vec x) {
  mc_vhalf part[2];
  __builtin_memcpy(part, &x, sizeof x);
  const mc_vecd all = __builtin_convertvector(part[0], mc_vecd) + __builtin_convertvector(part[1], mc_vecd);
  double sum[2] = {};
  for (int k = 0; k < MC_LANES / 2; ++k) sum[k % 2] += all[k];
  return sum[0] + sum[1];
}
static inline float mc_vtop(mc_vec x) {
  mc_vhalf part[2];
  __builtin_memcpy(part, &x, sizeof x);
  part[0] = part[0] > part[1] ? part[0] : part[1];
  float top = part[0][0];
  for (int k = 1; k < MC_LANES / 2; ++k) top = top > part[0][k] ? top : part[0][k];
  return top;
}
#endif

//@ mc_block_top
// The greatest number of a block; `nans`: NaN if one is (one comparison finds it in two vectors), else those are left out.
template <bool nans> static inline float mc_block_top(const float *x, int64_t n) {
  float top = -__builtin_inff();
  int32_t nan = 0;
#ifdef MC_VECTORS
  const int64_t whole = n / (4 * MC_LANES) * (4 * MC_LANES);
  mc_vec tops[4] = {mc_splat(top), mc_splat(top), mc_splat(top), mc_splat(top)};
  const auto look = [&](mc_vec a, mc_vec b) __attribute__((always_inline)) {
    if (nans) nan |= MC_COMPARED(a, b, MC_UNORDERED);
  };
  for (int64_t i = 0; i < whole; i += 4 * MC_LANES)
    for (int k = 0; k < 4; k += 2) {
      const mc_vec a = mc_vload(x + i + MC_LANES * k, mc_Every()), b = mc_vload(x + i + MC_LANES * (k + 1), mc_Every());
      tops[k] = mc_vmax(a, tops[k]);
      tops[k + 1] = mc_vmax(b, tops[k + 1]);
      look(a, b);
    }
  for (int64_t i = whole; i < n; i += MC_LANES) {
    const mc_vec a = mc_vpart(x + i, n - i < MC_LANES ? n - i : MC_LANES);
    tops[0] = mc_vmax(a, tops[0]);
    look(a, a);
  }
  top = mc_vtop(mc_vmax(mc_vmax(tops[0], tops[1]), mc_vmax(tops[2], tops[3])));
#else
#pragma omp simd reduction(max:top) reduction(|:nan)
  for (int64_t i = 0; i < n; ++i) { top = x[i] > top ? x[i] : top; nan |= x[i] != x[i]; }
#endif
  return nans && nan ? __builtin_nanf("") : top;
}

//@ mc_exp_below
// e^t for t ≤ 0 as a term of a sum that is at least 1: what is below e^-86 may be that. The reduction is one step: t is a
// difference, as wrong as n · ln 2 then is.
#ifdef MC_VECTORS
static inline mc_vec mc_exp_below(mc_vec t) {
  t = mc_vmax(mc_splat(-86.0f), t);
  mc_vec m = mc_vfma(t, mc_splat(1.44269504f), mc_splat(12582912.0f)), n = m - 12582912.0f;
  mc_vec p = mc_vexp_poly(mc_vfma(n, mc_splat(-0.693147181f), t));
#ifdef MC_AVX512
  return mc_vscale(p, n);
#else
  return p * (mc_vec)(((mc_veci)m << 23) + 0x3f800000);  // a product leaves NaN what it is
#endif
}
#endif

//@ mc_sum_below
// Σ exp(x - top) of a block; top is finite and no x is greater. NaN if one is. `fetch(i)` comes before each 32 elements.
template <class F> static inline double mc_sum_below(const float *x, float top, int64_t n, F fetch) {
  double sum = 0;
#ifdef MC_VECTORS
  mc_vec sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * MC_LANES <= n; i += 4 * MC_LANES)
    for (int k = 0; k < 4; ++k) {
      const int64_t at = i + MC_LANES * k;
      if (MC_LANES * k % 32 == 0) fetch(at);
      sums[k] += mc_exp_below(mc_vload(x + at, mc_Every()) - top);
    }
  for (; i < n; i += MC_LANES) sums[0] += mc_exp_below(mc_vpart(x + i, n - i < MC_LANES ? n - i : MC_LANES) - top);
  sum = mc_vsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
#else
  const int64_t whole = n / 64 * 64;
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
#ifdef MC_VECTORS
  mc_vec sums[4] = {};
  int64_t i = 0;
  const auto take = [&](int64_t at, mc_vec &into) __attribute__((always_inline)) {
    const mc_vec e = mc_vexp(mc_vload(x + at, mc_Every()) - top);
    if (kept) mc_vstore(y + at, e, mc_Every());
    into += e;
  };
  for (; i + 4 * MC_LANES <= n; i += 4 * MC_LANES)
    for (int k = 0; k < 4; ++k) {
      if (MC_LANES * k % 32 == 0) fetch(i + MC_LANES * k);
      take(i + MC_LANES * k, sums[k]);
    }
  for (; i + MC_LANES <= n; i += MC_LANES) take(i, sums[0]);
  if (i < n) {
    const mc_vec e = mc_vexp(mc_vpart(x + i, n - i) - top);
    if (kept) mc_vstore(y + i, e, mc_First{n - i});
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
