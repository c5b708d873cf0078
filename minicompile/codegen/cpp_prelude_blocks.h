// Functions over blocks of floats, y[0 … n - 1] = f(x[0 … n - 1]), where y may be x. In vectors (cpp_prelude_vectors.h) where there
// are any: what gcc cannot make of scalar code (a quick way for numbers that are not far, tables held in registers). Elsewhere
// loops over the scalar functions. Read by cpp_math.py like cpp_prelude.h.
// All ≤ 2 ulp (erf and tanh below 1) and right at NaN, ±inf, ±0, subnormals and overflow.

//@ mc_stream mc_fence mc_line
// Bytes to memory past the caches, in whole lines as far as there are; nobody else sees them before a fence.
#if defined(__AVX512F__) && !defined(__clang__)
#define MC_STREAM(to, from) __builtin_ia32_movntps512((float *)(to), from)
typedef float mc_line __attribute__((vector_size(64)));
#elif defined(__AVX__) && !defined(__clang__)
#define MC_STREAM(to, from) __builtin_ia32_movntps256((float *)(to), from)
typedef float mc_line __attribute__((vector_size(32)));
#elif defined(__SSE2__) && !defined(__clang__)
#define MC_STREAM(to, from) __builtin_ia32_movntps((float *)(to), from)
typedef float mc_line __attribute__((vector_size(16)));
#endif
#ifdef MC_STREAM
static inline void mc_fence() { __builtin_ia32_sfence(); }
static inline void mc_stream(void *target, const void *source, int64_t bytes) {
  char *to = (char *)target;
  const char *from = (const char *)source;
  int64_t first = (int64_t)(-(uint64_t)to & 63);
  if (first > bytes) first = bytes;
  if (first) { __builtin_memcpy(to, from, first); to += first; from += first; bytes -= first; }
  for (; bytes >= 64; to += 64, from += 64, bytes -= 64)
    for (int part = 0; part < 64; part += sizeof(mc_line)) {
      mc_line line;
      __builtin_memcpy(&line, from + part, sizeof line);
      MC_STREAM(to + part, line);
    }
  if (bytes) __builtin_memcpy(to, from, bytes);
}
#else
static inline void mc_fence() {}
static inline void mc_stream(void *target, const void *source, int64_t bytes) { __builtin_memcpy(target, source, bytes); }
#endif

//@ mc_transpose mc_square
// to[a * along + b] = from[a + b * stride] for a < rows, b < columns: a tile that is read as it lies. In AVX-512 and AVX2 by squares
// of as many vectors as one has elements: each round interleaves vectors i and i + N / 2, a perfect shuffle of the whole square, and
// log2 N perfect shuffles of N × N elements transpose them.
template <class T> static inline void mc_square(const T *, int64_t, T *, int64_t) {}
#if defined(__AVX512F__) && !defined(__clang__)
#define MC_BYTES 64
#define MC_LOW_FLOATS {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define MC_LOW_DOUBLES {0, 8, 1, 9, 2, 10, 3, 11}
#elif defined(__AVX2__) && !defined(__clang__)
#define MC_BYTES 32
#define MC_LOW_FLOATS {0, 8, 1, 9, 2, 10, 3, 11}
#define MC_LOW_DOUBLES {0, 4, 1, 5}
#endif
#ifdef MC_BYTES
template <int N, class T, class I> static inline void mc_square(const T *from, int64_t stride, T *to, int64_t along, I low, I high) {
  typedef T vector __attribute__((vector_size(MC_BYTES)));
  typedef T unaligned __attribute__((vector_size(MC_BYTES), aligned(sizeof(T))));
  vector x[N], y[N];
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) x[i] = *(const unaligned *)(from + i * stride);
#pragma GCC unroll 4
  for (int round = 1; round < N; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < N / 2; ++i) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + N / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + N / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < N; ++i) *(unaligned *)(to + i * along) = x[i];
}
static inline void mc_square(const float *from, int64_t stride, float *to, int64_t along) {
  typedef int32_t index __attribute__((vector_size(MC_BYTES)));
  const index low = MC_LOW_FLOATS;
  mc_square<MC_BYTES / 4>(from, stride, to, along, low, low + MC_BYTES / 8);
}
static inline void mc_square(const double *from, int64_t stride, double *to, int64_t along) {
  typedef int64_t index __attribute__((vector_size(MC_BYTES)));
  const index low = MC_LOW_DOUBLES;
  mc_square<MC_BYTES / 8>(from, stride, to, along, low, low + MC_BYTES / 16);
}
static inline void mc_square(const int32_t *from, int64_t stride, int32_t *to, int64_t along) {
  mc_square((const float *)from, stride, (float *)to, along);
}
static inline void mc_square(const int64_t *from, int64_t stride, int64_t *to, int64_t along) {
  mc_square((const double *)from, stride, (double *)to, along);
}
#define MC_SQUARE(T) (sizeof(T) >= 4 ? MC_BYTES / (int64_t)sizeof(T) : 0)
#else
#define MC_SQUARE(T) (int64_t)0
#endif
template <class T>
static inline void mc_transpose(const T *from, int64_t stride, T *to, int64_t along, int64_t rows, int64_t columns) {
  const int64_t side = MC_SQUARE(T), whole = side ? rows / side * side : 0, across = side ? columns / side * side : 0;
  for (int64_t b = 0; b < across; b += side)
    for (int64_t a = 0; a < whole; a += side) mc_square(from + a + b * stride, stride, to + a * along + b, along);
  for (int64_t b = 0; b < columns; ++b)
    for (int64_t a = b < across ? whole : 0; a < rows; ++a) to[a * along + b] = from[a + b * stride];
}

//@ mc_vml
// Block functions of MKL, as eager calls them: accurate to 1 ulp, subnormals kept, errors ignored. torch's library has them.
#define mc_vml(name, function) \
  extern "C" void vms##function(int n, const float *x, float *y, int64_t mode); \
  extern "C" void vmd##function(int n, const double *x, double *y, int64_t mode); \
  static inline void mc_##name##_vml(const float *x, float *y, int64_t n) { vms##function((int)n, x, y, 0x140102); } \
  static inline void mc_##name##_vml(const double *x, double *y, int64_t n) { vmd##function((int)n, x, y, 0x140102); }

//@ mc_OneThread
// While it lives, MKL's functions stay on the thread that calls them. After torch.set_num_threads MKL forms a team for each
// call, within a team of ours too: 0.4 µs for 256 elements that take 0.05. A region's threads get a copy each (firstprivate).
extern "C" int MKL_Set_Num_Threads_Local(int threads);
struct mc_OneThread {
  const int before;
  mc_OneThread() : before(MKL_Set_Num_Threads_Local(1)) {}
  mc_OneThread(const mc_OneThread &) : mc_OneThread() {}
  ~mc_OneThread() { MKL_Set_Num_Threads_Local(before); }
};

//@ mc_sleef
// Block functions by Sleef's, which torch's library has too. 1 ulp.
#ifdef MC_AVX512
#define MC_SLEEF_FLOATS(name) Sleef_##name##f16_u10
#define MC_SLEEF_DOUBLES(name) Sleef_##name##d8_u10
#elif defined(MC_VECTORS)
#define MC_SLEEF_FLOATS(name) Sleef_##name##f8_u10
#define MC_SLEEF_DOUBLES(name) Sleef_##name##d4_u10
#endif
#ifdef MC_VECTORS
#define mc_sleef(name) \
  extern "C" mc_vec MC_SLEEF_FLOATS(name)(mc_vec); \
  extern "C" mc_vecd MC_SLEEF_DOUBLES(name)(mc_vecd); \
  static inline void mc_##name##_sleef(const float *x, float *y, int64_t n) { mc_each(x, y, n, MC_SLEEF_FLOATS(name)); } \
  static inline void mc_##name##_sleef(const double *x, double *y, int64_t n) { mc_each(x, y, n, MC_SLEEF_DOUBLES(name)); }
#else
#define mc_sleef(name) \
  template <class T> static inline void mc_##name##_sleef(const T *x, T *y, int64_t n) { \
    for (int64_t i = 0; i < n; ++i) y[i] = mc_##name(x[i]); \
  }
#endif

//@ mc_exp_block
static inline void mc_exp_block(const float *x, float *y, int64_t n) {
#ifdef MC_VECTORS
  mc_each(x, y, n, mc_vexp);
#else
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = mc_exp(x[i]);
#endif
}

//@ mc_log_block
static inline void mc_log_block(const float *x, float *y, int64_t n) {
#ifdef MC_VECTORS
  mc_each(x, y, n, mc_vlog);
#else
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = mc_log(x[i]);
#endif
}

//@ mc_sigmoid_block
static inline void mc_sigmoid_block(const float *x, float *y, int64_t n) {
#ifdef MC_VECTORS
  mc_each(x, y, n, mc_vsigmoid);
#else
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = mc_sigmoid(x[i]);
#endif
}

//@ mc_odd mc_Table
// An odd function by a table: around each of 32 centres, whose values are nearly floats themselves, a polynomial in x - centre.
// Columns: centre, value, coefficients of (x - centre)^1 …; the centres are about `1 / scale` apart. Around 0 the table holds
// f(x) - x, so that small results are rounded once. From `last` on it is 1: 1 + tanh(-20) must be 0.
#ifdef MC_AVX512
template <int COLUMNS> struct mc_Table {
  mc_vec low[COLUMNS], high[COLUMNS];
  mc_Table(const float (*table)[32]) {
    for (int k = 0; k < COLUMNS; ++k) {
      __builtin_memcpy(&low[k], table[k], 64);
      __builtin_memcpy(&high[k], table[k] + 16, 64);
    }
  }
  mc_vec at(int k, mc_veci i) const { return (mc_vec)__builtin_shuffle((mc_veci)low[k], (mc_veci)high[k], i); }
};
template <int COLUMNS> static inline mc_vec mc_odd(const mc_Table<COLUMNS> &table, mc_vec x, float scale, float last) {
  mc_vec a = mc_vmin(mc_splat(last), mc_vabs(x));
  mc_veci i = (mc_veci)mc_vfma(a, mc_splat(scale), mc_splat(12582912.0f));
  mc_vec t = a - table.at(0, i), p = table.at(COLUMNS - 1, i);
  for (int k = COLUMNS - 2; k > 1; --k) p = mc_vfma(p, t, table.at(k, i));
  return mc_vsign(a == last ? mc_splat(1.0f) : mc_vfma(p, t, i == 0x4b400000 ? a : table.at(1, i)), x);
}
#endif

//@ mc_erf_block mc_verf mc_erf_table
#ifdef MC_AVX512
static const float mc_erf_table[7][32] = {
  {0.0f, 0.12499958f, 0.24998954f, 0.37500358f, 0.49999404f, 0.62500376f, 0.7499774f, 0.8750189f, 1.0000339f,
   1.1250116f, 1.25003f, 1.3749713f, 1.5000267f, 1.6250386f, 1.7500398f, 1.8750187f, 1.9999866f, 2.124972f, 2.2500777f,
   2.3750226f, 2.4999049f, 2.624981f, 2.7499142f, 2.8749735f, 2.9999046f, 3.1250365f, 3.2500954f, 3.3750954f,
   3.5000954f, 3.6249046f, 3.7499046f, 3.8749046f},
  {0.0f, 0.14031574f, 0.2763153f, 0.40412042f, 0.52049464f, 0.62324375f, 0.7111411f, 0.784085f, 0.84271485f,
   0.8883919f, 0.92290723f, 0.9481652f, 0.9661083f, 0.97844684f, 0.9866738f, 0.9919907f, 0.995322f, 0.9973456f,
   0.99853784f, 0.99921715f, 0.99959284f, 0.9997946f, 0.9998993f, 0.99995214f, 0.9999779f, 0.9999901f, 0.9999957f,
   0.9999982f, 0.9999993f, 0.9999997f, 0.9999999f, 0.99999994f},
  {0.12837917f, 1.1108854f, 1.0600197f, 0.9803502f, 0.8787878f, 0.763496f, 0.64295286f, 0.5247277f, 0.41507939f,
   0.31826568f, 0.23650336f, 0.17037323f, 0.118920766f, 0.08046216f, 0.05276764f, 0.033543475f, 0.02066809f,
   0.0123422835f, 0.0071398215f, 0.004006047f, 0.0021793204f, 0.0011479901f, 0.00058655406f, 0.00029027244f,
   0.00013933275f, 6.474392e-5f, 2.9170937e-5f, 1.2743535e-5f, 5.3958233e-6f, 2.217453e-6f, 8.8206286e-7f,
   3.4007363e-7f},
  {0.0f, -0.1388601f, -0.26499364f, -0.3676346f, -0.43938842f, -0.47718763f, -0.4822f, -0.4591466f, -0.41509345f,
   -0.35805264f, -0.29563642f, -0.23425841f, -0.17838441f, -0.13075419f, -0.09234552f, -0.062894665f, -0.041335903f,
   -0.026227f, -0.01606514f, -0.009514437f, -0.0054480806f, -0.0030134413f, -0.0016129654f, -0.00083452015f,
   -0.00041798144f, -0.00020232494f, -9.480707e-5f, -4.3009943e-5f, -1.8885523e-5f, -8.037866e-6f, -3.307559e-6f,
   -1.3177096e-6f},
  {-0.37612617f, -0.35872337f, -0.30917603f, -0.23487379f, -0.14646815f, -0.055669256f, 0.02677509f, 0.09293201f,
   0.13837846f, 0.16245358f, 0.16753504f, 0.15794122f, 0.13874726f, 0.11483297f, 0.090149656f, 0.067437954f,
   0.04822482f, 0.033040356f, 0.021718625f, 0.013729343f, 0.008353368f, 0.0048908363f, 0.0027615044f, 0.0015027326f,
   0.0007894973f, 0.00039993715f, 0.00019569961f, 9.252835e-5f, 4.2269407e-5f, 1.8685487e-5f, 7.97482e-6f,
   3.2907149e-6f},
  {0.0f, 0.06859611f, 0.12677856f, 0.16633926f, 0.18283485f, 0.1762572f, 0.15056154f, 0.11233947f, 0.06919537f,
   0.028045656f, -0.0060623777f, -0.03038787f, -0.044506337f, -0.04964877f, -0.04805703f, -0.0422387f, -0.034443572f,
   -0.026371455f, -0.019093435f, -0.013147492f, -0.008638973f, -0.005425689f, -0.0032674088f, -0.0018875678f,
   -0.0010484975f, -0.00055968354f, -0.00028771008f, -0.00014252699f, -6.8059504e-5f, -3.1381365e-5f, -1.3944563e-5f,
   -5.9807016e-6f},
  {0.1126806f, 0.1040644f, 0.07997665f, 0.04544757f, 0.0073513794f, -0.027346356f, -0.05314897f, -0.06712613f,
   -0.069109544f, -0.061275613f, -0.047159445f, -0.030616704f, -0.014886365f, -0.0021618153f, 0.0065968777f,
   0.01143894f, 0.0130725205f, 0.012486635f, 0.01065304f, 0.008357567f, 0.0061215935f, 0.004221466f, 0.0027598217f,
   0.0017160302f, 0.0010188813f, 0.0005781666f, 0.00031447835f, 0.00016419035f, 8.235669e-5f, 3.9769413e-5f,
   1.8461793e-5f, 8.2534e-6f}};
struct mc_verf {
  mc_Table<7> table{mc_erf_table};
  mc_vec operator()(mc_vec x) const { return mc_odd(table, x, 8.0f, 3.93f); }
};
#elif defined(MC_VECTORS)
// An odd polynomial below 1.02 and one in |x| - 2.5 above, cut in two so that no chain of products is long; both fitted
// to minimal error. From 4 on it is 1.
struct mc_verf {
  mc_vec operator()(mc_vec x) const {
    mc_vec a = mc_vmin(mc_splat(4.0f), mc_vabs(x)), z = x * x, u = a - 2.5f, w = u * u;
    mc_vec p = mc_vfma(mc_splat(7.72082276e-5f), z, mc_splat(-7.97246292e-4f));
    p = mc_vfma(p, z, mc_splat(5.18433843e-3f));
    p = mc_vfma(p, z, mc_splat(-2.68518813e-2f));
    p = mc_vfma(p, z, mc_splat(1.1283543e-1f));
    p = mc_vfma(p, z, mc_splat(-3.7612623e-1f));
    p = mc_vfma(p, z, mc_splat(1.28379166e-1f));
    mc_vec even = mc_vfma(mc_splat(8.48621994e-7f), w, mc_splat(-1.54276131e-5f));
    even = mc_vfma(even, w, mc_splat(8.03051153e-5f));
    even = mc_vfma(even, w, mc_splat(2.59789173e-4f));
    even = mc_vfma(even, w, mc_splat(-2.79826391e-3f));
    even = mc_vfma(even, w, mc_splat(-8.62238463e-3f));
    even = mc_vfma(even, w, mc_splat(-5.44571318e-3f));
    even = mc_vfma(even, w, mc_splat(2.85587642e-8f));
    mc_vec odd = mc_vfma(mc_splat(5.49026765e-7f), w, mc_splat(1.74189317e-5f));
    odd = mc_vfma(odd, w, mc_splat(-2.69734242e-4f));
    odd = mc_vfma(odd, w, mc_splat(5.59266948e-4f));
    odd = mc_vfma(odd, w, mc_splat(6.10976294e-3f));
    odd = mc_vfma(odd, w, mc_splat(8.35160352e-3f));
    odd = mc_vfma(odd, w, mc_splat(2.17819656e-3f));
    return a >= 1.02f ? mc_vsign(0.999593019f + mc_vfma(odd, u, even), x) : mc_vfma(p, x, x);
  }
};
#endif
static inline void mc_erf_block(const float *x, float *y, int64_t n) {
#ifdef MC_VECTORS
  mc_each(x, y, n, mc_verf());
#else
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = mc_erf(x[i]);
#endif
}

//@ mc_tanh_block mc_vtanh mc_tanh_table
#ifdef MC_AVX512
static const float mc_tanh_table[8][32] = {
  {0.0f, 0.28572258f, 0.5714521f, 0.8571325f, 1.1428995f, 1.4286073f, 1.7142977f, 1.9999182f, 2.2857692f, 2.5715203f,
   2.8570592f, 3.1429174f, 3.4285192f, 3.7143533f, 4.0000215f, 4.285904f, 4.5713325f, 4.8571534f, 5.1427426f,
   5.428762f, 5.7143855f, 6.0001907f, 6.285905f, 6.571238f, 6.8573337f, 7.1426663f, 7.4283805f, 7.714095f, 7.9996185f,
   8.286096f, 8.57181f, 8.856761f},
  {0.0f, 0.27819315f, 0.5164249f, 0.6947773f, 0.81538814f, 0.89138085f, 0.9371727f, 0.9640218f, 0.97952765f, 0.988388f,
   0.9934236f, 0.9962819f, 0.99789816f, 0.9988128f, 0.9993293f, 0.99962133f, 0.999786f, 0.9998792f, 0.99993175f,
   0.9999615f, 0.99997824f, 0.9999877f, 0.9999931f, 0.99999607f, 0.9999978f, 0.99999875f, 0.9999993f, 0.9999996f,
   0.99999976f, 0.9999999f, 0.99999994f, 0.99999994f},
  {-1.4167359e-8f, 0.92260855f, 0.73330534f, 0.5172845f, 0.33514217f, 0.20544018f, 0.12170731f, 0.07066196f,
   0.040525578f, 0.023089157f, 0.013109588f, 0.007422332f, 0.0041992594f, 0.002373001f, 0.0013408932f, 0.00075719313f,
   0.00042791563f, 0.00024162266f, 0.00013649001f, 7.703366e-5f, 4.351093e-5f, 2.4567174e-5f, 1.3873607e-5f,
   7.840675e-6f, 4.424403e-6f, 2.5004506e-6f, 1.412051e-6f, 7.9741045e-7f, 4.5048415e-7f, 2.5400877e-7f, 1.4344342e-7f,
   8.112882e-8f},
  {0.0f, -0.25666338f, -0.37869713f, -0.35939753f, -0.27327096f, -0.18312545f, -0.11406077f, -0.068119675f,
   -0.039695926f, -0.022821046f, -0.013023375f, -0.0073947352f, -0.0041904333f, -0.0023701838f, -0.0013399939f,
   -0.0007569064f, -0.00042782404f, -0.00024159347f, -0.0001364807f, -7.7030694e-5f, -4.3509983e-5f, -2.4566873e-5f,
   -1.387351e-5f, -7.840644e-6f, -4.4243934e-6f, -2.5004476e-6f, -1.41205e-6f, -7.9741017e-7f, -4.5048407e-7f,
   -2.5400874e-7f, -1.434434e-7f, -8.112881e-8f},
  {-0.33332083f, -0.23613271f, -0.04887366f, 0.077270135f, 0.11110855f, 0.09475551f, 0.06632605f, 0.042115018f,
   0.025374744f, 0.01485964f, 0.008567841f, 0.0048931134f, 0.0027818617f, 0.001576363f, 0.00089212693f, 0.00050421985f,
   0.0002850927f, 0.00016102268f, 9.09743e-5f, 5.134961e-5f, 2.9005263e-5f, 1.6377438e-5f, 9.248837e-6f, 5.2270316e-6f,
   2.9495693e-6f, 1.6669534e-6f, 9.4136107e-7f, 5.31604e-7f, 3.0032123e-7f, 1.6933836e-7f, 9.562849e-8f, 5.408563e-8f},
  {0.0f, 0.15123847f, 0.1514682f, 0.066114016f, 0.0004950054f, -0.023420675f, -0.024138445f, -0.01789319f,
   -0.011623306f, -0.007080102f, -0.0041703917f, -0.0024100225f, -0.001379212f, -0.0007844353f, -0.00044486692f,
   -0.00025172846f, -0.00014242463f, -8.047261e-5f, -4.5474833e-5f, -2.5670906e-5f, -1.4501402e-5f, -8.188335e-6f,
   -4.6243003e-6f, -2.6134808e-6f, -1.4747749e-6f, -8.334744e-7f, -4.7068028e-7f, -2.6580216e-7f, -1.5016082e-7f,
   -8.466933e-8f, -4.781434e-8f, -2.704287e-8f},
  {0.13169616f, 0.05694492f, -0.044699773f, -0.059811056f, -0.030084552f, -0.0062803975f, 0.003150318f, 0.0047611147f,
   0.003825867f, 0.0025606854f, 0.0015814225f, 0.00093719433f, 0.00054376485f, 0.00031163896f, 0.00017749105f,
   0.000100674435f, 5.7037014e-5f, 3.22515e-5f, 1.8233042e-5f, 1.0295192e-5f, 5.81651e-6f, 3.2845935e-6f,
   1.8550301e-6f, 1.048419e-6f, 5.9162613e-7f, 3.3436228e-7f, 1.8882214e-7f, 1.06631745e-7f, 6.024004e-8f,
   3.3966835e-8f, 1.918171e-8f, 1.0848809e-8f},
  {0.0f, -0.07111268f, -0.035332564f, 0.011481777f, 0.01812589f, 0.009237293f, 0.0025242728f, -0.00014546535f,
   -0.00075288734f, -0.00067450263f, -0.00046752032f, -0.00029286672f, -0.00017488658f, -0.00010180202f,
   -5.8479458e-5f, -3.33289e-5f, -1.893301e-5f, -1.0721776e-5f, -6.066581e-6f, -3.427103e-6f, -1.9367444e-6f,
   -1.0938496e-6f, -6.178233e-7f, -3.4919597e-7f, -1.970578e-7f, -1.1137053e-7f, -6.2894074e-8f, -3.551775e-8f,
   -2.0065288e-8f, -1.1313994e-8f, -6.3892305e-9f, -3.6136287e-9f}};
struct mc_vtanh {
  mc_Table<8> table{mc_tanh_table};
  mc_vec operator()(mc_vec x) const { return mc_odd(table, x, 3.5f, 8.99f); }
};
#elif defined(MC_VECTORS)
// As mc_tanh.
struct mc_vtanh {
  mc_vec operator()(mc_vec x) const {
    mc_vec a = mc_vabs(x), z = x * x, t = mc_vmin(mc_splat(10.0f), a);
    mc_vec p = mc_vfma(mc_splat(-3.6530580837e-4f), z, mc_splat(2.3267497309e-3f));
    p = mc_vfma(p, z, mc_splat(-7.9833995551e-3f));
    p = mc_vfma(p, z, mc_splat(2.1514141932e-2f));
    p = mc_vfma(p, z, mc_splat(-5.3890336305e-2f));
    p = mc_vfma(p, z, mc_splat(1.3332538307e-1f));
    p = mc_vfma(p, z, mc_splat(-3.3333307505e-1f));
    mc_vec large = 1.0f - 2.0f / (mc_vexp_mid(t + t) + 1.0f);
    return mc_vsign(!(a >= 0.975f) ? mc_vfma(p * z, a, a) : large, x);
  }
};
#endif
static inline void mc_tanh_block(const float *x, float *y, int64_t n) {
#ifdef MC_VECTORS
  mc_each(x, y, n, mc_vtanh());
#else
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = mc_tanh(x[i]);
#endif
}

//@ mc_tan_vml
mc_vml(tan, Tan)

//@ mc_asin_vml
mc_vml(asin, Asin)

//@ mc_acos_vml
mc_vml(acos, Acos)

//@ mc_atan_vml
mc_vml(atan, Atan)

//@ mc_log2_vml
mc_vml(log2, Log2)

//@ mc_log10_vml
mc_vml(log10, Log10)

//@ mc_erfc_vml
mc_vml(erfc, Erfc)

//@ mc_erfinv_vml
mc_vml(erfinv, ErfInv)

//@ mc_exp_vml
mc_vml(exp, Exp)

//@ mc_log_vml
mc_vml(log, Ln)

//@ mc_sin_vml
mc_vml(sin, Sin)

//@ mc_cos_vml
mc_vml(cos, Cos)

//@ mc_tanh_vml
mc_vml(tanh, Tanh)

//@ mc_erf_vml
mc_vml(erf, Erf)

//@ mc_exp2_sleef
// Elsewhere by mc_exp2.
mc_sleef(exp2)

//@ mc_expm1_sleef
// Elsewhere by mc_expm1.
mc_sleef(expm1)

//@ mc_log1p_sleef
// Elsewhere by mc_log1p.
mc_sleef(log1p)

//@ mc_atanh_sleef
// Elsewhere by mc_atanh.
mc_sleef(atanh)

//@ mc_lgamma_sleef
// Elsewhere by mc_lgamma.
mc_sleef(lgamma)
