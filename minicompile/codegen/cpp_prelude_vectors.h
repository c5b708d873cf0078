// Vectors of floats: the primitives that block functions, softmaxes and loops in registers are written in, and exp, log and
// sigmoid of a vector. For AVX-512 and for AVX2 with FMA, by gcc's vector types and builtins; `MC_LANES` floats each. Where
// neither is (other processors, clang), MC_VECTORS is not defined and callers loop over scalar functions. Read by cpp_math.py.

//@ mc_vec mc_vecd mc_veci mc_splat mc_vfma mc_vmin mc_vmax mc_vabs mc_vsign
#if defined(__AVX512F__) && !defined(__clang__)
#define MC_VECTORS
#define MC_AVX512
#define MC_LANES 16
// The lanes, as bits, of which that is true.
#define MC_COMPARED(a, b, how) (uint32_t)__builtin_ia32_cmpps512_mask(a, b, how, -1, 4)
#elif defined(__AVX2__) && defined(__FMA__) && !defined(__clang__)
#define MC_VECTORS
#define MC_LANES 8
#define MC_COMPARED(a, b, how) (uint32_t)__builtin_ia32_movmskps256(__builtin_ia32_cmpps256(a, b, how))
#endif
#ifdef MC_VECTORS
#define MC_ALL ((1u << MC_LANES) - 1)
enum { MC_UNORDERED = 3, MC_LESS = 17, MC_NOT_AT_MOST = 22 };  // quiet; the last is true of a NaN
typedef float mc_vec __attribute__((vector_size(4 * MC_LANES)));
typedef double mc_vecd __attribute__((vector_size(4 * MC_LANES)));
typedef int32_t mc_veci __attribute__((vector_size(4 * MC_LANES)));
static inline mc_vec mc_splat(float x) { return (mc_vec){} + x; }
// Minimum and maximum: of a NaN and a number the second operand.
#ifdef MC_AVX512
static inline mc_vec mc_vfma(mc_vec a, mc_vec b, mc_vec c) { return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4); }
static inline mc_vec mc_vmin(mc_vec a, mc_vec b) { return __builtin_ia32_minps512_mask(a, b, a, -1, 4); }
static inline mc_vec mc_vmax(mc_vec a, mc_vec b) { return __builtin_ia32_maxps512_mask(a, b, a, -1, 4); }
#else
static inline mc_vec mc_vfma(mc_vec a, mc_vec b, mc_vec c) { return __builtin_ia32_vfmaddps256(a, b, c); }
static inline mc_vec mc_vmin(mc_vec a, mc_vec b) { return __builtin_ia32_minps256(a, b); }
static inline mc_vec mc_vmax(mc_vec a, mc_vec b) { return __builtin_ia32_maxps256(a, b); }
#endif
static inline mc_vec mc_vabs(mc_vec x) { return (mc_vec)((mc_veci)x & 0x7fffffff); }
// x with the sign of y, for x ≥ 0.
static inline mc_vec mc_vsign(mc_vec x, mc_vec y) { return (mc_vec)((mc_veci)x | ((mc_veci)y & (int32_t)0x80000000)); }
#endif

//@ mc_Every mc_First mc_vload mc_vstore mc_floats mc_doubles mc_vecl mc_vfirst mc_vfirstd
// A vector's lanes from and to memory: every lane, or the first n of them; the others are 0 and their memory is not touched.
#ifdef MC_VECTORS
struct mc_Every {};
struct mc_First { int64_t n; };
typedef float mc_floats __attribute__((vector_size(4 * MC_LANES), aligned(4)));
typedef double mc_doubles __attribute__((vector_size(4 * MC_LANES), aligned(8)));
static inline mc_vec mc_vload(const float *x, mc_Every) { return *(const mc_floats *)x; }
static inline mc_vecd mc_vload(const double *x, mc_Every) { return *(const mc_doubles *)x; }
static inline void mc_vstore(float *y, mc_vec x, mc_Every) { *(mc_floats *)y = x; }
static inline void mc_vstore(double *y, mc_vecd x, mc_Every) { *(mc_doubles *)y = x; }
#ifdef MC_AVX512
static inline mc_vec mc_vload(const float *x, mc_First f) { return __builtin_ia32_loadups512_mask(x, mc_vec{}, (1u << f.n) - 1); }
static inline mc_vecd mc_vload(const double *x, mc_First f) { return __builtin_ia32_loadupd512_mask(x, mc_vecd{}, (1u << f.n) - 1); }
static inline void mc_vstore(float *y, mc_vec x, mc_First f) { __builtin_ia32_storeups512_mask(y, x, (1u << f.n) - 1); }
static inline void mc_vstore(double *y, mc_vecd x, mc_First f) { __builtin_ia32_storeupd512_mask(y, x, (1u << f.n) - 1); }
#else
typedef long long mc_vecl __attribute__((vector_size(4 * MC_LANES)));
static inline mc_veci mc_vfirst(mc_First f) { return mc_veci{0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)f.n; }
static inline mc_vecl mc_vfirstd(mc_First f) { return mc_vecl{0, 1, 2, 3} < (long long)f.n; }
static inline mc_vec mc_vload(const float *x, mc_First f) { return __builtin_ia32_maskloadps256((const mc_vec *)x, mc_vfirst(f)); }
static inline mc_vecd mc_vload(const double *x, mc_First f) { return __builtin_ia32_maskloadpd256((const mc_vecd *)x, mc_vfirstd(f)); }
static inline void mc_vstore(float *y, mc_vec x, mc_First f) { __builtin_ia32_maskstoreps256((mc_vec *)y, mc_vfirst(f), x); }
static inline void mc_vstore(double *y, mc_vecd x, mc_First f) { __builtin_ia32_maskstorepd256((mc_vecd *)y, mc_vfirstd(f), x); }
#endif
#endif

//@ mc_each
// y = f(x) of n elements: whole vectors, then the first lanes of one.
#ifdef MC_VECTORS
template <class T, class F> static inline void mc_each(const T *x, T *y, int64_t n, F f) {
  constexpr int64_t lanes = 4 * MC_LANES / sizeof(T);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) mc_vstore(y + i, f(mc_vload(x + i, mc_Every())), mc_Every());
  if (i < n) mc_vstore(y + i, f(mc_vload(x + i, mc_First{n - i})), mc_First{n - i});
}
#endif

//@ mc_vexp mc_vexp_mid mc_vexp_poly mc_VexpParts mc_vexp_parts mc_exp_table mc_vscale
// Results that may lie below the normal range, exp(-inf) of a masked softmax among them, are computed as multiples of 2^-149 and
// converted to integers, which are their bits: an instruction whose result underflows costs 150 cycles in the processor's
// microcode. A vector of zeros, as of masked elements, is done at once.
#ifdef MC_VECTORS
// e^r for |r| ≤ ln 2 / 2: a minimax polynomial of 1 + r + …, 0.6 ulp.
static inline mc_vec mc_vexp_poly(mc_vec r) {
  mc_vec p = mc_vfma(mc_splat(1.381453997e-3f), r, mc_splat(8.368745257e-3f));
  p = mc_vfma(p, r, mc_splat(4.16683908e-2f));
  p = mc_vfma(p, r, mc_splat(1.66665204e-1f));
  p = mc_vfma(p, r, mc_splat(4.999999343e-1f));
  p = mc_vfma(p, r, mc_splat(1.0f));
  return mc_vfma(p, r, mc_splat(1.0f));
}
#endif
#ifdef MC_AVX512
// x · 2^floor(n), rounded once, through overflow and subnormals.
static inline mc_vec mc_vscale(mc_vec x, mc_vec n) { return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4); }
// e^x = 2^floor(n / 32) · 2^((n mod 32) / 32) · e^r, n = x · 32 / ln 2 rounded by a large constant, |r| ≤ ln 2 / 64 (Cody-Waite).
// After P. Tang: the 32 powers lie in registers, as sums of two floats, and a cubic is enough for e^r.
alignas(64) static const float mc_exp_table[2][32] = {
  {1.0f, 1.0218972f, 1.0442737f, 1.0671405f, 1.0905077f, 1.1143868f, 1.1387886f, 1.1637249f, 1.1892071f, 1.2152474f,
   1.2418578f, 1.269051f, 1.2968396f, 1.3252367f, 1.3542556f, 1.38391f, 1.4142135f, 1.4451808f, 1.4768262f, 1.5091645f,
   1.5422108f, 1.5759809f, 1.6104903f, 1.6457555f, 1.6817929f, 1.7186193f, 1.7562522f, 1.7947091f, 1.8340081f, 1.8741677f,
   1.9152066f, 1.9571441f},
  {0.0f, -4.81156e-8f, 4.83347e-8f, -5.933752e-8f, -1.307754e-8f, -5.43554e-8f, 5.3862223e-8f, -4.0514415e-8f,
   3.7976353e-8f, -3.267395e-8f, 4.496838e-8f, 1.4193333e-9f, -4.0189995e-8f, -3.4963733e-8f, -1.0123349e-8f,
   -5.8755774e-8f, 2.4203235e-8f, 3.3242e-8f, -4.500899e-8f, -2.4959373e-8f, 8.070905e-9f, -5.6610254e-8f, 9.836217e-9f,
   -5.124972e-8f, -2.4755327e-8f, -4.8496176e-8f, -9.23577e-9f, -1.1415045e-8f, -1.1239278e-8f, -4.6630056e-8f,
   9.845328e-9f, -1.7021804e-8f}};
struct mc_VexpParts { mc_vec y, k; };
static inline mc_VexpParts mc_vexp_parts(mc_vec t) {
  const mc_veci *table = (const mc_veci *)mc_exp_table;
  mc_vec m = mc_vfma(t, mc_splat(46.1662413084f), mc_splat(12582912.0f)), n = m - 12582912.0f;
  mc_vec r = mc_vfma(n, mc_splat(-0.02166748046875f), t);
  r = mc_vfma(n, mc_splat(6.63107625e-6f), r);
  mc_vec high = (mc_vec)__builtin_shuffle(table[0], table[1], (mc_veci)m);
  mc_vec low = (mc_vec)__builtin_shuffle(table[2], table[3], (mc_veci)m);
  mc_vec p = mc_vfma(mc_vfma(mc_splat(0.166666667f), r, mc_splat(0.5f)), r * r, r);
  return {high + mc_vfma(high, p, low), n * 0.03125f};
}
static inline mc_vec mc_vexp(mc_vec x) {
  if (__builtin_expect(!MC_COMPARED(x, mc_splat(-86.5f), MC_LESS), 1)) {
    mc_VexpParts e = mc_vexp_parts(mc_vmin(mc_splat(110.0f), x));
    return mc_vscale(e.y, e.k);
  }
  if (MC_COMPARED(x, mc_splat(-104.0f), MC_LESS) == MC_ALL) return mc_vec{};
  mc_VexpParts e = mc_vexp_parts(mc_vmax(mc_splat(-104.0f), mc_vmin(mc_splat(110.0f), x)));
  mc_vec y = mc_vscale(e.y, e.k < -125.0f ? e.k + 149.0f : e.k);
  mc_veci bits = __builtin_ia32_cvtps2dq512_mask(y, mc_veci{}, -1, 4);
  return e.k < -125.0f ? (mc_vec)bits : y;
}
#elif defined(MC_VECTORS)
// e^x = 2^k · e^r (Cody-Waite, rounded by a large constant): the mantissa, and k in the low bits of `shifted`. Added to the
// mantissa's exponent, k may not be 128, nor the mantissa NaN.
struct mc_VexpParts { mc_vec mantissa; mc_veci shifted; };
static inline mc_VexpParts mc_vexp_parts(mc_vec t) {
  mc_vec m = mc_vfma(t, mc_splat(1.44269504089f), mc_splat(12582912.0f)), n = m - 12582912.0f;
  mc_vec r = mc_vfma(n, mc_splat(-0.693359375f), t);
  return {mc_vexp_poly(mc_vfma(n, mc_splat(2.12194440e-4f), r)), (mc_veci)m};
}
// For |x| ≤ 87.
static inline mc_vec mc_vexp_mid(mc_vec x) {
  mc_VexpParts e = mc_vexp_parts(x);
  return (mc_vec)((mc_veci)e.mantissa + (e.shifted << 23));
}
static inline mc_vec mc_vexp(mc_vec x) {
  if (__builtin_expect(!MC_COMPARED(mc_vabs(x), mc_splat(87.0f), MC_NOT_AT_MOST), 1)) return mc_vexp_mid(x);
  if (MC_COMPARED(x, mc_splat(-104.0f), MC_LESS) == MC_ALL) return mc_vec{};
  mc_VexpParts e = mc_vexp_parts(mc_vmax(mc_splat(-104.0f), mc_vmin(mc_splat(89.0f), x)));
  mc_veci low = e.shifted < 0x4b400000 - 125, high = e.shifted > 0x4b400000;  // the high, halved first, are -1
  mc_vec y = (mc_vec)((mc_veci)e.mantissa + ((e.shifted + high + (low & 149)) << 23));
  y = low ? (mc_vec)__builtin_ia32_cvtps2dq256(y) : high ? y + y : y;
  return x == x ? y : x;
}
#endif

//@ mc_vlog mc_vlog_poly mc_vlog_mid
// x = m · 2^e with m in [√½, √2); Cephes' polynomial.
#ifdef MC_VECTORS
static inline mc_vec mc_vlog_poly(mc_vec f, mc_vec z) {  // even and odd powers apart: half as long a chain of products
  mc_vec p = mc_vfma(mc_splat(7.0376836292e-2f), z, mc_splat(1.1676998740e-1f));
  mc_vec q = mc_vfma(mc_splat(-1.1514610310e-1f), z, mc_splat(-1.2420140846e-1f));
  p = mc_vfma(p, z, mc_splat(1.4249322787e-1f));
  q = mc_vfma(q, z, mc_splat(-1.6668057665e-1f));
  p = mc_vfma(p, z, mc_splat(2.0000714765e-1f));
  q = mc_vfma(q, z, mc_splat(-2.4999993993e-1f));
  return mc_vfma(q, f, mc_vfma(p, z, mc_splat(3.3333331174e-1f))) * (f * z);
}
#endif
#ifdef MC_AVX512
// The processor's exponent of 0 is -inf, of inf is inf (so both parts of ln 2 must be positive), its mantissa of x < 0 is NaN.
static inline mc_vec mc_vlog(mc_vec x) {
  mc_vec e = __builtin_ia32_getexpps512_mask(x, x, -1, 4), m = __builtin_ia32_getmantps512_mask(x + 0.0f, 8, x, -1, 4);
  mc_veci low = m < 1.41421356f;
  e = low ? e : e + 1.0f;
  mc_vec f = (low ? m : m * 0.5f) - 1.0f, z = f * f;
  mc_vec y = mc_vfma(e, mc_splat(9.0580006145e-6f), mc_vlog_poly(f, z));
  y = mc_vfma(mc_splat(-0.5f), z, y);
  return mc_vfma(e, mc_splat(0.69313812256f), f + y);
}
#elif defined(MC_VECTORS)
// Of positive numbers, whose bits are u, times 2^-less.
static inline mc_vec mc_vlog_mid(mc_veci u, mc_vec less) {
  u -= 0x3f3504f3;
  mc_vec e = __builtin_convertvector(u >> 23, mc_vec) - less;
  mc_vec f = (mc_vec)((u & 0x7fffff) + 0x3f3504f3) - 1.0f, z = f * f;
  mc_vec y = mc_vfma(e, mc_splat(-2.12194440e-4f), mc_vlog_poly(f, z));
  y = mc_vfma(mc_splat(-0.5f), z, y);
  return mc_vfma(e, mc_splat(0.693359375f), f + y);
}
static inline mc_vec mc_vlog(mc_vec x) {
  const mc_veci u = (mc_veci)x, far = (u < 0x00800000) | (u >= 0x7f800000);
  if (__builtin_expect(!__builtin_ia32_movmskps256((mc_vec)far), 1)) return mc_vlog_mid(u, mc_vec{});
  const mc_veci small = x < 0x1p-126f;
  mc_vec y = mc_vlog_mid(small ? (mc_veci)(x * 0x1p23f) : u, small ? mc_splat(23.0f) : mc_vec{});
  y = x > 3.402823466e38f ? x : y;
  y = x == 0.0f ? mc_splat(-__builtin_inff()) : y;
  y = x < 0.0f ? mc_splat(__builtin_nanf("")) : y;
  return x == x ? y : x;
}
#endif

//@ mc_vsigmoid mc_vover
// As mc_sigmoid.
#ifdef MC_AVX512
// a / b for 1 ≤ b ≤ 2: by a reciprocal of 14 bits, refined twice, is rounded as a division's nearly always.
static inline mc_vec mc_vover(mc_vec a, mc_vec b) {
  mc_vec r = __builtin_ia32_rcp14ps512_mask(b, b, -1);
  r = mc_vfma(mc_vfma(-b, r, mc_splat(1.0f)), r, r);
  mc_vec y = a * r;
  return mc_vfma(mc_vfma(-b, y, a), r, y);
}
#elif defined(MC_VECTORS)
static inline mc_vec mc_vover(mc_vec a, mc_vec b) { return a / b; }
#endif
#ifdef MC_VECTORS
static inline mc_vec mc_vsigmoid(mc_vec x) {
  mc_vec e = mc_vexp((mc_vec)((mc_veci)x | (int32_t)0x80000000)), sum = 1.0f + e, lost = e - (sum - 1.0f);
  mc_vec y = mc_vover(x < 0.0f ? e : mc_splat(1.0f), sum);
  return mc_vfma(-y, lost, y);
}
#endif
