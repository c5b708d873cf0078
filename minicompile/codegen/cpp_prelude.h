// Scalar functions for generated kernels. Not a header that is included: cpp_math.py copies the sections ("//@ names") that
// a kernel uses, and what those use. All are branch-free or simple enough for gcc to vectorise under `omp simd`; calls of
// libm (__builtin_tanh(double), …) are not, they are right, and rare.
// Accuracy: float functions ≤ 2 ulp, most below 1; NaN, ±inf, ±0, subnormals and overflow as in eager.

//@ mc_max mc_min
static inline int64_t mc_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t mc_min(int64_t a, int64_t b) { return a < b ? a : b; }

//@ mc_floordiv mc_mod
static inline int64_t mc_floordiv(int64_t a, int64_t b) { int64_t q = a / b; return q - ((a % b != 0) & ((a < 0) != (b < 0))); }
static inline int64_t mc_mod(int64_t a, int64_t b) { int64_t r = a % b; return r + ((r != 0) & ((r < 0) != (b < 0)) ? b : 0); }

//@ mc_bits mc_float mc_double
static inline uint32_t mc_bits(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
static inline uint64_t mc_bits(double x) { uint64_t u; __builtin_memcpy(&u, &x, 8); return u; }
static inline float mc_float(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
static inline double mc_double(uint64_t u) { double x; __builtin_memcpy(&x, &u, 8); return x; }

//@ mc_fma
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline float mc_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double mc_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
static inline float mc_fma(float a, float b, float c) { return a * b + c; }
static inline double mc_fma(double a, double b, double c) { return a * b + c; }
#endif

//@ mc_from_bf16
static inline float mc_from_bf16(uint16_t h) { return mc_float((uint32_t)h << 16); }

//@ mc_to_bf16
// Round to nearest even by adding half of the last kept bit; NaN must not become infinity on the way.
static inline uint16_t mc_to_bf16(float x) {
  uint32_t u = mc_bits(x), rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? 0x7fc0u : rounded);
}

//@ mc_round_bf16
static inline float mc_round_bf16(float x) { return mc_from_bf16(mc_to_bf16(x)); }

//@ mc_from_half
// After M. Dukhan's FP16 library: exponents are moved by a multiplication, subnormals by a subtraction, both exact.
static inline float mc_from_half(uint16_t h) {
  uint32_t w = (uint32_t)h << 16, two = w + w;
  float normal = mc_float((two >> 4) + 0x70000000u) * 0x1p-112f;
  float subnormal = mc_float((two >> 17) | 0x3f000000u) - 0.5f;
  return mc_float((w & 0x80000000u) | (two < 0x08000000u ? mc_bits(subnormal) : mc_bits(normal)));
}

//@ mc_to_half
static inline uint16_t mc_to_half(float x) {
  float base = (__builtin_fabsf(x) * 0x1p112f) * 0x1p-110f;
  uint32_t w = mc_bits(x), two = w + w, bias = two & 0xff000000u;
  bias = bias < 0x71000000u ? 0x71000000u : bias;
  uint32_t b = mc_bits(mc_float((bias >> 1) + 0x07800000u) + base);
  uint32_t result = (b >> 13 & 0x7c00u) + (b & 0xfffu);
  return (uint16_t)(w >> 16 & 0x8000u | (two > 0xff000000u ? 0x7e00u : result));
}

//@ mc_round_half
static inline float mc_round_half(float x) { return mc_from_half(mc_to_half(x)); }

//@ mc_cast_int
// Floating to integer as eager's CPU kernels: truncation; narrow types take the low bits.
template <class T, class F> static inline T mc_cast_int(F x) { return sizeof(T) == 8 ? (T)(int64_t)x : (T)(int32_t)x; }
template <> inline uint8_t mc_cast_int<uint8_t, float>(float x) { return (uint8_t)(int64_t)x; }
template <> inline uint8_t mc_cast_int<uint8_t, double>(double x) { return (uint8_t)(int64_t)x; }

//@ mc_abs
template <class T> static inline T mc_abs(T x) { return x < 0 ? (T)-x : x; }
static inline uint8_t mc_abs(uint8_t x) { return x; }
static inline float mc_abs(float x) { return __builtin_fabsf(x); }
static inline double mc_abs(double x) { return __builtin_fabs(x); }

//@ mc_sign
template <class T> static inline T mc_sign(T x) { return (T)((x > 0) - (x < 0)); }

//@ mc_relu
template <class T> static inline T mc_relu(T x) { return x < 0 ? (T)0 : x; }

//@ mc_maximum
template <class T> static inline T mc_maximum(T a, T b) { return (a > b) | (a != a) ? a : b; }

//@ mc_minimum
template <class T> static inline T mc_minimum(T a, T b) { return (a < b) | (a != a) ? a : b; }

//@ mc_isinf
static inline unsigned char mc_isinf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
static inline unsigned char mc_isinf(double x) { return __builtin_fabs(x) == __builtin_inf(); }

//@ mc_copysign
static inline float mc_copysign(float a, float b) { return __builtin_copysignf(a, b); }
static inline double mc_copysign(double a, double b) { return __builtin_copysign(a, b); }

//@ mc_floor mc_ceil mc_trunc mc_round mc_sqrt mc_rsqrt
static inline float mc_floor(float x) { return __builtin_floorf(x); }
static inline double mc_floor(double x) { return __builtin_floor(x); }
static inline float mc_ceil(float x) { return __builtin_ceilf(x); }
static inline double mc_ceil(double x) { return __builtin_ceil(x); }
static inline float mc_trunc(float x) { return __builtin_truncf(x); }
static inline double mc_trunc(double x) { return __builtin_trunc(x); }
static inline float mc_round(float x) { return __builtin_rintf(x); }
static inline double mc_round(double x) { return __builtin_rint(x); }
static inline float mc_sqrt(float x) { return __builtin_sqrtf(x); }
static inline double mc_sqrt(double x) { return __builtin_sqrt(x); }
static inline float mc_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
static inline double mc_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }

//@ mc_fmod
// Integers: a division by 0 never traps (such nodes do not reach kernels), and MIN / -1 wraps.
template <class T> static inline T mc_fmod(T a, T b) { return (b == 0) | (b == (T)-1 & (T)-1 < 0) ? (T)0 : (T)(a % b); }
static inline float mc_fmod(float a, float b) { return __builtin_fmodf(a, b); }
static inline double mc_fmod(double a, double b) { return __builtin_fmod(a, b); }

//@ mc_remainder
template <class T> static inline T mc_remainder(T a, T b) {
  T r = mc_fmod(a, b);
  return (r != 0) & ((r < 0) != (b < 0)) ? (T)(r + b) : r;
}

//@ mc_trunc_divide
template <class T> static inline T mc_trunc_divide(T a, T b) {
  return b == 0 ? (T)0 : (b == (T)-1) & ((T)-1 < 0) ? (T)-a : (T)(a / b);
}
static inline float mc_trunc_divide(float a, float b) { return __builtin_truncf(a / b); }
static inline double mc_trunc_divide(double a, double b) { return __builtin_trunc(a / b); }

//@ mc_floor_divide mc_floor_divide_real
template <class T> static inline T mc_floor_divide(T a, T b) {
  T q = mc_trunc_divide(a, b), r = (T)(a - q * b);
  return (b != 0) & (r != 0) & ((r < 0) != (b < 0)) ? (T)(q - 1) : q;
}
// As torch's (and Python's): from fmod, so that the quotient of huge numbers is exact.
template <class T> static inline T mc_floor_divide_real(T a, T b) {
  T mod = mc_fmod(a, b), div = (a - mod) / b;
  div = (mod != 0) & ((b < 0) != (mod < 0)) ? div - 1 : div;
  T low = mc_floor(div), nearest = div - low > (T)0.5 ? low + 1 : low;
  nearest = div != 0 ? nearest : mc_copysign((T)0, a / b);
  return b == 0 ? a / b : nearest;
}
static inline float mc_floor_divide(float a, float b) { return mc_floor_divide_real(a, b); }
static inline double mc_floor_divide(double a, double b) { return mc_floor_divide_real(a, b); }

//@ mc_exp_core mc_Exp
// e^t as a mantissa in [0.7, 1.42] and an exponent k, the low bits of `shifted`: Cody-Waite reduction to |r| ≤ ln 2 / 2 with
// rounding by a large constant, then Cephes' polynomial.
struct mc_Exp { float mantissa; uint32_t shifted; };
static inline mc_Exp mc_exp_core(float t) {
  float m = mc_fma(t, 1.44269504089f, 12582912.0f), n = m - 12582912.0f;
  float r = mc_fma(n, -0.693359375f, t);
  r = mc_fma(n, 2.12194440e-4f, r);
  float p = mc_fma(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = mc_fma(p, r, 8.3334519073e-3f);
  p = mc_fma(p, r, 4.1665795894e-2f);
  p = mc_fma(p, r, 1.6666665459e-1f);
  p = mc_fma(p, r, 5.0000001201e-1f);
  return {mc_fma(p, r * r, r) + 1.0f, mc_bits(m)};
}

//@ mc_exp_mid
// exp for |x| ≤ 87, or NaN.
static inline float mc_exp_mid(float x) {
  mc_Exp e = mc_exp_core(x);
  return e.mantissa * mc_float((e.shifted << 23) + 0x3f800000u);
}

//@ mc_exp
// 2^k is applied in two halves, so that results below the normal range round once. What underflows to 0 is masked away
// first: arithmetic on subnormals costs a hundred cycles. Double: the same with Taylor's polynomial.
static inline float mc_exp(float x) {
  uint32_t keep = x < -103.98f ? 0u : ~0u;
  float t = mc_float(mc_bits(x) & keep);
  mc_Exp e = mc_exp_core(t > 89.0f ? 89.0f : t);
  int32_t k = (int32_t)(e.shifted << 9) >> 9, half = k >> 1;
  float y = e.mantissa * mc_float((uint32_t)(half + 127) << 23) * mc_float((uint32_t)(k - half + 127) << 23);
  return mc_float(mc_bits(y) & keep);
}
static inline double mc_exp(double x) {
  unsigned char tiny = x < -745.2;
  double t = tiny ? 0.0 : x > 710.0 ? 710.0 : x;
  double n = __builtin_rint(t * 1.4426950408889634);
  double r = mc_fma(n, -6.93147180369123816490e-01, t);
  r = mc_fma(n, -1.90821492927058770002e-10, r);
  double p = mc_fma(1.0 / 6227020800.0, r, 1.0 / 479001600.0);
  p = mc_fma(p, r, 1.0 / 39916800.0);
  p = mc_fma(p, r, 1.0 / 3628800.0);
  p = mc_fma(p, r, 1.0 / 362880.0);
  p = mc_fma(p, r, 1.0 / 40320.0);
  p = mc_fma(p, r, 1.0 / 5040.0);
  p = mc_fma(p, r, 1.0 / 720.0);
  p = mc_fma(p, r, 1.0 / 120.0);
  p = mc_fma(p, r, 1.0 / 24.0);
  p = mc_fma(p, r, 1.0 / 6.0);
  p = mc_fma(p, r, 0.5);
  p = mc_fma(p, r * r, r) + 1.0;
  int64_t k = (int64_t)n, half = k >> 1;
  double y = p * mc_double((uint64_t)(half + 1023) << 52) * mc_double((uint64_t)(k - half + 1023) << 52);
  return tiny ? 0.0 : y;
}

//@ mc_log
// x = m · 2^e with m in [√½, √2); Cephes' polynomial (float), fdlibm's (double).
static inline float mc_log(float x) {
  unsigned char subnormal = x < 0x1p-126f;
  uint32_t u = mc_bits(subnormal ? x * 0x1p23f : x) - 0x3f3504f3u;
  float e = (float)((int32_t)u >> 23) - (subnormal ? 23.0f : 0.0f);
  float f = mc_float((u & 0x7fffffu) + 0x3f3504f3u) - 1.0f, z = f * f;
  float p = mc_fma(7.0376836292e-2f, f, -1.1514610310e-1f);
  p = mc_fma(p, f, 1.1676998740e-1f);
  p = mc_fma(p, f, -1.2420140846e-1f);
  p = mc_fma(p, f, 1.4249322787e-1f);
  p = mc_fma(p, f, -1.6668057665e-1f);
  p = mc_fma(p, f, 2.0000714765e-1f);
  p = mc_fma(p, f, -2.4999993993e-1f);
  p = mc_fma(p, f, 3.3333331174e-1f);
  float y = mc_fma(e, -2.12194440e-4f, p * f * z);
  y = mc_fma(-0.5f, z, y);
  y = mc_fma(e, 0.693359375f, f + y);
  y = x > 3.402823466e38f ? x : y;
  y = x == 0.0f ? -__builtin_inff() : y;
  return x < 0.0f ? __builtin_nanf("") : x != x ? x : y;
}
static inline double mc_log(double x) {
  unsigned char subnormal = x < 0x1p-1022;
  uint64_t u = mc_bits(subnormal ? x * 0x1p52 : x) - 0x3fe6a09e667f3bcdull;
  double e = (double)((int64_t)u >> 52) - (subnormal ? 52.0 : 0.0);
  double f = mc_double((u & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
  double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  double p = mc_fma(z, 1.479819860511658591e-01, 1.531383769920937332e-01);
  p = mc_fma(z, p, 1.818357216161805012e-01);
  p = mc_fma(z, p, 2.222219843214978396e-01);
  p = mc_fma(z, p, 2.857142874366239149e-01);
  p = mc_fma(z, p, 3.999999999940941908e-01);
  p = mc_fma(z, p, 6.666666666666735130e-01);
  double y = e * 6.93147180369123816490e-01 - ((half - (s * mc_fma(z, p, half) + e * 1.90821492927058770002e-10)) - f);
  y = x > 1.7976931348623157e308 ? x : y;
  y = x == 0.0 ? -__builtin_inf() : y;
  return x < 0.0 ? __builtin_nan("") : x != x ? x : y;
}

//@ mc_sigmoid
// Through exp(-|x|), which never overflows and keeps small results exact; `lost` is what 1 + e rounded away.
template <class T> static inline T mc_sigmoid(T x) {
  T e = mc_exp(x < 0 ? x : -x), sum = (T)1 + e, lost = e - (sum - (T)1);
  T y = (x < 0 ? e : (T)1) / sum;
  return y - y * lost;
}

//@ mc_tanh
static inline float mc_tanh(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float p = mc_fma(-5.70498872745e-3f, z, 2.06390887954e-2f);
  p = mc_fma(p, z, -5.37397155531e-2f);
  p = mc_fma(p, z, 1.33314422036e-1f);
  p = mc_fma(p, z, -3.33332819422e-1f);
  float small = mc_fma(p * z, x, x);
  float large = 1.0f - 2.0f / (mc_exp_mid(a > 10.0f ? 20.0f : a + a) + 1.0f);
  return a < 0.625f ? small : __builtin_copysignf(large, x);
}
static inline double mc_tanh(double x) { return __builtin_tanh(x); }

//@ mc_erf
// After N. Juffa: an odd polynomial below 0.93, 1 - exp(polynomial) above.
static inline float mc_erf(float x) {
  float t = __builtin_fabsf(x), s = x * x;
  t = t > 4.0f ? 4.0f : t;
  float q = t * t;
  float r = mc_fma(-1.72853470e-5f, t, 3.83197126e-4f), u = mc_fma(-3.88396438e-3f, t, 2.42546219e-2f);
  r = mc_fma(r, q, u);
  r = mc_fma(r, t, -1.06777877e-1f);
  r = mc_fma(r, t, -6.34846687e-1f);
  r = mc_fma(r, t, -1.28717512e-1f);
  r = mc_fma(r, t, -t);
  float large = __builtin_copysignf(1.0f - mc_exp_mid(r), x);
  float p = mc_fma(-5.96761703e-4f, s, 4.99119423e-3f);
  p = mc_fma(p, s, -2.67681349e-2f);
  p = mc_fma(p, s, 1.12819925e-1f);
  p = mc_fma(p, s, -3.76125336e-1f);
  p = mc_fma(p, s, 1.28379166e-1f);
  return t > 0.927734375f ? large : mc_fma(p, x, x);
}
static inline double mc_erf(double x) { return __builtin_erf(x); }

//@ mc_log1p_near
// log(1 + x) in double, accurate to 1e-12: enough to round a float from.
static inline double mc_log1p_near(double x) {
  double near = x * mc_fma(x, mc_fma(x, 1.0 / 3.0 - 0.25 * x, -0.5), 1.0);
  return __builtin_fabs(x) < 1e-4 ? near : mc_log(1.0 + x);
}

//@ mc_exp2
static inline float mc_exp2(float x) { return (float)mc_exp((double)x * 0.6931471805599453); }
static inline double mc_exp2(double x) { return __builtin_exp2(x); }

//@ mc_expm1
static inline float mc_expm1(float v) {
  double x = v, p = mc_fma(1.0 / 3628800.0, x, 1.0 / 362880.0);
  p = mc_fma(p, x, 1.0 / 40320.0);
  p = mc_fma(p, x, 1.0 / 5040.0);
  p = mc_fma(p, x, 1.0 / 720.0);
  p = mc_fma(p, x, 1.0 / 120.0);
  p = mc_fma(p, x, 1.0 / 24.0);
  p = mc_fma(p, x, 1.0 / 6.0);
  p = mc_fma(p, x, 0.5);
  double y = __builtin_fabs(x) < 0.5 ? mc_fma(p * x, x, x) : mc_exp(x) - 1.0;
  return (float)y;
}
static inline double mc_expm1(double x) { return __builtin_expm1(x); }

//@ mc_log2
static inline float mc_log2(float x) { return (float)(mc_log((double)x) * 1.4426950408889634); }
static inline double mc_log2(double x) { return __builtin_log2(x); }

//@ mc_log10
static inline float mc_log10(float x) { return (float)(mc_log((double)x) * 0.4342944819032518); }
static inline double mc_log10(double x) { return __builtin_log10(x); }

//@ mc_log1p
static inline float mc_log1p(float x) { return (float)mc_log1p_near(x); }
static inline double mc_log1p(double x) { return __builtin_log1p(x); }

//@ mc_sinh
static inline float mc_sinh(float v) {
  double x = v, z = x * x, e = mc_exp(__builtin_fabs(x));
  double p = mc_fma(1.0 / 362880.0, z, 1.0 / 5040.0);
  p = mc_fma(p, z, 1.0 / 120.0);
  p = mc_fma(p, z, 1.0 / 6.0);
  double y = __builtin_fabs(x) < 0.5 ? mc_fma(p * z, x, x) : __builtin_copysign(0.5 * (e - 1.0 / e), x);
  return (float)y;
}
static inline double mc_sinh(double x) { return __builtin_sinh(x); }

//@ mc_cosh
static inline float mc_cosh(float x) {
  double e = mc_exp(__builtin_fabs((double)x));
  return (float)(0.5 * (e + 1.0 / e));
}
static inline double mc_cosh(double x) { return __builtin_cosh(x); }

//@ mc_asinh
static inline float mc_asinh(float v) {
  double a = __builtin_fabs((double)v), s = a * a;
  double t = a > 1e38 ? a : s / (1.0 + __builtin_sqrt(1.0 + s));
  return (float)__builtin_copysign(mc_log1p_near(a + t), (double)v);
}
static inline double mc_asinh(double x) { return __builtin_asinh(x); }

//@ mc_acosh
static inline float mc_acosh(float x) {
  double t = (double)x - 1.0;
  double y = mc_log1p_near(t + __builtin_sqrt(t * (t + 2.0)));
  return (float)(t < 0.0 ? __builtin_nan("") : y);
}
static inline double mc_acosh(double x) { return __builtin_acosh(x); }

//@ mc_atanh
static inline float mc_atanh(float v) {
  double x = v;
  return (float)__builtin_copysign(0.5 * mc_log1p_near(2.0 * __builtin_fabs(x) / (1.0 - __builtin_fabs(x))), x);
}
static inline double mc_atanh(double x) { return __builtin_atanh(x); }

//@ mc_quarter_turns mc_turns_high mc_turns_low mc_Turns
// x as quarter turns (an integer mod 4) and an angle in [-π/4, π/4], right for every float: x = m·2^k with m < 2^24, and 2^k·2/π mod 4
// lies in a table, in two parts of which the first makes the product with m exact.
static const double mc_turns_high[105] = {
  0x1.45f306c00p-1, 0x1.45f306e00p+0, -0x1.7419f2400p+0, 0x1.17cc1b800p+0, -0x1.d067c9200p+0, 0x1.7cc1b7000p-2,
  0x1.7cc1b7400p-1, 0x1.7cc1b7200p+0, -0x1.067c91c00p+0, 0x1.f306dca00p+0, -0x1.9f246c000p-4, -0x1.9f246c000p-3,
  -0x1.9f246c800p-2, -0x1.9f246c800p-1, -0x1.9f246c600p+0, 0x1.836e4e400p-1, 0x1.836e4e400p+0, -0x1.f246c7000p-1,
  -0x1.f246c6e00p+0, 0x1.b72722000p-4, 0x1.b72722000p-3, 0x1.b72722000p-2, 0x1.b72722000p-1, 0x1.b72722000p+0,
  -0x1.236377c00p-1, -0x1.236377e00p+0, 0x1.b93910600p+0, -0x1.1b1bbec00p-1, -0x1.1b1bbea00p+0, 0x1.c9c882a00p+0,
  -0x1.b1bbeb000p-2, -0x1.b1bbeac00p-1, -0x1.b1bbeae00p+0, 0x1.391054c00p-1, 0x1.391054a00p+0, -0x1.8ddf56c00p+0,
  0x1.c882a5400p-1, 0x1.c882a5400p+0, -0x1.bbead6000p-2, -0x1.bbead6000p-1, -0x1.bbead6000p+0, 0x1.1054a8000p-1,
  0x1.1054a8000p+0, -0x1.df56b0200p+0, 0x1.054a7f000p-2, 0x1.054a7f000p-1, 0x1.054a7f000p+0, -0x1.f56b01e00p+0,
  0x1.529fc2000p-4, 0x1.529fc2000p-3, 0x1.529fc2800p-2, 0x1.529fc2800p-1, 0x1.529fc2800p+0, -0x1.5ac07b200p+0,
  0x1.4a7f09e00p+0, -0x1.6b01ec600p+0, 0x1.29fc27600p+0, -0x1.ac07b1600p+0, 0x1.4fe13ac00p-1, 0x1.4fe13ac00p+0,
  -0x1.603d8a800p+0, 0x1.3f84eb000p+0, -0x1.80f62a000p+0, 0x1.fc2757c00p-1, 0x1.fc2757e00p+0, -0x1.ec5418000p-6,
  -0x1.ec5418000p-5, -0x1.ec5418000p-4, -0x1.ec5417000p-3, -0x1.ec5417000p-2, -0x1.ec5417000p-1, -0x1.ec5417000p+0,
  0x1.3abe90000p-3, 0x1.3abe8f800p-2, 0x1.3abe8fc00p-1, 0x1.3abe8fa00p+0, -0x1.8a82e0a00p+0, 0x1.d5f47d400p-1,
  0x1.d5f47d400p+0, -0x1.505c15800p-2, -0x1.505c15800p-1, -0x1.505c15a00p+0, 0x1.5f47d4e00p+0, -0x1.417056600p+0,
  0x1.7d1f53400p+0, -0x1.05c159600p+0, 0x1.f47d4d400p+0, -0x1.70565a000p-4, -0x1.705659000p-3, -0x1.705659000p-2,
  -0x1.705659000p-1, -0x1.705659200p+0, 0x1.1f534de00p+0, -0x1.c15964400p+0, 0x1.f534de000p-2, 0x1.f534ddc00p-1,
  0x1.f534ddc00p+0, -0x1.596448000p-4, -0x1.596448000p-3, -0x1.596448000p-2, -0x1.596448000p-1, -0x1.596447e00p+0,
  0x1.4d3770400p+0, -0x1.65911fa00p+0, 0x1.34ddc0e00p+0
};
static const double mc_turns_low[105] = {
  0x1.c9c882a53f84fp-29, -0x1.b1bbead603d8bp-31, -0x1.b1bbead603d8bp-30, -0x1.b1bbead603d8bp-29, 0x1.391054a7f09d6p-30,
  0x1.391054a7f09d6p-29, -0x1.8ddf56b01ec54p-29, 0x1.c882a53f84eb0p-30, 0x1.c882a53f84eb0p-29, -0x1.bbead603d8a83p-31,
  -0x1.bbead603d8a83p-30, -0x1.bbead603d8a83p-29, 0x1.1054a7f09d5f4p-30, 0x1.1054a7f09d5f4p-29, -0x1.df56b01ec5417p-29,
  0x1.054a7f09d5f48p-31, 0x1.054a7f09d5f48p-30, 0x1.054a7f09d5f48p-29, -0x1.f56b01ec54170p-29, 0x1.529fc2757d1f5p-33,
  0x1.529fc2757d1f5p-32, 0x1.529fc2757d1f5p-31, 0x1.529fc2757d1f5p-30, 0x1.529fc2757d1f5p-29, -0x1.5ac07b1505c16p-29,
  0x1.4a7f09d5f47d5p-29, -0x1.6b01ec5417056p-29, 0x1.29fc2757d1f53p-29, -0x1.ac07b1505c159p-29, 0x1.4fe13abe8fa9ap-30,
  0x1.4fe13abe8fa9ap-29, -0x1.603d8a82e0acbp-29, 0x1.3f84eafa3ea6ap-29, -0x1.80f62a0b82b2dp-29, 0x1.fc2757d1f534ep-30,
  0x1.fc2757d1f534ep-29, -0x1.ec54170565912p-35, -0x1.ec54170565912p-34, -0x1.ec54170565912p-33, -0x1.ec54170565912p-32,
  -0x1.ec54170565912p-31, -0x1.ec54170565912p-30, -0x1.ec54170565912p-29, 0x1.3abe8fa9a6ee0p-32, 0x1.3abe8fa9a6ee0p-31,
  0x1.3abe8fa9a6ee0p-30, 0x1.3abe8fa9a6ee0p-29, -0x1.8a82e0acb223fp-29, 0x1.d5f47d4d37703p-30, 0x1.d5f47d4d37703p-29,
  -0x1.505c1596447e5p-31, -0x1.505c1596447e5p-30, -0x1.505c1596447e5p-29, 0x1.5f47d4d377037p-29, -0x1.4170565911f92p-29,
  0x1.7d1f534ddc0dbp-29, -0x1.05c1596447e49p-29, 0x1.f47d4d377036ep-29, -0x1.70565911f924fp-33, -0x1.70565911f924fp-32,
  -0x1.70565911f924fp-31, -0x1.70565911f924fp-30, -0x1.70565911f924fp-29, 0x1.1f534ddc0db63p-29, -0x1.c1596447e493bp-29,
  0x1.f534ddc0db629p-31, 0x1.f534ddc0db629p-30, 0x1.f534ddc0db629p-29, -0x1.596447e493ad5p-33, -0x1.596447e493ad5p-32,
  -0x1.596447e493ad5p-31, -0x1.596447e493ad5p-30, -0x1.596447e493ad5p-29, 0x1.4d377036d8a56p-29, -0x1.65911f924eb53p-29,
  0x1.34ddc0db6295ap-29, -0x1.96447e493ad4dp-29, 0x1.a6ee06db14acdp-30, 0x1.a6ee06db14acdp-29, -0x1.6447e493ad4cep-30,
  -0x1.6447e493ad4cep-29, 0x1.377036d8a5665p-29, -0x1.911f924eb5336p-29, 0x1.bb81b6c52b328p-30, 0x1.bb81b6c52b328p-29,
  -0x1.11f924eb53362p-30, -0x1.11f924eb53362p-29, 0x1.dc0db6295993cp-29, -0x1.1f924eb53361ep-31, -0x1.1f924eb53361ep-30,
  -0x1.1f924eb53361ep-29, 0x1.c0db6295993c4p-29, -0x1.f924eb53361dep-31, -0x1.f924eb53361dep-30, -0x1.f924eb53361dep-29,
  0x1.b6c52b3278872p-34, 0x1.b6c52b3278872p-33, 0x1.b6c52b3278872p-32, 0x1.b6c52b3278872p-31, 0x1.b6c52b3278872p-30,
  0x1.b6c52b3278872p-29, -0x1.24eb53361de38p-30, -0x1.24eb53361de38p-29, 0x1.b6295993c4390p-29, -0x1.275a99b0ef1bfp-30
};
struct mc_Turns { double rest; int64_t quadrant; };
static inline mc_Turns mc_quarter_turns(float x) {
  int64_t k = (int64_t)(mc_bits(x) >> 23 & 255) - 150;  // 64 bits: gcc gathers doubles by 64-bit indices only
  k = k < 0 ? 0 : k > 104 ? 104 : k;
  double m = (double)x * mc_double((uint64_t)(1023 - k) << 52);
  double turns = m * mc_turns_high[k];
  turns -= 4.0 * __builtin_rint(turns * 0.25);
  double n = __builtin_rint(turns);
  return {mc_fma(m, mc_turns_low[k], turns - n) * 1.5707963267948966, (int64_t)n};
}

//@ mc_sin_near mc_cos_near
// sin and cos of r in [-π/4, π/4], to 2e-9.
static inline double mc_sin_near(double r) {
  double z = r * r, p = mc_fma(1.0 / 362880.0, z, -1.0 / 5040.0);
  p = mc_fma(p, z, 1.0 / 120.0);
  p = mc_fma(p, z, -1.0 / 6.0);
  return mc_fma(p * z, r, r);
}
static inline double mc_cos_near(double r) {
  double z = r * r, p = mc_fma(1.0 / 479001600.0, z, -1.0 / 3628800.0);
  p = mc_fma(p, z, 1.0 / 40320.0);
  p = mc_fma(p, z, -1.0 / 720.0);
  p = mc_fma(p, z, 1.0 / 24.0);
  p = mc_fma(p, z, -0.5);
  return mc_fma(p, z, 1.0);
}

//@ mc_sin
static inline float mc_sin(float x) {
  mc_Turns turns = mc_quarter_turns(x);
  double r = turns.rest;
  int64_t q = turns.quadrant;
  double y = q & 1 ? mc_cos_near(r) : mc_sin_near(r);
  return x == 0.0f ? x : (float)(q & 2 ? -y : y);
}
static inline double mc_sin(double x) { return __builtin_sin(x); }

//@ mc_cos
static inline float mc_cos(float x) {
  mc_Turns turns = mc_quarter_turns(x);
  double r = turns.rest;
  int64_t q = turns.quadrant;
  double y = q & 1 ? mc_sin_near(r) : mc_cos_near(r);
  return (float)((q + 1) & 2 ? -y : y);
}
static inline double mc_cos(double x) { return __builtin_cos(x); }

//@ mc_tan
static inline float mc_tan(float x) {
  mc_Turns turns = mc_quarter_turns(x);
  double r = turns.rest;
  int64_t q = turns.quadrant;
  double s = mc_sin_near(r), c = mc_cos_near(r);
  return x == 0.0f ? x : (float)(q & 1 ? -c / s : s / c);
}
static inline double mc_tan(double x) { return __builtin_tan(x); }

//@ mc_atan_near
// atan in double, to 1e-9: two reductions, |x| > 1 and then |x| > tan(π/8), and the series.
static inline double mc_atan_near(double x) {
  double a = __builtin_fabs(x), b = a > 1.0 ? 1.0 / a : a;
  unsigned char large = b > 0.41421356237309503;
  double t = large ? (b - 1.0) / (b + 1.0) : b, z = t * t;
  double p = mc_fma(1.0 / 21.0, z, -1.0 / 19.0);
  p = mc_fma(p, z, 1.0 / 17.0);
  p = mc_fma(p, z, -1.0 / 15.0);
  p = mc_fma(p, z, 1.0 / 13.0);
  p = mc_fma(p, z, -1.0 / 11.0);
  p = mc_fma(p, z, 1.0 / 9.0);
  p = mc_fma(p, z, -1.0 / 7.0);
  p = mc_fma(p, z, 0.2);
  p = mc_fma(p, z, -1.0 / 3.0);
  double y = mc_fma(p * z, t, t) + (large ? 0.7853981633974483 : 0.0);
  return __builtin_copysign(a > 1.0 ? 1.5707963267948966 - y : y, x);
}

//@ mc_atan
static inline float mc_atan(float x) { return (float)mc_atan_near(x); }
static inline double mc_atan(double x) { return __builtin_atan(x); }

//@ mc_asin
static inline float mc_asin(float v) {
  double x = v;
  return (float)mc_atan_near(x / __builtin_sqrt((1.0 - x) * (1.0 + x)));
}
static inline double mc_asin(double x) { return __builtin_asin(x); }

//@ mc_acos
static inline float mc_acos(float v) {
  double x = v;
  return (float)(2.0 * mc_atan_near(__builtin_sqrt((1.0 - x) / (1.0 + x))));
}
static inline double mc_acos(double x) { return __builtin_acos(x); }

//@ mc_atan2
static inline float mc_atan2(float v, float u) {
  double y = v, x = u, a = __builtin_fabs(y), b = __builtin_fabs(x);
  double ratio = a == b ? (a == 0.0 ? 0.0 : 1.0) : a / b;
  double angle = mc_atan_near(ratio);
  angle = mc_bits(u) >> 31 ? 3.141592653589793 - angle : angle;
  return (float)((x != x) | (y != y) ? x + y : __builtin_copysign(angle, y));
}
static inline double mc_atan2(double y, double x) { return __builtin_atan2(y, x); }

//@ mc_erfc
// exp(-x²)/(1 + 2x) times a polynomial in (x - 3)/(x + 3) (Shepherd and Laframboise's form; coefficients fitted to 2e-13).
static inline float mc_erfc(float v) {
  double a = __builtin_fabs((double)v);
  a = a > 12.0 ? 12.0 : a;
  double t = (a - 3.0) / (a + 3.0), p = -2.983942535318685e-08;
  p = mc_fma(p, t, -2.798421357795291e-07);
  p = mc_fma(p, t, 1.8268338386983095e-07);
  p = mc_fma(p, t, 2.8869709884584873e-06);
  p = mc_fma(p, t, -5.650045317455558e-07);
  p = mc_fma(p, t, -1.950471307214092e-05);
  p = mc_fma(p, t, 4.8496923036467334e-06);
  p = mc_fma(p, t, 0.0001247281353066936);
  p = mc_fma(p, t, -0.00010512258573368832);
  p = mc_fma(p, t, -0.0007796903107536676);
  p = mc_fma(p, t, 0.0018886820608398581);
  p = mc_fma(p, t, 0.0025293596278562493);
  p = mc_fma(p, t, -0.023770513904139614);
  p = mc_fma(p, t, 0.0683080313220015);
  p = mc_fma(p, t, -0.1192736634721992);
  p = mc_fma(p, t, 0.12964515847824745);
  p = mc_fma(p, t, -0.047562294352507764);
  p = mc_fma(p, t, -0.1356211061208497);
  p = mc_fma(p, t, 1.2530080582697296);
  double y = p * mc_exp(-a * a) / (1.0 + 2.0 * a);
  return (float)(v < 0.0f ? 2.0 - y : y);
}
static inline double mc_erfc(double x) { return __builtin_erfc(x); }

//@ mc_pow
// Integers: wraps; a negative exponent gives 0 unless the base is 1 or -1.
template <class T> static inline T mc_pow(T base, T exponent) {
  if (exponent < 0) return base == 1 ? (T)1 : base == (T)-1 ? (exponent & 1 ? (T)-1 : (T)1) : (T)0;
  T result = 1;
  for (; exponent; exponent = (T)(exponent >> 1)) {
    result = exponent & 1 ? (T)(result * base) : result;
    base = (T)(base * base);
  }
  return result;
}
static inline float mc_pow(float base, float exponent) {
  double a = __builtin_fabs((double)base), e = exponent;
  double y = mc_exp(e * mc_log(a));
  double whole = __builtin_trunc(e), half = __builtin_trunc(e * 0.5);
  unsigned char integer = whole == e, odd = integer & (half * 2.0 != e), negative = mc_bits(base) >> 31;
  y = negative & odd ? -y : y;
  y = (base < 0.0f) & !integer & (a < __builtin_inf()) & (e == e) ? __builtin_nan("") : y;
  y = (base != base) | (e != e) ? (double)base + e : y;
  return (float)((e == 0.0) | (base == 1.0f) | ((a == 1.0) & (__builtin_fabs(e) == __builtin_inf())) ? 1.0 : y);
}
static inline double mc_pow(double base, double exponent) { return __builtin_pow(base, exponent); }
