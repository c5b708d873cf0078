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

//@ mc_tile
// How wide tiles of `lanes` lanes are, of which `others` sets go to the threads: so that each thread has as many as the next,
// from `least` to `most`, in whole cache lines.
extern "C" int omp_get_max_threads();
static inline int64_t mc_tile(int64_t lanes, int64_t others, int64_t least, int64_t most) {
  const int64_t team = omp_get_max_threads(), threads = others < 1 || others >= team ? 1 : (team + others - 1) / others;
  const int64_t rounds = (lanes + threads * most - 1) / (threads * most), tiles = threads * (rounds < 1 ? 1 : rounds);
  const int64_t width = (lanes + tiles * 64 - 1) / (tiles * 64) * 64;
  return width < least ? least : width;
}

//@ mc_check_index
// The index, plus `wrap` if it is negative; or 0, with a note in *bad, for one outside of 0 … n - 1.
static inline int64_t mc_check_index(int64_t i, int64_t n, int64_t wrap, int *bad) {
  i += i < 0 ? wrap : 0;
  if ((uint64_t)i < (uint64_t)n) return i;
  __atomic_store_n(bad, 1, __ATOMIC_RELAXED);
  return 0;
}

//@ mc_shift_left mc_shift_right
// By as many bits as there are, or by fewer than 0: nothing is left but the sign, as in eager.
template <class T> static inline T mc_shift_left(T x, T n) {
  unsigned char fits = (n >= 0) & (n < (T)(sizeof(T) * 8));
  return fits ? (T)((uint64_t)x << (fits ? n : 0)) : (T)0;
}
template <class T> static inline T mc_shift_right(T x, T n) {
  T most = (T)(sizeof(T) * 8 - 1);
  unsigned char fits = (n >= 0) & (n <= most);
  return fits ? (T)(x >> (fits ? n : 0)) : (T)(x < 0 ? -1 : 0);
}

//@ mc_philox mc_philox64
// Philox 4x32-10 (see ir/philox.py). 32-bit words in 64-bit lanes, so that their products need no widening.
static inline int64_t mc_philox64(int64_t key, int64_t counter) {
  const uint64_t low = 0xFFFFFFFFu;
  uint64_t key0 = key & low, key1 = (uint64_t)key >> 32;
  uint64_t a = counter & low, b = (uint64_t)counter >> 32, c = 0, d = 0;
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    uint64_t first = (uint64_t)0xD2511F53u * a, second = (uint64_t)0xCD9E8D57u * c;
    a = (second >> 32) ^ b ^ key0; c = (first >> 32) ^ d ^ key1;
    b = second & low; d = first & low;
    key0 = (key0 + 0x9E3779B9u) & low; key1 = (key1 + 0xBB67AE85u) & low;
  }
  return (int64_t)(a | b << 32);
}
template <class T> static inline T mc_philox(T key, T counter) { return (T)mc_philox64(key, counter); }

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

//@ mc_divide
// a / b, rounded as a division, for a constant b and a that is 0 or far from under- and overflow: a third of a division's time.
// P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor (1990).
template <class T> static inline T mc_divide(T a, T b) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  const T reciprocal = (T)1 / b, quotient = a * reciprocal;
  return mc_fma(mc_fma(-b, quotient, a), reciprocal, quotient);
#else
  return a / b;
#endif
}

//@ mc_from_bf16
static inline float mc_from_bf16(uint16_t h) { return mc_float((uint32_t)h << 16); }

//@ mc_to_bf16
// Round to nearest even by adding half of the last kept bit; NaN must not become infinity on the way.
static inline uint16_t mc_to_bf16(float x) {
  uint32_t u = mc_bits(x), rounded = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? 0x7fc0u : rounded);
}

//@ mc_round_bf16
// In 32 bits: narrowing and widening would be shuffles.
static inline float mc_round_bf16(float x) {
  uint32_t u = mc_bits(x), rounded = (u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u;
  return mc_float(x != x ? 0x7fc00000u : rounded);
}

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
// NaN wins. In this form gcc vectorises a minimum of a maximum as well.
template <class T> static inline T mc_maximum(T a, T b) { return !(a <= b) & (b == b) ? a : b; }

//@ mc_minimum
template <class T> static inline T mc_minimum(T a, T b) { return !(a >= b) & (b == b) ? a : b; }

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

//@ mc_remainder mc_remainder_of
template <class T> static inline T mc_remainder_of(T r, T b) { return (r != 0) & ((r < 0) != (b < 0)) ? (T)(r + b) : r; }
template <class T> static inline T mc_remainder(T a, T b) { return mc_remainder_of(mc_fmod(a, b), b); }

//@ mc_trunc_divide
template <class T> static inline T mc_trunc_divide(T a, T b) {
  return b == 0 ? (T)0 : (b == (T)-1) & ((T)-1 < 0) ? (T)-a : (T)(a / b);
}
static inline float mc_trunc_divide(float a, float b) { return __builtin_truncf(a / b); }
static inline double mc_trunc_divide(double a, double b) { return __builtin_trunc(a / b); }

//@ mc_floor_divide mc_floor_divide_of
template <class T> static inline T mc_floor_divide(T a, T b) {
  T q = mc_trunc_divide(a, b), r = (T)(a - q * b);
  return (b != 0) & (r != 0) & ((r < 0) != (b < 0)) ? (T)(q - 1) : q;
}
// As torch's (and Python's): from fmod, so that the quotient of huge numbers is exact.
template <class T> static inline T mc_floor_divide_of(T mod, T a, T b) {
  T div = (a - mod) / b;
  div = (mod != 0) & ((b < 0) != (mod < 0)) ? div - 1 : div;
  T low = mc_floor(div), nearest = div - low > (T)0.5 ? low + 1 : low;
  nearest = div != 0 ? nearest : mc_copysign((T)0, a / b);
  return b == 0 ? a / b : nearest;
}
static inline float mc_floor_divide(float a, float b) { return mc_floor_divide_of(mc_fmod(a, b), a, b); }
static inline double mc_floor_divide(double a, double b) { return mc_floor_divide_of(mc_fmod(a, b), a, b); }

//@ mc_quotient_is_far mc_fmod_fast mc_remainder_fast mc_floor_divide_fast
// Of two floats in double: as long as the quotient has less than 30 bits its product with the divisor is exact, and so is what
// is left. The rounded quotient may be one too large. An infinite divisor leaves all; NaN, 0 and infinity below are far.
static inline int32_t mc_quotient_is_far(float a, float b) { return !(__builtin_fabs((double)a / b) < 0x1p29); }
static inline float mc_fmod_fast(float a, float b) {
  double x = a, y = b, q = __builtin_trunc(x / y), r = q == 0 ? x : x - q * y;
  r = (r != 0) & ((r < 0) != (x < 0)) ? r + __builtin_copysign(y, x) : r;
  return (float)__builtin_copysign(r, x);
}
static inline float mc_remainder_fast(float a, float b) { return mc_remainder_of(mc_fmod_fast(a, b), b); }
static inline float mc_floor_divide_fast(float a, float b) { return mc_floor_divide_of(mc_fmod_fast(a, b), a, b); }

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
// Results that may lie below the normal range are computed as multiples of 2^-149, rounded once to an integer, which is their
// bits: products that underflow cost 150 cycles each. Others: 2^k in two halves, as 2^128 is no float. What is out of range is
// replaced at the end: clamping x first keeps gcc from using plain vector code. Double: in halves, with Taylor's polynomial.
static inline float mc_exp(float x) {
  mc_Exp e = mc_exp_core(x);
  int32_t k = (int32_t)(e.shifted - 0x4b400000u);
  unsigned char low = (k < -125) & (x == x), out = x < -103.98f;
  int32_t shift = low ? k + 149 : k, half = shift >> 1;
  float y = e.mantissa * mc_float((uint32_t)(half + 127) << 23) * mc_float((uint32_t)(shift - half + 127) << 23);
  y = low ? mc_float((uint32_t)(int32_t)__builtin_rintf(out ? 0.0f : y)) : y;
  y = x > 88.7228394f ? __builtin_inff() : y;
  return out ? 0.0f : y;
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
// An odd polynomial (fitted by relative error) up to where the quotient is below a quarter, so that its error is small.
static inline float mc_tanh(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float p = mc_fma(-3.6530580837e-4f, z, 2.3267497309e-3f);
  p = mc_fma(p, z, -7.9833995551e-3f);
  p = mc_fma(p, z, 2.1514141932e-2f);
  p = mc_fma(p, z, -5.3890336305e-2f);
  p = mc_fma(p, z, 1.3332538307e-1f);
  p = mc_fma(p, z, -3.3333307505e-1f);
  float small = mc_fma(p * z, x, x);
  float large = 1.0f - 2.0f / (mc_exp_mid(a > 10.0f ? 20.0f : a + a) + 1.0f);
  return __builtin_copysignf(a < 0.975f ? small : large, x);
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
static inline float mc_exp2(float x) {
  float t = x > 129.0f ? 129.0f : x;
  t = t < -151.0f ? -151.0f : t;
  float m = t + 12582912.0f, f = t - (m - 12582912.0f);
  float p = mc_fma(1.53720379e-4f, f, 1.33903872e-3f);
  p = mc_fma(p, f, 9.61817801e-3f);
  p = mc_fma(p, f, 5.55036031e-2f);
  p = mc_fma(p, f, 2.40226522e-1f);
  p = mc_fma(p, f, 6.93147182e-1f);
  p = mc_fma(p, f, 1.0f);
  float last = t < -120.0f ? 0x1p-64f : 2.0f;
  uint32_t bias = t < -120.0f ? 191u << 23 : 126u << 23;
  return p * mc_float((mc_bits(m) << 23) + bias) * (x < -150.5f ? 0.0f : last);
}
static inline double mc_exp2(double x) { return __builtin_exp2(x); }

//@ mc_expm1
// After N. Juffa: e^r - 1 by a polynomial, then 2^k (e^r - 1) + (2^k - 1), halved so that 2^128 does not overflow.
static inline float mc_expm1(float x) {
  float a = x > 89.0f ? 89.0f : x;
  a = a < -30.0f ? -30.0f : a;
  float m = mc_fma(a, 1.44269504f, 12582912.0f), j = m - 12582912.0f;
  float f = mc_fma(j, -0.693359375f, a);
  f = mc_fma(j, 2.12194440e-4f, f);
  float r = mc_fma(1.97350979e-4f, f, 1.39309070e-3f);
  r = mc_fma(r, f, 8.33343994e-3f);
  r = mc_fma(r, f, 4.16668020e-2f);
  r = mc_fma(r, f, 1.66666716e-1f);
  r = mc_fma(r, f, 4.99999970e-1f);
  float v = mc_fma(r, f * f, j == 1.0f ? f + 0.5f : f);
  float t = mc_float((mc_bits(m) << 23) + (126u << 23)), y = t - 0.5f;
  float w = mc_fma(v, t, (t - y) - 0.5f) + y;
  w = w + w;
  w = j == 0.0f ? v : j == 1.0f ? v + v : w;
  return x == 0.0f ? x : w;
}
static inline double mc_expm1(double x) { return __builtin_expm1(x); }

//@ mc_log2
static inline float mc_log2(float x) { return (float)(mc_log((double)x) * 1.4426950408889634); }
static inline double mc_log2(double x) { return __builtin_log2(x); }

//@ mc_log10
static inline float mc_log10(float x) { return (float)(mc_log((double)x) * 0.4342944819032518); }
static inline double mc_log10(double x) { return __builtin_log10(x); }

//@ mc_log1p
// After N. Juffa: 1 + x = m · 2^k with m - 1 formed from x itself, so that nothing that 1 + x rounds away is lost.
static inline float mc_log1p(float x) {
  uint32_t k = (mc_bits(x + 1.0f) - 0x3f400000u) & 0xff800000u;
  float m = mc_float(mc_bits(x) - k) + mc_fma(0.25f, mc_float(0x40800000u - k), -1.0f);
  float e = (float)(int32_t)k * 0x1p-23f, z = m * m;
  float r = mc_fma(-4.54559326e-2f, z, -1.32279143e-1f), t = mc_fma(1.05529785e-1f, z, 1.44911006e-1f);
  r = mc_fma(r, z, -1.66416913e-1f);
  t = mc_fma(t, z, 1.99886635e-1f);
  r = mc_fma(r, z, -2.50001878e-1f);
  r = mc_fma(t, m, r);
  r = mc_fma(r, m, 3.33335280e-1f);
  r = mc_fma(r, m, -0.5f);
  float y = mc_fma(e, 0.693147182f, mc_fma(r, z, m));
  y = x > 3.402823466e38f ? x : y;
  y = x == -1.0f ? -__builtin_inff() : y;
  return x < -1.0f ? __builtin_nanf("") : (x != x) | (x == 0.0f) ? x : y;
}
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
