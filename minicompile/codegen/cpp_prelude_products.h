// Matrix products whose tiles stay in registers, by the loops of Goto and van de Geijn ("Anatomy of high-performance matrix
// multiplication", ACM TOMS 34(3), 2008) and of BLIS. Read by cpp_math.py; cpp_product_choice.py says when they are used.

//@ mc_multiply
// to = left · right, or what is there and that: a tile of MC_DOWN rows and MC_WIDE columns, from a panel of each factor. The sums
// are 12 vectors of AVX2's 16 registers, 28 of AVX-512's 32.
#ifdef MC_AVX512
#define MC_DOWN 14
#else
#define MC_DOWN 6
#endif
#ifndef MC_LANES
#define MC_LANES 8
#endif
#define MC_WIDE (2 * MC_LANES)
#ifdef MC_VECTORS
static __attribute__((noinline)) void mc_multiply(int64_t terms, const float *left, const float *right, float *to, int64_t along, bool adds) {
  mc_vec sum[MC_DOWN][2] = {};
#pragma GCC unroll 16
  for (int i = 0; i < MC_DOWN; ++i) __builtin_prefetch(to + i * along, 1);
#pragma GCC unroll 4
  for (int64_t k = 0; k < terms; ++k) {
    const mc_vec a = mc_vload(right + k * MC_WIDE, mc_Every()), b = mc_vload(right + k * MC_WIDE + MC_LANES, mc_Every());
#pragma GCC unroll 16
    for (int i = 0; i < MC_DOWN; ++i) {
      const mc_vec x = left[k * MC_DOWN + i] - mc_vec{};
      sum[i][0] = mc_vfma(x, a, sum[i][0]);
      sum[i][1] = mc_vfma(x, b, sum[i][1]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MC_DOWN; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      float *place = to + i * along + j * MC_LANES;
      mc_vstore(place, adds ? mc_vload(place, mc_Every()) + sum[i][j] : sum[i][j], mc_Every());
    }
}
#else
static void mc_multiply(int64_t terms, const float *left, const float *right, float *to, int64_t along, bool adds) {
  float sum[MC_DOWN][MC_WIDE] = {};
  for (int64_t k = 0; k < terms; ++k)
    for (int i = 0; i < MC_DOWN; ++i)
      for (int j = 0; j < MC_WIDE; ++j) sum[i][j] += left[k * MC_DOWN + i] * right[k * MC_WIDE + j];
  for (int i = 0; i < MC_DOWN; ++i)
    for (int j = 0; j < MC_WIDE; ++j) to[i * along + j] = adds ? to[i * along + j] + sum[i][j] : sum[i][j];
}
#endif

//@ mc_Factor mc_panel
// Rows of a left factor, columns of a right one: `side` floats from one to the next, `along` from term to term; one of these is 1.
struct mc_Factor { const float *from; int64_t side, along; };
// Factors are copied into panels, in the order in which tiles read them: to[k * SIDE + i] is term k of row `first` + i, and 0 where
// there is no such row.
template <int SIDE>
static __attribute__((noinline)) void mc_panel(const mc_Factor &factor, int64_t first, int64_t rows, int64_t terms, float *to) {
  const int64_t side = factor.side, along = factor.along, rest = rows - first;
  const float *const from = factor.from + first * side;
  constexpr int64_t lanes = MC_SQUARE(float), squares = lanes ? (SIDE + lanes - 1) / lanes : 0;
  int64_t k = 0;
  if (lanes && along == 1 && rest >= squares * lanes)  // a square may be wider than the panel: the next term overwrites the excess
    for (; k + 2 * lanes <= terms; k += lanes)
      for (int64_t i = 0; i < squares * lanes; i += lanes) mc_square(from + i * side + k, side, to + k * SIDE + i, SIDE);
  if (side == 1 && rest >= SIDE)
    for (; k < terms; ++k) __builtin_memcpy(to + k * SIDE, from + k * along, 4 * SIDE);
#pragma GCC unroll 1
  for (; k < terms; ++k)
#pragma GCC unroll 1
    for (int i = 0; i < SIDE; ++i) to[k * SIDE + i] = i < rest ? from[i * side + k * along] : 0;
}

//@ mc_product mc_End
// end(row, rows, column, columns, block) gets each finished block of the product, whose rows lie MC_BLOCK_WIDE apart. Returns 1
// where there is no memory.
// Of the left factor, a strip of rows is copied at once by all threads. Then each thread takes columns of the right one, copies
// them, and goes through the strip in blocks: their part of the strip stays in L2, and a panel of the columns in L1.
// However many threads: a sum is of the same pieces of MC_TERMS terms in the same order.
#define MC_TERMS 192               // as MKL: errors grow with the terms that are added up one after the other (384: twice MKL's)
#define MC_BLOCK_DOWN (MC_DOWN * 20)
#define MC_BLOCK_WIDE 128
#define MC_STRIP (int64_t)(1 << 21)    // floats of the left factor, 8 MiB of the last cache
#define MC_COLUMNS (int64_t)(1 << 18)  // floats of the right factor, 1 MiB for each thread
extern "C" int omp_get_max_threads();
extern "C" int omp_get_thread_num();
extern "C" void *aligned_alloc(__SIZE_TYPE__ alignment, __SIZE_TYPE__ bytes);
typedef void (*mc_End)(const void *epilogue, int64_t row, int64_t rows, int64_t column, int64_t columns, const float *block);
static int mc_product(int64_t rows, int64_t columns, int64_t terms, mc_Factor left, mc_Factor right, mc_End end, const void *epilogue) {
  const auto whole = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
  const int64_t threads = omp_get_max_threads();
  const int64_t strip = mc_min(whole(rows, MC_DOWN), mc_max(MC_STRIP / terms / MC_BLOCK_DOWN, 1) * MC_BLOCK_DOWN);
  const int64_t most = mc_max(MC_COLUMNS / terms / MC_BLOCK_WIDE, 1) * MC_BLOCK_WIDE;
  const int64_t width = mc_min(most, whole(mc_max(columns / (4 * threads), 1), MC_BLOCK_WIDE));
  const int64_t tasks = (columns + width - 1) / width, parts = (threads + tasks - 1) / tasks;
  const int64_t pieces = (terms + MC_TERMS - 1) / MC_TERMS, piece = (terms + pieces - 1) / pieces;
  const int64_t size = whole(strip * terms, 16), own_size = width * terms;
  float *const lefts = (float *)aligned_alloc(64, 4 * (size + threads * own_size));
  if (!lefts) return 1;
#pragma omp parallel num_threads(threads)
  {
    float *const rights = lefts + size + omp_get_thread_num() * own_size;
    alignas(64) float block[MC_BLOCK_DOWN * MC_BLOCK_WIDE];
    for (int64_t top = 0; top < rows; top += strip) {
      const int64_t high = mc_min(rows - top, strip), share = whole((high + parts - 1) / parts, MC_DOWN);
#pragma omp for schedule(static)
      for (int64_t row = 0; row < high; row += MC_DOWN) mc_panel<MC_DOWN>(left, top + row, rows, terms, lefts + row * terms);
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < tasks * parts; ++task) {
        const int64_t first = task / parts * width, last = mc_min(first + width, columns);
        const int64_t from = task % parts * share, to = mc_min(from + share, high);
        if (from >= to) continue;
        for (int64_t column = first; column < last; column += MC_WIDE) 
          mc_panel<MC_WIDE>(right, column, columns, terms, rights + (column - first) * terms);
        for (int64_t row = from; row < to; row += MC_BLOCK_DOWN)
          for (int64_t column = first; column < last; column += MC_BLOCK_WIDE) {
            const int64_t down = mc_min(to - row, MC_BLOCK_DOWN), wide = mc_min(last - column, MC_BLOCK_WIDE);
            for (int64_t k = 0; k < terms; k += piece)
              for (int64_t j = 0; j < wide; j += MC_WIDE)
                for (int64_t i = 0; i < down; i += MC_DOWN)
                  mc_multiply(mc_min(piece, terms - k), lefts + (row + i) * terms + k * MC_DOWN, rights + (column - first + j) * terms + k * MC_WIDE,
                              block + i * MC_BLOCK_WIDE + j, MC_BLOCK_WIDE, k > 0);
            end(epilogue, top + row, down, column, wide, block);
          }
      }
    }
  }
  __builtin_free(lefts);
  return 0;
}
// The same with a lambda: only that is compiled anew for every kernel.
template <class End>
static inline int mc_product(int64_t rows, int64_t columns, int64_t terms, mc_Factor left, mc_Factor right, const End &end) {
  return mc_product(rows, columns, terms, left, right, [](const void *epilogue, auto... place) { (*(const End *)epilogue)(place...); }, &end);
}
