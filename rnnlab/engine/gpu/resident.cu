// What kernels of resident nodes share: one program holds the nodes of one member's component for ROWS sequences, or
// PROGRAMS of a cluster share them, SHARE units of each.
//
// Matrices stay in shared memory, some of a cluster's in registers. Warps form a grid: each has M times 16 rows and 8 * N
// units. Its threads keep states and gradients where the matrix units leave sums: thread `lane` has rows lane / 4 and 8
// more of each 16, and of each tile of 8 columns numbers 2 * (lane % 4) and the next. So all gates of a unit meet in one
// thread. Which unit a column stands for is free: here those of a thread are neighbours, U = 2 * N in a row, so that memory
// is read and written in long pieces.

constexpr int U = 2 * N;

// Warps of the same rows are a group. Groups share the matrices and nothing else, so each keeps its own pace.
constexpr int GROUP_ROWS = ROWS / GROUPS, GROUP_THREADS = THREADS / GROUPS;
DEVICE int own_group() { return threadIdx.x / 32 % GROUPS; }
DEVICE int place_in_group() { return threadIdx.x / 32 / GROUPS * 32 + threadIdx.x % 32; }
DEVICE void meet_group() {
  if constexpr (GROUPS == 1)
    __syncthreads();
  else
    meet_some(1 + own_group(), GROUP_THREADS);
}

template <class Of> struct Vector;
template <> struct alignas(N < 4 ? N * 8 : 16) Vector<float> {
  float x[U];
};
template <> struct alignas(N * 4) Vector<Half> {
  u32 x[N];  // two in each: alone, each would take a register
};

DEVICE float number(const Vector<float> &vector, int u) { return vector.x[u]; }
DEVICE float number(const Vector<Half> &vector, int u) {
  return __uint_as_float(u % 2 ? vector.x[u / 2] & 0xffff0000 : vector.x[u / 2] << 16);
}
template <class Of> DEVICE Vector<Of> load_vector(const Of *from) { return *(const Vector<Of> *)from; }
DEVICE void store_vector(float *to, const float (&x)[U]) {
  Vector<float> all;
#pragma unroll
  for (int u = 0; u < U; ++u) all.x[u] = x[u];
  *(Vector<float> *)to = all;
}
DEVICE void store_vector(Half *to, const float (&x)[U]) {
  Vector<Half> all;
#pragma unroll
  for (int n = 0; n < N; ++n) all.x[n] = both(x[n * 2], x[n * 2 + 1]);
  *(Vector<Half> *)to = all;
}

// ------------------------------------------------------------------------------------------- programs of a cluster

#if __CUDA_ARCH__ >= 900
// once in a phase: how much will come
DEVICE void expect(u32 counter, int bytes) {
  if (place_in_group() == 0) expect_bytes(counter, bytes);
}
DEVICE void await_bytes(u32 counter, int phase) {
  while (!has_come(counter, phase)) {
  }
}

// A tile is what the threads of a warp hold of 16 rows and 8 units, one after another: it is sent in long pieces, few of
// them, for each takes its time; and threads multiply it as it is.
constexpr int TILE = 128 * (PRECISION == 16 ? 2 : 4);

// a tile to the same place in every program, the next one's first: or all would send to the same at once
DEVICE void send_tile(u32 to, const float (&x)[4], u32 counter) {
  const int lane = threadIdx.x % 32;
  if constexpr (PRECISION == 16) {  // pairs of threads put their numbers together, and share the programs
    const u32 low = both(x[0], x[1]), high = both(x[2], x[3]);
    const u32 other_low = of_neighbour(low), other_high = of_neighbour(high);
    const bool is_first = lane % 2 == 0;
    const u32 bits[4] = {is_first ? low : other_low, is_first ? high : other_high, is_first ? other_low : low,
                         is_first ? other_high : high};
#pragma unroll
    for (int i = 0; i < PROGRAMS; i += 2) {
      const int program = (i + lane % 2 + blockIdx.x) % PROGRAMS;
      send(in_program(to + lane / 2 * 16, program), bits, in_program(counter, program));
    }
  } else {
    const u32 bits[4] = {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3])};
#pragma unroll
    for (int i = 0; i < PROGRAMS; ++i) {
      const int program = (i + blockIdx.x) % PROGRAMS;
      send(in_program(to + lane * 16, program), bits, in_program(counter, program));
    }
  }
}

// Sums that each program has a part of: those of a warp's place go to the warp of that place in the program whose units
// they are. There is room for the sums of every program's every thread.
template <int M> DEVICE void send_parts(u32 to, const float (&parts)[PROGRAMS][M][1][4], u32 counter) {
  const int place = (blockIdx.x * THREADS + threadIdx.x) * M * 16;
#pragma unroll
  for (int program = 0; program < PROGRAMS; ++program)
#pragma unroll
    for (int m = 0; m < M; ++m) {
      u32 bits[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(parts[program][m][0][i]);
      send(in_program(to + place + m * 16, program), bits, in_program(counter, program));
    }
}
template <int M> DEVICE void add_parts(float (&sums)[M][1][4], const char *from) {
#pragma unroll
  for (int program = 0; program < PROGRAMS; ++program)
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const float4 part = *(const float4 *)(from + (program * THREADS + threadIdx.x) * M * 16 + m * 16);
      sums[m][0][0] += part.x, sums[m][0][1] += part.y, sums[m][0][2] += part.z, sums[m][0][3] += part.w;
    }
}
#endif

// ------------------------------------------------------------------------------------------------------- relays

// A relay has a cluster for each leg of the way. In each of its programs one more warp tells other legs of the moments
// that are done, and looks how far they are; it does so beside the others, for both take their time. What it saw is in
// one of two words of shared memory in turn: the others read what it wrote before they last met it.
#if __CUDA_ARCH__ >= 900
// where programs of another leg tell of the same sequences
struct Told {
  const int *flags;
  int count, stride;
  DEVICE int seen_by(int lane) const { return lane < count ? seen(flags + lane * stride) : 1 << 30; }
};

// a warp waits until others have told of so many moments
DEVICE void wait_for(const Told &told, int steps) {
  while (!__all_sync(~0u, told.seen_by(threadIdx.x % 32) >= steps)) {
  }
  __syncwarp();
}
#endif

// where a unit's column lies in shared memory, so that the units of a thread are neighbours and the columns of a tile too
DEVICE int column_of(int unit) {
  const int inside = unit % (8 * N), thread = inside / U, rest = inside % U;
  return unit - inside + rest / 2 * 8 + thread * 2 + rest % 2;
}

// rows of a matrix, one for each unit of each of its gates, to stay
DEVICE void keep_units(u32 to, int kept_stride, const char *from, int count, int bytes) {
  const int pieces = bytes / 16;
  for (int i = threadIdx.x; i < count * pieces; i += THREADS)
    copy16(to + column_of(i / pieces) * kept_stride + i % pieces * 16, from + (i64)i * 16, true);
}

// a group's rows of a state, so many bytes each, to where products find them
DEVICE void bring_rows(u32 to, int kept_stride, const char *from, int row_bytes, int count) {
  const int pieces = row_bytes / 16;
  for (int i = place_in_group(); i < count * pieces; i += GROUP_THREADS)
    copy16(to + i / pieces * kept_stride + i % pieces * 16, from + (i64)i * 16, true);
}

// a group asks for lines of memory to be brought nearer
DEVICE void ask_ahead(const char *from, int bytes) {
#pragma unroll 1
  for (int at = (place_in_group() * PROGRAMS + blockIdx.x) * 128; at < bytes; at += PROGRAMS * GROUP_THREADS * 128)
    bring_nearer(from + at);
}

// 16 rows of tiles as the matrix units take them
DEVICE void load_tiled(u32 (&a)[4], u32 from) {
  const int lane = threadIdx.x % 32;
  if constexpr (PRECISION == 16) {
    u32 low[2], high[2];
    load_numbers(low, from + lane * 8);
    load_numbers(high, from + 256 + lane * 8);
    a[0] = low[0], a[1] = low[1], a[2] = high[0], a[3] = high[1];
  } else {  // of 8 units those that a thread has come first and fifth: so `load_right` takes them too
    u32 x[4];
    load_numbers(x, from + lane * 16);
    a[0] = x[0], a[1] = x[2], a[2] = x[1], a[3] = x[3];
  }
}
// 8 columns, two steps deep; `from` is the thread's place in them
template <bool IS_TILED> DEVICE void load_right(u32 (&b)[4], u32 from) {
  if constexpr (IS_TILED && PRECISION != 16) {
    u32 low[2], high[2];
    load_numbers(low, from);
    load_numbers(high, from + STEP);
    b[0] = low[0], b[1] = low[1], b[2] = high[0], b[3] = high[1];
  } else {
    load_tiles(b, from);
  }
}

// G gates, M times 16 rows, N tiles: `sums` += rows of `left` times columns of `right`, so many bytes deep. Rows may lie
// as tiles. Where there are few sums, there are two of each: or every product would wait for the one before. (Of float32
// numbers each product is a sum of its own already.)
template <int G, bool IS_TILED, int M, int N>
DEVICE void multiply_all(float (&sums)[G][M][N][4], u32 left, int left_stride, u32 right, int right_stride,
                         int gate_bytes, int depth) {
  constexpr bool ARE_FEW = G * M * N <= 2 && PRECISION != 32;
  const int lane = threadIdx.x % 32;
  if constexpr (!IS_TILED) left += lane % 16 * left_stride + lane / 16 * 16;
  if constexpr (IS_TILED && PRECISION != 16)
    right += lane / 4 * right_stride + lane % 4 * 8;
  else
    right += lane % 8 * right_stride + lane / 8 * 16;  // two steps of a tile at once
  float second[G][M][N][4] = {};
  int at = 0;
#pragma unroll (PROGRAMS == 1 ? 1 : PRECISION == 32 ? 2 : 4)
  for (; at + 2 * STEP <= depth; at += 2 * STEP) {
    u32 a[2][M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if constexpr (IS_TILED)
          load_tiled(a[i][m], left + m * 16 * left_stride + (at + i * STEP) * 16);
        else
          load_tiles(a[i][m], left + m * 16 * left_stride + at + i * STEP);
#pragma unroll
    for (int g = 0; g < G; ++g)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        u32 b[4];
        load_right<IS_TILED>(b, right + g * gate_bytes + n * 8 * right_stride + at);
#pragma unroll
        for (int m = 0; m < M; ++m)
          if constexpr (ARE_FEW) {
            multiply(sums[g][m][n], a[0][m], b[0], b[1]);
            multiply(second[g][m][n], a[1][m], b[2], b[3]);
          } else {
            multiply(sums[g][m][n], a[0][m], a[1][m], b);
          }
      }
  }
  if constexpr (ARE_FEW)
#pragma unroll
    for (int i = 0; i < G * M * N * 4; ++i) (&sums[0][0][0][0])[i] += (&second[0][0][0][0])[i];
  if (!IS_TILED && at < depth) {
    u32 a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) load_tiles(a[m], left + m * 16 * left_stride + at);
#pragma unroll
    for (int g = 0; g < G; ++g)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        u32 b[2];
        load_tiles(b, right + g * gate_bytes + n * 8 * right_stride + at);
#pragma unroll
        for (int m = 0; m < M; ++m) multiply(sums[g][m][n], a[m], b[0], b[1]);
      }
  }
}

// The same of tiles, where the warp's part of the matrix stays in registers: two steps at a time, gates, tiles of 8 columns.
template <int STEPS, int G, int N>
DEVICE void keep_right(u32 (&kept)[STEPS][G][N][4], u32 right, int right_stride, int gate_bytes) {
  const int lane = threadIdx.x % 32;
  right += PRECISION == 16 ? lane % 8 * right_stride + lane / 8 * 16 : lane / 4 * right_stride + lane % 4 * 8;
#pragma unroll
  for (int at = 0; at < STEPS; ++at)
#pragma unroll
    for (int g = 0; g < G; ++g)
#pragma unroll
      for (int n = 0; n < N; ++n)
        load_right<true>(kept[at][g][n], right + g * gate_bytes + n * 8 * right_stride + at * 2 * STEP);
}
template <int STEPS, int G, int M, int N>
DEVICE void multiply_kept(float (&sums)[G][M][N][4], u32 left, int left_stride, const u32 (&kept)[STEPS][G][N][4]) {
  constexpr bool ARE_FEW = M == 1 && PRECISION != 32;  // or every product would wait for the one before
  float second[G][M][N][4] = {};
#pragma unroll
  for (int at = 0; at < STEPS; ++at) {
    u32 a[2][M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) load_tiled(a[i][m], left + m * 16 * left_stride + (at * 2 + i) * STEP * 16);
#pragma unroll
    for (int g = 0; g < G; ++g)
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const u32 (&b)[4] = kept[at][g][n];
#pragma unroll
        for (int m = 0; m < M; ++m)
          if constexpr (ARE_FEW) {
            multiply(sums[g][m][n], a[0][m], b[0], b[1]);
            multiply(second[g][m][n], a[1][m], b[2], b[3]);
          } else {
            multiply(sums[g][m][n], a[0][m], a[1][m], b);
          }
      }
  }
  if constexpr (ARE_FEW)
#pragma unroll
    for (int i = 0; i < G * M * N * 4; ++i) (&sums[0][0][0][0])[i] += (&second[0][0][0][0])[i];
}

// 16 rows as the matrix units take them, 32 bytes deep, straight from memory
DEVICE void load_left(u32 (&a)[4], const char *from, int row_bytes, int live) {
  const int lane = threadIdx.x % 32, row = lane / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool is_there = row + i % 2 * 8 < live;
    a[i] = is_there ? *(const u32 *)(from + (row + i % 2 * 8) * row_bytes + i / 2 * 16 + lane % 4 * 4) : 0;
  }
}

// the same product as above of such rows
template <int M, int N>
DEVICE void multiply_memory(float (&sums)[M][N][4], const char *left, int left_stride, int live, u32 right,
                            int right_stride, int num_steps) {
  const int lane = threadIdx.x % 32;
  right += lane % 8 * right_stride + lane / 8 % 2 * 16;
#pragma unroll 1
  for (int step = 0; step < num_steps; ++step) {
    u32 a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
      load_left(a[m], left + m * 16 * left_stride + step * STEP, left_stride, live - m * 16);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      u32 b[2];
      load_tiles(b, right + n * 8 * right_stride + step * STEP);
#pragma unroll
      for (int m = 0; m < M; ++m) multiply(sums[m][n], a[m], b[0], b[1]);
    }
  }
}
