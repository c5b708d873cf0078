// Trigonometric functions for generated kernels: the second part of cpp_prelude.h, cut and copied in the same way.

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

//@ mc_fast_turns mc_FastTurns mc_sin_part mc_cos_part
// The same in float, for |x| ≤ 71476: Cody and Waite's reduction with fused multiply-adds; polynomials and
// constants after N. Juffa. 1.5 ulp.
struct mc_FastTurns { float rest; uint32_t quadrant; };
static inline mc_FastTurns mc_fast_turns(float x) {
  float m = mc_fma(x, 0.636619747f, 12582912.0f), n = m - 12582912.0f;
  float r = mc_fma(n, -0x1.921fb0p+0f, x);
  r = mc_fma(n, -0x1.5110b4p-22f, r);
  return {mc_fma(n, -0x1.846988p-48f, r), mc_bits(m)};
}
static inline float mc_sin_part(float r) {
  float z = r * r, p = mc_fma(2.86567956e-6f, z, -1.98559923e-4f);
  p = mc_fma(p, z, 8.33338592e-3f);
  p = mc_fma(p, z, -1.66666672e-1f);
  return mc_fma(p, r * z + 0.0f, r);
}
static inline float mc_cos_part(float r) {
  float z = r * r, p = mc_fma(2.44677067e-5f, z, -1.38877297e-3f);
  p = mc_fma(p, z, 4.16666567e-2f);
  p = mc_fma(p, z, -0.5f);
  return mc_fma(p, z, 1.0f);
}

//@ mc_is_far mc_sin_fast mc_cos_fast
// Where an argument is far, the kernel does the run again with the exact functions.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline int32_t mc_is_far(float x) { return __builtin_fabsf(x) > 71476.0f; }
static inline float mc_sin_fast(float x) {
  mc_FastTurns turns = mc_fast_turns(x);
  float y = turns.quadrant & 1 ? mc_cos_part(turns.rest) : mc_sin_part(turns.rest);
  return mc_float(mc_bits(y) ^ ((turns.quadrant & 2) << 30));
}
static inline float mc_cos_fast(float x) {
  mc_FastTurns turns = mc_fast_turns(x);
  float y = turns.quadrant & 1 ? mc_sin_part(turns.rest) : mc_cos_part(turns.rest);
  return mc_float(mc_bits(y) ^ (((turns.quadrant + 1) & 2) << 30));
}
#else
static inline int32_t mc_is_far(float x) { return 0; }
static inline float mc_sin_fast(float x) { return mc_sin(x); }
static inline float mc_cos_fast(float x) { return mc_cos(x); }
#endif

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
