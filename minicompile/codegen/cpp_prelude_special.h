// Special functions: the C library's, and, in the last section, ATen's own, from the header that eager's kernels are
// compiled with. A source that uses one of those is built against torch's headers (see runtime/cpp_build.py).

//@ mc_lgamma
static inline float mc_lgamma(float x) { return __builtin_lgammaf(x); }
static inline double mc_lgamma(double x) { return __builtin_lgamma(x); }

//@ mc_hypot
// Squares of floats neither overflow nor vanish in double. Infinity wins over NaN.
static inline float mc_hypot(float a, float b) {
  double x = a, y = b, far = __builtin_inf();
  return (float)((__builtin_fabs(x) == far) | (__builtin_fabs(y) == far) ? far : __builtin_sqrt(x * x + y * y));
}
static inline double mc_hypot(double a, double b) { return __builtin_hypot(a, b); }

//@ mc_nextafter
static inline float mc_nextafter(float a, float b) { return __builtin_nextafterf(a, b); }
static inline double mc_nextafter(double a, double b) { return __builtin_nextafter(a, b); }

//@ mc_gcd
// Euclid's, never negative but for the smallest integer, whose absolute value overflows.
template <class T> static inline T mc_gcd(T a, T b) {
  a = mc_abs(a), b = mc_abs(b);
  while (a != 0) { T c = a; a = (T)(b % a); b = c; }
  return b;
}

//@ mc_digamma mc_erfinv mc_trigamma mc_ndtri mc_log_ndtr mc_erfcx mc_i0 mc_i0e mc_i1 mc_i1e mc_airy_ai mc_spherical_bessel_j0 mc_bessel_j0 mc_bessel_j1 mc_bessel_y0 mc_bessel_y1 mc_modified_bessel_i0 mc_modified_bessel_i1 mc_modified_bessel_k0 mc_modified_bessel_k1 mc_scaled_modified_bessel_k0 mc_scaled_modified_bessel_k1 mc_igamma mc_igammac mc_zeta mc_chebyshev_polynomial_t mc_chebyshev_polynomial_u mc_chebyshev_polynomial_v mc_chebyshev_polynomial_w mc_shifted_chebyshev_polynomial_t mc_shifted_chebyshev_polynomial_u mc_shifted_chebyshev_polynomial_v mc_shifted_chebyshev_polynomial_w mc_hermite_polynomial_h mc_hermite_polynomial_he mc_laguerre_polynomial_l mc_legendre_polynomial_p mc_polygamma
#include <ATen/native/Math.h>
template <class T> static inline T mc_digamma(T x) { return calc_digamma(x); }
template <class T> static inline T mc_erfinv(T x) { return calc_erfinv(x); }
template <class T> static inline T mc_trigamma(T x) { return trigamma(x); }
template <class T> static inline T mc_ndtri(T x) { return calc_ndtri(x); }
template <class T> static inline T mc_log_ndtr(T x) { return calc_log_ndtr(x); }
template <class T> static inline T mc_erfcx(T x) { return calc_erfcx(x); }
template <class T> static inline T mc_i0(T x) { return calc_i0(x); }
template <class T> static inline T mc_i0e(T x) { return calc_i0e(x); }
template <class T> static inline T mc_i1(T x) { return calc_i1(x); }
template <class T> static inline T mc_i1e(T x) { return calc_i1e(x); }
template <class T> static inline T mc_airy_ai(T x) { return airy_ai_forward(x); }
template <class T> static inline T mc_spherical_bessel_j0(T x) { return spherical_bessel_j0_forward(x); }
template <class T> static inline T mc_bessel_j0(T x) { return bessel_j0_forward(x); }
template <class T> static inline T mc_bessel_j1(T x) { return bessel_j1_forward(x); }
template <class T> static inline T mc_bessel_y0(T x) { return bessel_y0_forward(x); }
template <class T> static inline T mc_bessel_y1(T x) { return bessel_y1_forward(x); }
template <class T> static inline T mc_modified_bessel_i0(T x) { return modified_bessel_i0_forward(x); }
template <class T> static inline T mc_modified_bessel_i1(T x) { return modified_bessel_i1_forward(x); }
template <class T> static inline T mc_modified_bessel_k0(T x) { return modified_bessel_k0_forward(x); }
template <class T> static inline T mc_modified_bessel_k1(T x) { return modified_bessel_k1_forward(x); }
template <class T> static inline T mc_scaled_modified_bessel_k0(T x) { return scaled_modified_bessel_k0_forward(x); }
template <class T> static inline T mc_scaled_modified_bessel_k1(T x) { return scaled_modified_bessel_k1_forward(x); }
template <class T> static inline T mc_igamma(T x, T y) { return calc_igamma<T>(x, y); }
template <class T> static inline T mc_igammac(T x, T y) { return calc_igammac<T>(x, y); }
template <class T> static inline T mc_zeta(T x, T y) { return zeta<T>(x, y); }
template <class T> static inline T mc_chebyshev_polynomial_t(T x, T y) { return chebyshev_polynomial_t_forward<T>(x, y); }
template <class T> static inline T mc_chebyshev_polynomial_u(T x, T y) { return chebyshev_polynomial_u_forward<T>(x, y); }
template <class T> static inline T mc_chebyshev_polynomial_v(T x, T y) { return chebyshev_polynomial_v_forward<T>(x, y); }
template <class T> static inline T mc_chebyshev_polynomial_w(T x, T y) { return chebyshev_polynomial_w_forward<T>(x, y); }
template <class T> static inline T mc_shifted_chebyshev_polynomial_t(T x, T y) { return shifted_chebyshev_polynomial_t_forward<T>(x, y); }
template <class T> static inline T mc_shifted_chebyshev_polynomial_u(T x, T y) { return shifted_chebyshev_polynomial_u_forward<T>(x, y); }
template <class T> static inline T mc_shifted_chebyshev_polynomial_v(T x, T y) { return shifted_chebyshev_polynomial_v_forward<T>(x, y); }
template <class T> static inline T mc_shifted_chebyshev_polynomial_w(T x, T y) { return shifted_chebyshev_polynomial_w_forward<T>(x, y); }
template <class T> static inline T mc_hermite_polynomial_h(T x, T y) { return hermite_polynomial_h_forward<T>(x, y); }
template <class T> static inline T mc_hermite_polynomial_he(T x, T y) { return hermite_polynomial_he_forward<T>(x, y); }
template <class T> static inline T mc_laguerre_polynomial_l(T x, T y) { return laguerre_polynomial_l_forward<T>(x, y); }
template <class T> static inline T mc_legendre_polynomial_p(T x, T y) { return legendre_polynomial_p_forward<T>(x, y); }
template <class T> static inline T mc_polygamma(T x, T n) { return calc_polygamma<T>(x, (int)n); }
